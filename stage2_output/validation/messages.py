"""What each rule of a JSON Schema asks for, as the words behind a place: "/age" *must be at least
0*.

One sentence for every keyword of the drafts, without the value. Rules about the keys of objects and
about alternatives need more than a sentence: they are told in `issues.py`, which uses this.
"""

import json
from collections.abc import Callable
from typing import Any

from stage2_output.validation.property_errors import ValidationError

_TYPE_NAMES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
_LONGEST = 200
_ANYTHING: tuple[Any, ...] = (True, {})

# Rules that compare with one number or text.
_LIMITS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "divisibleBy": "must be a multiple of {}",
    "pattern": "must match the pattern {}",
    "const": "must be {}",
    "format": "must have the format {}",
    "enum": "must be one of {}",
    "unevaluatedProperties": "must fit {}",
    "unevaluatedItems": "has items that do not fit {}",
    "disallow": "must not be {}",
}
# Rules that count.
_SIZES = {
    "minLength": ("at least", "character"),
    "maxLength": ("at most", "character"),
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "property"),
    "maxProperties": ("at most", "property"),
}


def sentence(error: ValidationError) -> str:
    """The words for an error of the library, to stand behind its place."""
    rule, expected = str(error.validator), error.validator_value
    if rule in _SIZES:
        how, noun = _SIZES[rule]
        return f"must have {how} {_counted(expected, noun)}"
    if rule in _OWN:
        return _OWN[rule](error)
    if rule in ("minimum", "maximum") and error.schema.get(f"exclusive{rule.capitalize()}") is True:
        rule = f"exclusive{rule.capitalize()}"  # draft 4 writes it as two rules
    known = _LIMITS.get(rule)
    return known.format(short(expected)) if known else f"must fit {short({rule: expected})}"


def either(types: Any) -> str:
    """One type or several, as JSON Schema names them."""
    return " or ".join(map(_name, types)) if isinstance(types, list) else _name(types)


def type_of(value: Any) -> str:
    """The type of a value, as JSON Schema names it; what is no value of JSON is called what Python
    calls it.
    """
    return _TYPE_NAMES.get(type(value)) or (
        "null" if value is None else f"Python's {type(value).__name__}"
    )


def kind(wanted: Any) -> str:
    """What a schema asks for, in a bracket behind the word "missing"; "" where that takes more
    words.
    """
    match wanted:
        case {"const": constant}:
            return f" ({short(constant)})"
        case {"enum": [_, *_] as values}:
            return f" (one of {short(values)})"
        case {"type": types}:
            return f" ({either(types)})"
        case {"anyOf": [_, *_] as several} if all(
            isinstance(each, dict) and "type" in each for each in several
        ):
            return f" ({' or '.join(either(each['type']) for each in several)})"
    return ""


def short(value: Any) -> str:
    """A part of a schema as JSON, cut where it would be too long to be read."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


def _name(kind: Any) -> str:
    return kind if isinstance(kind, str) else short(kind)  # draft 3 has schemas among its types


def _type(error: ValidationError) -> str:
    return f"must be {either(error.validator_value)}, not {type_of(error.instance)}"


def _not(error: ValidationError) -> str:
    unwanted = error.validator_value
    return "is not allowed" if unwanted in _ANYTHING else f"must not fit {short(unwanted)}"


def _one_of(error: ValidationError) -> str:
    return (
        f"fits more than one of {len(error.validator_value)} alternatives; it must fit exactly one"
    )


def _twice(error: ValidationError) -> str:
    """Says which items are the same, if that can be seen at once: numbers can be equal and look
    different.
    """
    first: dict[str, int] = {}
    for index, item in enumerate(error.instance):
        before = first.setdefault(json.dumps(item, sort_keys=True, default=repr), index)
        if before != index:
            return f"must not hold anything twice; items {before} and {index} are the same"
    return "must not hold anything twice"


def _contains(error: ValidationError) -> str:
    schema = error.schema
    most = error.validator == "maxContains"
    number = error.validator_value if most else schema.get("minContains", 1)
    fit = "fits" if number == 1 else "fit"
    how = "at most" if most else "at least"
    return f"must have {how} {_counted(number, 'item')} that {fit} {short(schema.get('contains'))}"


def _items(error: ValidationError) -> str:
    before = error.schema.get(
        "items" if error.validator == "additionalItems" else "prefixItems", ()
    )
    return f"must have at most {_counted(len(before), 'item')}"


def _unevaluated_items(error: ValidationError) -> str:
    if error.validator_value is False:
        return "has more items than are allowed"
    return _LIMITS["unevaluatedItems"].format(short(error.validator_value))


def _counted(number: Any, noun: str) -> str:
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{short(number)} {noun if number == 1 else plural}"


_OWN: dict[str, Callable[[ValidationError], str]] = {
    "type": _type,
    "not": _not,
    "oneOf": _one_of,
    "uniqueItems": _twice,
    "contains": _contains,
    "minContains": _contains,
    "maxContains": _contains,
    "items": _items,
    "additionalItems": _items,
    "unevaluatedItems": _unevaluated_items,
}
