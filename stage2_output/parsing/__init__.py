"""Read one JSON value at a position of a text, strictly or leniently.

This room knows neither schemas nor the text around the value. Modules:
    errors       the result of lenient parsing, and the error that ends it
    strict       standard JSON, with the scanner of the `json` module
    whitespace   white space and comments between the parts of JSON
    bare_values  numbers, literals and strings without quotes
    quotes       decides which quote closes a string
    strings      strings in any kind of quotes
    nesting      the stack of open objects and arrays
    encoded      JSON inside a JSON string
    lenient      the tolerant parser, which names every repair
"""
