"""Stage 2: can this raw text be trusted as data?

Text goes in that a model wrote; out comes a value that fits its schema, or everything that is wrong
with it and the feedback that lets the model mend it. Imports no other stage.

Reading order:
    errors       what can be wrong with a text, and with a schema
    strict       JSON as the standard has it
    damage       what can be mended, each under a name; and what cannot
    gaps         white space and comments
    words        numbers, literals, text without quotes
    quotes       which quote ends a string
    strings      strings of all kinds of quotes
    nesting      the objects and arrays that are open
    cursor       where reading has come to
    repair       damaged JSON, part by part
    encoded      JSON that was written as a string
    clues        what the text around a bracket tells
    thinking     thinking blocks: where they begin and end
    wrapping     fences, thoughts and tags
    candidates   every value in a text
    extract      the value that was meant
    partial      what can be shown of JSON that is still being written
    names        names in words for a model
    patterns     match the patterns of a schema, with a time limit
    keys         keys that are missing, unknown, or meant for each other
    branches     of several alternatives, the one that was meant
    sentences    what each rule asks for, in words
    issues       everything that is wrong with a value
    subschemas   the schemas in a JSON Schema
    confirm      confirm valid values quickly, with the extra [fast]
    equality     when JSON Schema calls two values equal
    keywords     keywords that differ from those of the jsonschema library
    schema       compile a JSON Schema once, ask about many values
    result       what became of a text
    feedback     what the model is told
    asking       ask, check, tell, ask again
    controller   OutputController: all of it together

Sometimes:
    conversions  changes of type that lose nothing
    coercion     put wrong types right, where that is asked for
    refusals     what pydantic finds wrong, in the same words
    unions       values that pydantic would take too long to read
    typed        pydantic models and types as schemas

    text ──▶ candidates ──▶ schema ──▶ data
                 │             │
                 └─▶ feedback ◀┘ ──▶ the model, once more
"""

from stage2_output.controller import OutputController
from stage2_output.errors import ExtractionError, InvalidSchema, OutputError
from stage2_output.extract import extract_json, find_json
from stage2_output.extraction.candidates import Extraction
from stage2_output.extraction.thinking import without_thinking
from stage2_output.feedback import feedback, issue_lines
from stage2_output.parsing.errors import Repair
from stage2_output.partial import parse_partial
from stage2_output.result import ParseResult
from stage2_output.schema import CompiledSchema
from stage2_output.validation.issues import Issue
from stage2_output.validation.suggestions import nearest

__all__ = [
    "CompiledSchema",
    "Extraction",
    "ExtractionError",
    "InvalidSchema",
    "Issue",
    "OutputController",
    "OutputError",
    "ParseResult",
    "Repair",
    "extract_json",
    "feedback",
    "find_json",
    "issue_lines",
    "nearest",
    "parse_partial",
    "without_thinking",
]
