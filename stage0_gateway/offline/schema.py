"""Reading a JSON Schema that may be anything: hostile, recursive, or full of the wrong types.

Nothing here raises, and everything is bounded. Knows no question and no tool. Used by `filling.py`.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, cast

from stage0_gateway.offline.words import stem

NOTHING: Any = object()
"""Stands for "no value found", where None is a value."""

_DEPTH = 6
_WIDTH = 64
_MOST_BLANKS = 500
_ALIASES = {"dict": "object", "float": "number", "int": "integer", "bool": "boolean"}


def resolve(root: Any, schema: Any) -> Mapping[str, Any]:
    """The schema behind a local $ref, with the parts of allOf laid into it."""
    found = as_mapping(schema)
    for _ in range(_DEPTH):
        if not isinstance(found.get("$ref"), str):
            break
        found = _pointed_at(root, found["$ref"])
    for part in as_list(found.get("allOf"))[:8]:
        more = as_mapping(part)
        more = _pointed_at(root, more["$ref"]) if isinstance(more.get("$ref"), str) else more
        found = _laid_over(found, more)
    return found


def kind_of(schema: Mapping[str, Any]) -> str:
    """The schema's type in JSON Schema's words; where it says none, what its keywords imply."""
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else as_list(kind)
    named = next((one for one in kinds if isinstance(one, str) and one != "null"), "")
    if kinds == ["null"]:
        return "null"
    named = _ALIASES.get(named, named)  # schemas in circulation use Python's names too
    return named or ("object" if "properties" in schema else "array" if "items" in schema else "string")


def member_named(members: list[Any], text: str) -> Any:
    """The enum member that stands in the text; of several, the one named first."""
    text = text.lower().replace("_", " ")
    named = [
        (at, index, member)
        for index, member in enumerate(members[:_WIDTH])
        if isinstance(member, str | float) or (type(member) is int and abs(member) < 10**15)
        if (at := _stands_at(str(member)[:200].lower().replace("_", " "), text)) is not None
    ]
    return min(named, key=lambda one: one[:2])[2] if named else NOTHING


def _stands_at(said: str, text: str) -> int | None:
    """Where a member is said, as it is or with another ending."""
    for part, ending in ((said, ""), (stem(said), r"\w{0,3}")):
        # The plain search is cheap and nearly always ends the matter.
        if part and part in text and (found := re.search(rf"(?<!\w){re.escape(part)}{ending}(?!\w)", text)):
            return found.start()
    return None


def given(schema: Mapping[str, Any]) -> Any:
    """The value the schema itself offers: const, default, first example, or the only member of an enum."""
    examples, members = as_list(schema.get("examples")), as_list(schema.get("enum"))
    for name in ("const", "default"):
        if name in schema and _is_shallow(schema[name]):
            return schema[name]
    for one in (examples[:1], members if len(members) == 1 else []):
        if one and _is_shallow(one[0]):
            return one[0]
    return NOTHING


def blank(root: Any, schema: Any) -> Any:
    """A value that says nothing and fits: what the schema offers, else null, else the smallest of its type.

    Covered are types, enums, anyOf/oneOf, required properties, and the limits of numbers, lengths and lists.
    """
    return _Blanks(root).of(schema, 0)


class _Blanks:
    """Makes blanks for one schema, and not without end."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._made = 0

    def of(self, schema: Any, depth: int) -> Any:
        self._made += 1
        if depth > _DEPTH or self._made > _MOST_BLANKS:
            return None
        schema = resolve(self._root, schema)
        if (offered := given(schema)) is not NOTHING:
            return offered
        branches = [*as_list(schema.get("anyOf")), *as_list(schema.get("oneOf"))][:8]
        if _takes_null(schema, branches):
            return None
        if members := as_list(schema.get("enum")):
            return members[0]
        return self.of(branches[0], depth + 1) if branches else self._of_kind(schema, depth)

    def _of_kind(self, schema: Mapping[str, Any], depth: int) -> Any:
        match kind_of(schema):
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return False
            case "object":
                properties = as_mapping(schema.get("properties"))
                names = [name for name in as_list(schema.get("required"))[:_WIDTH] if isinstance(name, str)]
                return {name: self.of(properties.get(name), depth + 1) for name in names}
            case "array":
                least = min(_whole(schema.get("minItems")), _WIDTH)
                return [self.of(schema.get("items"), depth + 1) for _ in range(least)]
        return "?" * min(_whole(schema.get("minLength")), 1000)


def _takes_null(schema: Mapping[str, Any], branches: list[Any]) -> bool:
    every = [schema, *map(as_mapping, branches)]
    return any(one.get("type") == "null" or "null" in as_list(one.get("type")) for one in every)


def _number(schema: Mapping[str, Any]) -> int:
    """0, or the whole number next to it that the limits allow."""
    limits = {name: value for name, value in schema.items() if _is_number(value)}
    number = 0
    if "minimum" in limits:
        number = max(number, math.ceil(limits["minimum"]))
    if "exclusiveMinimum" in limits:
        number = max(number, math.floor(limits["exclusiveMinimum"]) + 1)
    if "maximum" in limits:
        number = min(number, math.floor(limits["maximum"]))
    if "exclusiveMaximum" in limits:
        number = min(number, math.ceil(limits["exclusiveMaximum"]) - 1)
    return number


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**15


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value, or an empty mapping where it is none."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """The value, or an empty list where it is none."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The value, or an empty text where it is none."""
    return value if isinstance(value, str) else ""


def _laid_over(schema: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = {**as_mapping(schema.get("properties")), **as_mapping(more.get("properties"))}
    required = [*as_list(schema.get("required")), *as_list(more.get("required"))]
    both: dict[str, Any] = {**more, **schema}
    return both | ({"properties": properties, "required": required} if properties else {})


def _pointed_at(root: Any, pointer: str) -> Mapping[str, Any]:
    value = root
    for step in pointer.removeprefix("#").strip("/").split("/")[:16] if pointer != "#" else []:
        value = as_mapping(value).get(step.replace("~1", "/").replace("~0", "~"))
    return as_mapping(value)


def _is_shallow(value: Any, depth: int = 0) -> bool:
    """Whether a value is small enough to be copied into a call."""
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return depth < _DEPTH and len(value) <= _WIDTH and all(_is_shallow(one, depth + 1) for one in inside)
    return True
