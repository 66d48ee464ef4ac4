"""Detect values that pydantic would take exponential time to read.

For `Sum | Product | float`, where both models contain the same union, pydantic tries every
alternative completely, even if one field excludes it. Each level of a value multiplies the time by
the number of alternatives, so a few hundred bytes may take hours. This module knows JSON Schemas as
pydantic writes them. Used by `typed_schema.py`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_MOST_ATTEMPTS = 1_000_000  # less than a second of pydantic's time

_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')


def recursive_alternatives(schema: Mapping[str, Any]) -> int:
    """Return the largest number of models in one union of a recursive type.

    Unions with a discriminator do not count.

    Returns:
        The number, or 0 if no model contains itself.
    """
    if not _is_recursive(schema):
        return 0
    unions = [part["anyOf"] for part in _mappings(schema) if "anyOf" in part]
    counts = [sum("$ref" in json.dumps(part, default=str) for part in union) for union in unions]
    return max(counts, default=1)


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
        level = [item for parts in (*objects, *lists) for item in parts]
    return attempts > _MOST_ATTEMPTS


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Whether a definition refers to itself, directly or not."""
    texts = {name: json.dumps(part, default=str) for name, part in schema.get("$defs", {}).items()}
    references = {name: {*_REFERENCE.findall(text)} for name, text in texts.items()}
    while leaves := [name for name, used in references.items() if not used & references.keys()]:
        for name in leaves:
            del references[name]
    return bool(references)


def _mappings(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every mapping in a schema."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            yield part
            pending += part.values()
        elif isinstance(part, list):
            pending += part
