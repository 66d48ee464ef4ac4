"""How much pydantic would have to do to read a value: without a bound it may take hours for a few hundred bytes.

Of `Sum | Product | float`, where both hold the same again, pydantic tries every alternative to its end, also where
one field says at once that it is the wrong one. Each level of a value takes twice as long as the last. Here that
is counted beforehand, in linear time. Knows JSON Schemas as pydantic writes them; used by `typed.py`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any

_MOST = 1_000_000
"""Looks at parts of a value: less than a second of pydantic's time."""
_MOST_EACH = 10
"""Looks beside, at each part by each definition that may concern it."""

_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')


def holds_itself(schema: Mapping[str, Any]) -> bool:
    """Whether a definition leads to itself, without which nothing can take long."""
    leads_to = {
        name: {*_REFERENCE.findall(json.dumps(each, default=str))}
        for name, each in schema.get("$defs", {}).items()
    }
    while ends := [name for name, others in leads_to.items() if not others & leads_to.keys()]:
        for name in ends:
            del leads_to[name]
    return bool(leads_to)


def takes_too_long(root: Mapping[str, Any], value: Any) -> bool:
    """Whether nobody should wait for a value to be read.

    Args:
        root: The JSON Schema of the type.
        value: A value that fits it.

    Raises:
        RecursionError: The value is nested too deeply.
    """
    effort = _Effort(root)
    return effort.of(root, value) > _MOST + _MOST_EACH * effort.pairs


class _Effort:
    """Counts for one value, each part of it and each part of the schema only once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._definitions = root.get("$defs", {})
        self._known: dict[tuple[int, int], int] = {}

    @property
    def pairs(self) -> int:
        """How many there were of a part of the value and one of the schema."""
        return len(self._known)

    def of(self, schema: Any, value: Any) -> int:
        """How many looks at parts of a value it takes to read it by a part of the schema."""
        if not isinstance(value, dict | list) or not isinstance(schema, dict):
            return 1
        key = (id(schema), id(value))
        if key not in self._known:
            self._known[key] = 1 + sum(self.of(*pair) for pair in self._inner(schema, value))
        return self._known[key]

    def _inner(self, schema: Mapping[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
        """What is looked at next."""
        if "$ref" in schema:
            yield self._at(schema["$ref"]), value
        yield from zip(self._chosen(schema, value) or _alternatives(schema), repeat(value))
        if isinstance(value, dict):
            named, others = schema.get("properties", {}), _others(schema)
            yield from ((named.get(name, others), each) for name, each in value.items())
        else:
            first = schema.get("prefixItems", ())
            yield from zip([*first, *repeat(schema.get("items"), len(value))], value, strict=False)

    def _chosen(self, schema: Mapping[str, Any], value: Any) -> list[Any]:
        """The only alternative that is tried, where a property tells which; empty if none does."""
        told = schema.get("discriminator")
        if told is None or not isinstance(value, dict):
            return []
        reference = told["mapping"].get(str(value.get(told["propertyName"])))
        return [self._at(reference)] if reference else []

    def _at(self, reference: Any) -> Any:
        return self._definitions.get(str(reference).removeprefix("#/$defs/"))


def _alternatives(schema: Mapping[str, Any]) -> list[Any]:
    return [each for rule in ("anyOf", "oneOf", "allOf") for each in schema.get(rule, ())]


def _others(schema: Mapping[str, Any]) -> Any:
    """What the values of a mapping should be."""
    patterns = [*schema.get("patternProperties", {}).values()]
    return patterns[0] if patterns else schema.get("additionalProperties")
