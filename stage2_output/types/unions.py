"""Find values that pydantic would take exponential time to read.

Of `Sum | Product | float`, where both models contain the same union again, pydantic tries every
alternative to its end, even where one field shows that it is the wrong one. Each level of a value
then multiplies the time by the number of alternatives: a few hundred bytes may take hours. Knows
JSON Schemas as pydantic writes them; used by `typed.py`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_MOST_ATTEMPTS = 1_000_000
"""Attempts to read a part of a value: less than a second of pydantic's time."""

_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')


def recursive_alternatives(schema: Mapping[str, Any]) -> int:
    """The most models in one union of a recursive type; unions with a discriminator do not count.

    Returns:
        The number, or 0 if no model contains itself.
    """
    if not _is_recursive(schema):
        return 0
    unions = [part["anyOf"] for part in _objects(schema) if "anyOf" in part]
    return max(
        (sum("$ref" in json.dumps(each, default=str) for each in union) for union in unions),
        default=1,
    )


def takes_too_long(alternatives: int, value: Any) -> bool:
    """Whether a valid value of a recursive type is nested too deeply for its alternatives.

    Args:
        alternatives: The result of `recursive_alternatives` for the type.
        value: The value.
    """
    attempts, level = 1, [value]
    while level and alternatives > 1 and attempts <= _MOST_ATTEMPTS:
        objects = [part.values() for part in level if isinstance(part, dict)]
        if objects:
            attempts *= alternatives
        lists = [part for part in level if isinstance(part, list)]
        level = [each for parts in (*objects, *lists) for each in parts]
    return attempts > _MOST_ATTEMPTS


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Whether a definition leads to itself."""
    leads_to = {
        name: {*_REFERENCE.findall(json.dumps(each, default=str))}
        for name, each in schema.get("$defs", {}).items()
    }
    while ends := [name for name, others in leads_to.items() if not others & leads_to.keys()]:
        for name in ends:
            del leads_to[name]
    return bool(leads_to)


def _objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every mapping in a schema."""
    todo = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, Mapping):
            yield part
            todo += part.values()
        elif isinstance(part, list):
            todo += part
