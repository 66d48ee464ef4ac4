"""Check values against a JSON Schema and describe every error in words for a model.

The `jsonschema` library decides whether a value is valid. Modules:
    suggestions      format names for a sentence, and find the nearest known name
    patterns         match the patterns of a schema, with a time limit
    subschemas       iterate over the schemas in a JSON Schema
    confirm          confirm valid values quickly, with the `[fast]` extra
    json_values      types and equality of JSON values
    messages         one sentence for each keyword
    property_errors  missing and unknown keys of an object
    union_errors     errors of `anyOf` and `oneOf`
    issues           convert the library's errors to issues
    keywords         keywords with an implementation of our own
"""
