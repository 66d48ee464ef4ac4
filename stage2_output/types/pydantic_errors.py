"""Convert pydantic's errors to issues, with JSON pointers and without the values they repeat.

The text of a developer's own validator is kept, because it is meant for the model. Used by
`typed_schema.py` for values that fit the JSON Schema of their type.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from traceback import walk_tb
from typing import Any

from stage2_output.result import Issue
from stage2_output.validation.issues import collect
from stage2_output.validation.suggestions import pointer_step

ErrorDetails = Mapping[str, Any]
"""`pydantic_core.ErrorDetails`, without importing it."""

_LONGEST = 500
# Errors that the JSON Schema also finds. For a value that fits the schema, they belong to
# alternatives that were not meant.
_SCHEMA_ERRORS = re.compile(
    r"missing|extra_forbidden|literal_error|enum|none_required|union_tag_.*|.*_type"
    r"|string_(too_|pattern_).*|too_(short|long)|(greater|less)_than.*|multiple_of"
)
# Messages for errors whose own message repeats a value or mentions Python.
_MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "is not a known property",
    "int_type": "must be integer",
    "json_invalid": "must be text that is valid JSON",
    "bytes_invalid_encoding": "must be {encoding} as text",
    "uuid_parsing": "must be a valid UUID",
    "byte_size_unit": "must have a known unit",
    "zoneinfo_str": "must be a known time zone",
    "import_error": "must name something that can be imported",
    "union_tag_invalid": "must have a known value in {discriminator}",
}
_SUBJECT = re.compile(r"^(?:Decimal input|[A-Z]\w+) should (?=be |not |have |match )")


def issues_of_pydantic(errors: Sequence[ErrorDetails], value: Any) -> tuple[Issue, ...]:
    """Convert pydantic's errors to issues.

    Args:
        errors: The errors.
        value: The value that pydantic read as JSON.
    """
    own = [error for error in errors if not _SCHEMA_ERRORS.fullmatch(error["type"])]
    return collect(_issue(error, value) for error in own or errors)


def _issue(error: ErrorDetails, value: Any) -> Issue:
    pointer = "".join(map(pointer_step, _path(error, value)))
    return Issue(pointer, _message(error)[:_LONGEST], error["type"])


def _path(error: ErrorDetails, value: Any) -> Iterator[str | int]:
    """Yield the path to the invalid part, without the names of types that pydantic adds."""
    for name in error["loc"]:
        if isinstance(value, dict) and str(name) in value:
            name = str(name)
        elif not (isinstance(value, list) and isinstance(name, int) and name < len(value)):
            continue
        yield name
        value = value[name]
    if error["type"] == "missing":
        yield error["loc"][-1]


def _message(error: ErrorDetails) -> str:
    error_type, message, context = error["type"], error["msg"], error.get("ctx", {})
    if error_type in ("value_error", "assertion_error"):
        return _validator_message(context, message)
    if error_type in _MESSAGES:
        return _MESSAGES[error_type].format(**context)
    return _SUBJECT.sub("must ", message) if _SUBJECT.match(message) else _unfit(message)


def _validator_message(context: Mapping[str, Any], message: str) -> str:
    """Return the message of a validator, but not one of the standard library."""
    error, reason = context.get("error"), context.get("reason")
    if not isinstance(error, Exception):
        # Only the error of an email address has a reason, which repeats parts of the address.
        return _unfit(message if reason is None else message.removesuffix(f": {reason}"))
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    module = frames[-1].f_globals.get("__name__", "") if frames else ""
    is_library = module.partition(".")[0] in sys.stdlib_module_names - {"__main__"}
    return _unfit("" if is_library else str(error))


def _unfit(message: str) -> str:
    return f"does not fit: {message}" if message else "is not valid"
