"""Stage 2: can this raw text be trusted as data?

The stage converts a model's text to a value that is valid for a schema, or to a complete list of
issues and feedback for the model. It imports no other stage.

Reading order:
    errors      invalid text, and invalid schemas
    result      extractions, repairs, issues and the final result
    extract     find all JSON in a text, and choose the most likely answer
    schema      compile a JSON Schema once, and check many values
    feedback    describe issues to a model
    request     build requests for data and their corrections
    controller  OutputController: parse, validate, request
    partial     show JSON while a model is still writing it

Rooms:
    parsing/     read one JSON value, strictly or leniently
    extraction/  find JSON values in a text with fences, tags and thinking blocks
    validation/  check values against a JSON Schema, and describe every issue
    types/       pydantic types as schemas, and exact type conversions

    text ──▶ candidates ──▶ schema ──▶ data
                 │             │
                 └─▶ feedback ◀┘ ──▶ the model, once more
"""

from stage2_output.controller import OutputController
from stage2_output.errors import ExtractionError, InvalidSchema, OutputError
from stage2_output.extract import extract_json, find_json
from stage2_output.extraction.thinking import ThinkingBlock, thinking_blocks, without_thinking
from stage2_output.feedback import feedback, issue_lines
from stage2_output.partial import parse_partial
from stage2_output.result import Extraction, Issue, ParseResult, Repair
from stage2_output.schema import CompiledSchema
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
    "ThinkingBlock",
    "extract_json",
    "feedback",
    "find_json",
    "issue_lines",
    "nearest",
    "parse_partial",
    "thinking_blocks",
    "without_thinking",
]
