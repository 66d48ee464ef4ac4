"""Stage 2: can this raw text be trusted as data?

Text goes in that a model wrote; out comes a value that fits its schema, or everything that is wrong with it
and the feedback that lets the model mend it. Imports no other stage.

Reading order:
    errors      what can be wrong with a text, and with a schema
    extract     find the JSON in prose, fences and thinking
    issues      one thing that is wrong, in words
    schema      compile a JSON Schema once, ask about many values
    result      what became of a text
    feedback    what the model is told
    controller  OutputController: find, check, ask again

    extract ──▶ schema ──▶ data
       │           │
       └──▶ feedback ──▶ the model, once more
"""

from stage2_output.controller import OutputController
from stage2_output.errors import ExtractionError, InvalidSchema, OutputError
from stage2_output.extract import Extraction, extract_json
from stage2_output.feedback import feedback, issue_lines
from stage2_output.issues import Issue, nearest
from stage2_output.result import ParseResult
from stage2_output.schema import CompiledSchema

__all__ = [
    "CompiledSchema",
    "Extraction",
    "ExtractionError",
    "InvalidSchema",
    "Issue",
    "OutputController",
    "OutputError",
    "ParseResult",
    "extract_json",
    "feedback",
    "issue_lines",
    "nearest",
]
