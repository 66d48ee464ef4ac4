"""Change a value so that it fits its JSON Schema, where only its types are wrong and what it says
is not.

    {"age": "36", "tags": "[1, 2]"}   ->   {"age": 36, "tags": [1, 2]}      "/age: string to
    integer", ...

Models quote numbers and write arguments twice as JSON. Whoever asks for it (`coerce=True`) has that
undone: only where a value does not fit, where exactly one change makes it fit its type, and where
nothing is lost or guessed; every change is named. Afterwards the value is checked like any other.
Which changes there are stands in `conversions.py`; this walks through schema and value. Used by the
controller, if at all.

Not followed: `if`, `not`, `contains`, `dependentSchemas`, and references by anything but a
pointer; and no alternative is chosen with the help of `unevaluatedProperties` or `$dynamicRef`.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from stage2_output.schema import CompiledSchema
from stage2_output.types.conversions import Wanted
from stage2_output.validation.patterns import matches, time_limit
from stage2_output.validation.subschemas import Schema
from stage2_output.validation.suggestions import step

_DEEPEST = 200

_Changes = list[tuple[str, str]]
"""Where something was changed, as a pointer, and what."""


class _TooDeep(Exception):
    """Value and schema go deeper than anybody would write them."""


def coerce(value: Any, schema: Schema) -> tuple[Any, tuple[str, ...]]:
    """A value with its wrong types put right, as far as that is exact and unambiguous.

    Args:
        value: A value that does not fit the schema; it is not changed itself.
        schema: The JSON Schema it should fit.

    Returns:
        The value, or a changed copy, which may still not fit; and each change with its place, in
        order.

    Raises:
        InvalidSchema: The schema is none.
    """
    parts = _parts_of(json.dumps(schema, default=dict))
    try:
        with time_limit():
            changed, changes = _Walk(parts).at("", value)
    except (_TooDeep, RecursionError, TimeoutError):
        return value, ()
    return changed, tuple(f"{place or 'the value'}: {what}" for place, what in changes)


@lru_cache(maxsize=64)
def _parts_of(schema: str) -> "_Parts":
    return _Parts(json.loads(schema))


class _Parts:
    """A schema whose parts can be asked one by one; a part is named by its pointer."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._found: dict[str, tuple[Mapping[str, Any], Wanted] | None] = {}
        self.fit = CompiledSchema(schema).fits

    def at(self, pointer: str) -> tuple[Mapping[str, Any], Wanted] | None:
        """A part of the schema, and what it wants; None if there is none that says anything."""
        if pointer not in self._found:
            schema = self._look_up(pointer)
            self._found[pointer] = (schema, Wanted(schema)) if isinstance(schema, Mapping) else None
        return self._found[pointer]

    def _look_up(self, pointer: str) -> Any:
        part = self._schema
        for each in pointer.split("/")[1:]:
            name = each.replace("~1", "/").replace("~0", "~")
            try:
                part = part[int(name) if isinstance(part, list) else name]
            except (KeyError, IndexError, ValueError, TypeError):
                return None
        return part


class _Walk:
    """One value on its way through the schema."""

    def __init__(self, parts: _Parts) -> None:
        self._parts, self._depth = parts, 0
        self._known: dict[tuple[int, str], tuple[Any, Any, _Changes]] = {}

    def at(self, pointer: str, value: Any) -> tuple[Any, _Changes]:
        """The value as a part of the schema wants it."""
        known = self._known.get((id(value), pointer))
        if known is not None:
            return known[1:]
        if self._depth > _DEEPEST:
            raise _TooDeep
        self._depth += 1
        changed, changes = self._at(pointer, value)
        self._depth -= 1
        # With the value itself, so that its id stays its own: alternatives lead to the same place
        # again.
        self._known[id(value), pointer] = (value, changed, changes)
        return changed, changes

    def _at(self, pointer: str, value: Any) -> tuple[Any, _Changes]:
        found = self._parts.at(pointer)
        changes: _Changes = []
        if found is None:
            return value, changes
        schema, wanted = found
        for other in _also(schema, pointer):
            value, more = self.at(other, value)
            changes += more
        if (converted := wanted.convert(value)) is not None:
            value, what = converted
            changes.append(("", what))
        value, chosen = self._alternative(pointer, schema, value)
        value, inner = self._inner(pointer, schema, value)
        return value, [*changes, *chosen, *inner]

    def _alternative(
        self, pointer: str, schema: Mapping[str, Any], value: Any
    ) -> tuple[Any, _Changes]:
        """The only alternative that takes the value once it is changed, if none takes it as it
        is.
        """
        changes: _Changes = []
        for rule in ("anyOf", "oneOf"):
            branches = [f"{pointer}/{rule}/{index}" for index in range(len(schema.get(rule) or ()))]
            if not branches or any(self._parts.fit(value, branch) for branch in branches):
                continue
            found = [(branch, *self.at(branch, value)) for branch in branches]
            found = [each for each in found if each[2] and self._parts.fit(each[1], each[0])]
            different = {repr(each[1]) for each in found}
            if len(different) == 1 and (rule == "anyOf" or len(found) == 1):
                _, value, more = found[0]
                changes += more
        return value, changes

    def _inner(self, pointer: str, schema: Mapping[str, Any], value: Any) -> tuple[Any, _Changes]:
        """What the value holds."""
        changes: _Changes = []
        if not isinstance(value, dict | list):
            return value, changes
        copy: Any = value.copy()
        keys = filter(_is_text, [*value]) if isinstance(value, dict) else range(len(value))
        for key in keys:
            for inner in _inner_schemas(schema, pointer, key):
                copy[key], more = self.at(inner, copy[key])
                changes += _behind(step(key), more)
        return (copy, changes) if changes else (value, changes)


def _also(schema: Mapping[str, Any], pointer: str) -> Iterator[str]:
    """The schemas that hold for the same value."""
    if _is_pointer(schema.get("$ref")):
        yield unquote(schema["$ref"][1:])
    yield from (f"{pointer}/allOf/{index}" for index in range(len(schema.get("allOf") or ())))


def _is_text(key: Any) -> bool:
    return isinstance(key, str)


def _is_pointer(reference: Any) -> bool:
    return isinstance(reference, str) and (reference == "#" or reference.startswith("#/"))


def _inner_schemas(schema: Mapping[str, Any], pointer: str, key: str | int) -> Iterator[str]:
    """The schemas that hold for a property or an item."""
    if isinstance(key, int):
        rule = "prefixItems" if "prefixItems" in schema else "items"
        first = schema.get(rule) if isinstance(schema.get(rule), list) else ()
        rest = "additionalItems" if rule == "items" and first else "items"
        yield f"{pointer}/{rule}/{key}" if key < len(first or ()) else f"{pointer}/{rest}"
        return
    known = key in schema.get("properties", {})
    patterns = [pattern for pattern in schema.get("patternProperties", {}) if matches(pattern, key)]
    if known:
        yield f"{pointer}/properties{_step(key)}"
    yield from (f"{pointer}/patternProperties{_step(pattern)}" for pattern in patterns)
    if not known and not patterns:
        yield f"{pointer}/additionalProperties"


def _step(name: str) -> str:
    """One step of a pointer into the schema, whole: that of an issue may be cut."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _behind(place: str, changes: _Changes) -> _Changes:
    return [(place + inner, what) for inner, what in changes]
