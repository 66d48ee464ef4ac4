"""Describe each keyword of JSON Schema in words that follow a JSON pointer.

    "/age" *must be at least 0*

Every keyword has one sentence, which never contains the value. Keywords about the keys of objects
and about alternatives need more; `issues.py`, which uses this module, describes them.
"""

import json
from collections.abc import Callable
from typing import Any

from stage2_output.validation.json_values import json_type
from stage2_output.validation.property_errors import ValidationError

_LONGEST = 200
_ANYTHING: tuple[Any, ...] = (True, {})

# Keywords with one limit.
_LIMITS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "pattern": "must match the pattern {}",
    "const": "must be {}",
    "format": "must have the format {}",
    "enum": "must be one of {}",
    "contains": "must have at least 1 item that fits {}",
    "propertyNames": "has a name that does not fit {}",
    "oneOf": "fits more than one of several alternatives; it must fit exactly one",
}
# Keywords that count.
_SIZES = {
    "minLength": ("at least", "character"),
    "maxLength": ("at most", "character"),
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "property"),
    "maxProperties": ("at most", "property"),
    "minContains": ("at least", "matching item"),
    "maxContains": ("at most", "matching item"),
}


def describe(error: ValidationError) -> str:
    """Return the description of an error of the library, without its JSON pointer."""
    rule, expected = str(error.validator), error.validator_value
    if rule in _SIZES:
        comparison, noun = _SIZES[rule]
        return f"must have {comparison} {_counted(expected, noun)}"
    if rule in _DESCRIPTIONS:
        return _DESCRIPTIONS[rule](error)
    if rule in ("minimum", "maximum") and error.schema.get(f"exclusive{rule.capitalize()}") is True:
        rule = f"exclusive{rule.capitalize()}"  # draft 4 writes it as two keywords
    if rule in _LIMITS:
        return _LIMITS[rule].format(as_json(expected))
    return f"must fit {as_json({rule: expected})}"


def type_names(types: Any) -> str:
    """Return one type of JSON Schema, or several joined by "or"."""
    names = types if isinstance(types, list) else [types]
    return " or ".join(map(str, names))


def requirement(schema: Any) -> str:
    """Return a short description of a schema, in round brackets; "" for longer ones."""
    match schema:
        case {"const": constant}:
            return f" ({as_json(constant)})"
        case {"enum": [_, *_] as values}:
            return f" (one of {as_json(values)})"
        case {"type": types}:
            return f" ({type_names(types)})"
        case {"anyOf": [_, *_] as parts} if all(
            isinstance(part, dict) and "type" in part for part in parts
        ):
            return f" ({' or '.join(type_names(part['type']) for part in parts)})"
    return ""


def as_json(value: Any) -> str:
    """Return a part of a schema as JSON, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


def _type(error: ValidationError) -> str:
    return f"must be {type_names(error.validator_value)}, not {json_type(error.instance)}"


def _not(error: ValidationError) -> str:
    excluded = error.validator_value
    return "is not allowed" if excluded in _ANYTHING else f"must not fit {as_json(excluded)}"


def _unique_items(error: ValidationError) -> str:
    """Name two equal items if they look the same; equal numbers can look different."""
    first_index: dict[str, int] = {}
    for index, item in enumerate(error.instance):
        first = first_index.setdefault(json.dumps(item, sort_keys=True, default=repr), index)
        if first != index:
            return f"must not contain equal items; items {first} and {index} are equal"
    return "must not contain equal items"


def _items(error: ValidationError) -> str:
    keyword = "items" if error.validator == "additionalItems" else "prefixItems"
    return f"must have at most {_counted(len(error.schema.get(keyword, ())), 'item')}"


def _counted(number: Any, noun: str) -> str:
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{as_json(number)} {noun if number == 1 else plural}"


_DESCRIPTIONS: dict[str, Callable[[ValidationError], str]] = {
    "type": _type,
    "not": _not,
    "uniqueItems": _unique_items,
    "items": _items,
    "additionalItems": _items,
}
