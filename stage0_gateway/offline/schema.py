"""Reading a JSON Schema that may be anything: hostile, recursive, or full of the wrong types.

Nothing here raises, and everything is bounded. Knows no question and no tool. Used by `filling.py`.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from stage0_gateway.offline.words import stem

NOTHING: Any = object()
"""Stands for "no value found", where None is a value."""

_DEPTH = 6
_WIDTH = 64
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
