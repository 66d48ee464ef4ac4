"""Describe each keyword of JSON Schema in words that follow a JSON pointer.

    "/age" *must be at least 0*

Every keyword has one sentence, which never contains the value. Keywords about the keys of objects
and about alternatives need more; `issues.py`, which uses this module, describes them.
"""

import json
from typing import Any

from stage2_output.validation.json_values import json_type
from stage2_output.validation.property_errors import ValidationError

_LONGEST = 200
_ANYTHING: tuple[Any, ...] = (True, {})

_SENTENCES = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "pattern": "must match the pattern {}",
    "const": "must be {}",
    "format": "must have the format {}",
    "enum": "must be one of {}",
    "minLength": "must have {} or more characters",
    "maxLength": "must have {} or fewer characters",
    "minItems": "must have {} or more items",
    "maxItems": "must have {} or fewer items",
    "minProperties": "must have {} or more properties",
    "maxProperties": "must have {} or fewer properties",
    "contains": "must have at least 1 item that fits {}",
    "minContains": "must have {} or more matching items",
    "maxContains": "must have {} or fewer matching items",
    "uniqueItems": "must not contain equal items",
    "propertyNames": "has a name that does not fit {}",
    "not": "must not fit {}",
    "oneOf": "fits more than one of several alternatives; it must fit exactly one",
}


def describe(error: ValidationError) -> str:
    """Return the description of an error of the library, without its JSON pointer."""
    rule, expected = str(error.validator), error.validator_value
    if rule == "type":
        return f"must be {type_names(expected)}, not {json_type(error.instance)}"
    if rule == "not" and expected in _ANYTHING:
        return "is not allowed"
    if rule in ("minimum", "maximum") and error.schema.get(f"exclusive{rule.capitalize()}") is True:
        rule = f"exclusive{rule.capitalize()}"  # draft 4 writes it as two keywords
    if rule in _SENTENCES:
        return _SENTENCES[rule].format(as_json(expected))
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
