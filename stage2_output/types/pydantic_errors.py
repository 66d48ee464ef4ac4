"""What pydantic refuses, as issues: with JSON pointers, and without the values that its messages
repeat.

A developer's own words are kept, whoever they may be read by: what a validator raises is meant for
the model. Used by `typed.py`, for what is wrong with a value that fits the JSON Schema of its type.
"""

import re
import sys
from collections.abc import Iterator
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from stage2_output.validation.issues import Issue, gathered
from stage2_output.validation.suggestions import step

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LONGEST = 500
# What a JSON Schema says, too. A value that fits it meets these in alternatives only that were not
# meant.
_SAID_BY_SCHEMAS = re.compile(
    r"missing|extra_forbidden|literal_error|enum|none_required|union_tag_.*|.*_type|string_(too_|pattern_).*"
    r"|too_(short|long)|(greater|less)_than.*|multiple_of"
)
# Messages that repeat a value, or speak of Python.
_OWN_WORDS = {
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
_EMAIL = "value is not a valid email address"
_SUBJECT = re.compile(r"^(?:Decimal input|[A-Z]\w+) should (?=be |not |have |match )")


def issues_of_refusal(found: list["ErrorDetails"], value: Any) -> tuple[Issue, ...]:
    """Put what pydantic found into words.

    Args:
        found: The errors that it told.
        value: The value, which it read as JSON.
    """
    unsaid = [each for each in found if not _SAID_BY_SCHEMAS.fullmatch(each["type"])]
    return gathered(_issue(each, value) for each in unsaid or found)


def places_of(found: list["ErrorDetails"], kind: str, value: Any) -> list[list[str | int]]:
    """The places, as steps through the value, of the errors of one type."""
    return [[*_steps(each, value)] for each in found if each["type"] == kind]


def _issue(found: "ErrorDetails", value: Any) -> Issue:
    path = "".join(map(step, _steps(found, value)))
    return Issue(path, _words(found)[:_LONGEST], found["type"])


def _steps(found: "ErrorDetails", value: Any) -> Iterator[str | int]:
    """The way to the place. Pydantic puts the names of types and validators in between, which are
    no steps.
    """
    for name in found["loc"]:
        if isinstance(value, dict) and str(name) in value:
            name = str(name)
        elif not (isinstance(value, list) and isinstance(name, int) and name < len(value)):
            continue
        yield name
        value = value[name]
    if found["type"] == "missing":
        yield found["loc"][-1]


def _words(found: "ErrorDetails") -> str:
    kind, message, context = found["type"], found["msg"], found.get("ctx", {})
    if kind in ("value_error", "assertion_error"):
        return _raised(context.get("error"), message)
    if kind in _OWN_WORDS:
        return _OWN_WORDS[kind].format(**context)
    return _SUBJECT.sub("must ", message) if _SUBJECT.match(message) else _unfit(message)


def _raised(error: Any, message: str) -> str:
    """The words of whoever raised; a library's would repeat the value."""
    if not isinstance(error, Exception):
        return _unfit(_EMAIL if message.startswith(_EMAIL) else message)
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    module = frames[-1].f_globals.get("__name__", "") if frames else ""
    return _unfit(
        "" if module.partition(".")[0] in sys.stdlib_module_names - {"__main__"} else str(error)
    )


def _unfit(words: str) -> str:
    return f"does not fit: {words}" if words else "is not valid"
