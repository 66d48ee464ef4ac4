"""Confirm quickly that a value is valid, with the `jsonschema-rs` library of the extra [fast].

It takes a fraction of the time of `jsonschema`, but both disagree about some keywords, large
numbers and values that are not JSON. It is asked only where both agree, and only its "valid"
counts: everything else is left to `jsonschema`. Used by `schema.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from itertools import islice
from typing import Any

from stage2_output.validation.subschemas import Schema

Confirm = Callable[[Any], bool]
"""Returns True if a value is known to be valid; False says nothing."""

_DRAFTS = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema")
# Keywords about which both differ, or which may take long.
_LEFT_OUT = {
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "contentEncoding",
    "contentMediaType",
    "format",
    "multipleOf",
    "pattern",
    "patternProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
}
_MOST_SUBSCHEMAS = 5_000  # with those behind references, so that no recursive schema is among them
_MOST_LEVELS = 100  # far below the depth at which the library would overflow the stack
_LARGEST = 2**53  # up to which a float holds every integer
_OTHER_TYPES = {str, bool, type(None)}


def never(value: Any) -> bool:
    """Confirm nothing."""
    return False


def confirmation(schema: Schema, subschemas: Iterable[Mapping[str, Any]]) -> Confirm:
    """A function that may confirm that a value is valid.

    Args:
        schema: A valid JSON Schema.
        subschemas: The schemas in it, with those that references lead to.
    """
    if (
        isinstance(schema, bool)
        or find_spec("jsonschema_rs") is None
        or not _agree(schema, subschemas)
    ):
        return never
    import jsonschema_rs

    try:
        is_valid = jsonschema_rs.validator_for(dict(schema), offline=True).is_valid
    except BaseException as error:
        if not is_failure(error):
            raise
        return never

    def confirm(value: Any) -> bool:
        try:
            return _is_plain_json(value) and is_valid(value)
        except BaseException as error:
            if not is_failure(error):
                raise
            return False

    return confirm


def _agree(schema: Mapping[str, Any], subschemas: Iterable[Mapping[str, Any]]) -> bool:
    """Whether both libraries agree about every value that is plain JSON."""
    if schema.get("$schema", _DRAFTS[0]).rstrip("#") not in _DRAFTS:
        return False
    several = [*islice(subschemas, _MOST_SUBSCHEMAS)]
    keywords = {keyword for each in several for keyword in each}
    return (
        len(several) < _MOST_SUBSCHEMAS
        and _LEFT_OUT.isdisjoint(keywords)
        and _is_plain_json(schema)
    )


def _is_plain_json(value: Any) -> bool:
    """Whether a value is what `json.loads` gives, is not deep, and its numbers are small enough to
    be exact.
    """
    level = [value]
    for _ in range(_MOST_LEVELS):
        deeper: list[Any] = []
        for part in level:
            kind = type(part)
            if kind is dict:
                deeper += part.values()
            elif kind is list:
                deeper += part
            elif kind is int or kind is float:
                if not -_LARGEST <= part <= _LARGEST:
                    return False
            elif kind not in _OTHER_TYPES:
                return False
        if not deeper:
            return True
        level = deeper
    return False


def is_failure(error: BaseException) -> bool:
    """Whether a library failed; panics of libraries in Rust are not of the type `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
