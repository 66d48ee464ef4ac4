"""Confirm quickly that a value is valid, with the `jsonschema-rs` library of the `[fast]` extra.

`jsonschema-rs` is much faster than `jsonschema`, but the libraries disagree about some keywords,
large numbers and values that are not JSON. It is used only for schemas on which both agree, and
only its "valid" counts. `jsonschema` decides in all other cases. Used by `schema.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from itertools import islice
from typing import Any

from stage2_output.validation.subschemas import Schema

Confirm = Callable[[Any], bool]
"""Returns True if a value is certainly valid; False leaves the decision open."""

_DRAFTS = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema")
# Keywords on which the libraries disagree, or which may be slow.
_EXCLUDED_KEYWORDS = {
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
_MOST_SUBSCHEMAS = 5_000  # including those behind references, so recursive schemas are excluded
_MOST_LEVELS = 100  # far below the depth at which the library would overflow the stack
_LARGEST = 2**53  # a float represents every integer up to this one
_OTHER_TYPES = {str, bool, type(None)}


def never(value: Any) -> bool:
    """Confirm no value."""
    return False


def confirmation(schema: Schema, subschemas: Iterable[Mapping[str, Any]]) -> Confirm:
    """Return a function that may confirm that a value is valid.

    Args:
        schema: A valid JSON Schema.
        subschemas: All schemas in it, including the targets of references.
    """
    is_installed = find_spec("jsonschema_rs") is not None
    if isinstance(schema, bool) or not is_installed or not _libraries_agree(schema, subschemas):
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


def _libraries_agree(schema: Mapping[str, Any], subschemas: Iterable[Mapping[str, Any]]) -> bool:
    """Whether both libraries agree about every plain JSON value."""
    if schema.get("$schema", _DRAFTS[0]).rstrip("#") not in _DRAFTS:
        return False
    parts = [*islice(subschemas, _MOST_SUBSCHEMAS)]
    has_accepted_keywords = all(map(_EXCLUDED_KEYWORDS.isdisjoint, parts))
    return len(parts) < _MOST_SUBSCHEMAS and has_accepted_keywords and _is_plain_json(schema)


def _is_plain_json(value: Any) -> bool:
    """Whether a value consists of JSON types, is not deep, and its numbers are exact as floats."""
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
    """Whether an exception is a library's failure; panics of Rust code are not `Exception`s."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
