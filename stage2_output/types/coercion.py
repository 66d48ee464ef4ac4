"""Convert a value to the types of its JSON Schema.

    {"age": "36", "tags": "[1, 2]"}   ->   {"age": 36, "tags": [1, 2]}      "/age: string to
    integer", ...

Models quote numbers and encode arguments as JSON twice. `coerce=True` corrects this only for values
that do not fit, where exactly one conversion makes a part fit its type and loses nothing. Every
change is reported, and the result is validated again. `conversions.py` defines the conversions;
this module applies them to a value and its parts. Used by the controller.

Not followed: `if`, `not`, `additionalItems`, `contains`, `dependentSchemas`, `patternProperties`,
and references other than JSON pointers. `unevaluatedProperties` and `$dynamicRef` do not help to
choose an alternative.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from stage2_output.schema import OutputSchema
from stage2_output.types.conversions import ExpectedType
from stage2_output.validation.patterns import time_limit
from stage2_output.validation.suggestions import pointer_step

_Changes = list[tuple[str, str]]
"""JSON pointers and descriptions of changes."""


def coerce_types(value: Any, schema: OutputSchema) -> tuple[Any, tuple[str, ...]]:
    """Convert the wrong types in a value, where this is exact and unambiguous.

    Args:
        value: A value that does not fit the schema; it is not modified.
        schema: The compiled schema.

    Returns:
        The value or a changed copy, which may still be invalid, and each change with its JSON
        pointer, in order.
    """
    try:
        with time_limit():
            changed, changes = _Coercion(schema).convert("", value)
    except (RecursionError, TimeoutError):
        return value, ()
    return changed, tuple(f"{path or 'the value'}: {change}" for path, change in changes)


class _Coercion:
    """The conversion of one value."""

    def __init__(self, schema: OutputSchema) -> None:
        self._schema, self._fits = schema.schema, schema.fits
        self._parts: dict[str, tuple[Mapping[str, Any], ExpectedType] | None] = {}
        self._converted: dict[tuple[int, str], tuple[Any, Any, _Changes]] = {}

    def convert(self, pointer: str, value: Any) -> tuple[Any, _Changes]:
        """Convert a value to the types of the part of the schema at a JSON pointer."""
        known = self._converted.get((id(value), pointer))
        if known is not None:
            return known[1:]
        changed, changes = self._convert(pointer, value)
        # Alternatives lead to the same part again. The entry holds the value, so that its id
        # remains unique.
        self._converted[id(value), pointer] = (value, changed, changes)
        return changed, changes

    def _convert(self, pointer: str, value: Any) -> tuple[Any, _Changes]:
        part = self._part(pointer)
        changes: _Changes = []
        if part is None:
            return value, changes
        schema, expected = part
        for other in _applied(schema, pointer):
            value, more = self.convert(other, value)
            changes += more
        if (converted := expected.convert(value)) is not None:
            value, change = converted
            changes.append(("", change))
        value, more = self._convert_alternative(pointer, schema, value)
        value, inner = self._convert_parts(pointer, schema, value)
        return value, [*changes, *more, *inner]

    def _part(self, pointer: str) -> tuple[Mapping[str, Any], ExpectedType] | None:
        """Return a part of the schema and its expected type; None if it is missing or a bool."""
        if pointer not in self._parts:
            part = self._schema
            for step in pointer.split("/")[1:]:
                name = step.replace("~1", "/").replace("~0", "~")
                try:
                    part = part[int(name) if isinstance(part, list) else name]
                except (KeyError, IndexError, ValueError, TypeError):
                    part = None
            self._parts[pointer] = (part, ExpectedType(part)) if isinstance(part, Mapping) else None
        return self._parts[pointer]

    def _convert_alternative(
        self, pointer: str, schema: Mapping[str, Any], value: Any
    ) -> tuple[Any, _Changes]:
        """Convert a value that fits no alternative, if it then fits exactly one."""
        changes: _Changes = []
        for keyword in ("anyOf", "oneOf"):
            number = len(schema.get(keyword) or ())
            branches = [f"{pointer}/{keyword}/{index}" for index in range(number)]
            if not branches or any(self._fits(value, branch) for branch in branches):
                continue
            found = []
            for branch in branches:
                changed, more = self.convert(branch, value)
                if more and self._fits(changed, branch):
                    found.append((changed, more))
            different = {repr(changed) for changed, _ in found}
            if len(different) == 1 and (keyword == "anyOf" or len(found) == 1):
                value, more = found[0]
                changes += more
        return value, changes

    def _convert_parts(
        self, pointer: str, schema: Mapping[str, Any], value: Any
    ) -> tuple[Any, _Changes]:
        """Convert the members of an object or the items of an array."""
        changes: _Changes = []
        if not isinstance(value, dict | list):
            return value, changes
        copy: Any = value.copy()
        for key in value if isinstance(value, dict) else range(len(value)):
            for inner in _inner_schemas(schema, pointer, key):
                copy[key], more = self.convert(inner, copy[key])
                changes += [(pointer_step(key) + path, change) for path, change in more]
        return (copy, changes) if changes else (value, changes)


def _applied(schema: Mapping[str, Any], pointer: str) -> Iterator[str]:
    """Yield pointers to the schemas that apply to the same value."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        yield unquote(reference[1:])
    yield from (f"{pointer}/allOf/{index}" for index in range(len(schema.get("allOf") or ())))


def _inner_schemas(schema: Mapping[str, Any], pointer: str, key: str | int) -> Iterator[str]:
    """Yield pointers to the schemas that apply to a property or an item."""
    if isinstance(key, int):
        is_first = key < len(schema.get("prefixItems", ()))
        yield f"{pointer}/prefixItems/{key}" if is_first else f"{pointer}/items"
        return
    if key in schema.get("properties", {}):
        yield f"{pointer}/properties/{_escaped(key)}"
    elif "patternProperties" not in schema:
        yield f"{pointer}/additionalProperties"


def _escaped(name: str) -> str:
    """Escape a name for a JSON pointer without cutting it, unlike `pointer_step`."""
    return name.replace("~", "~0").replace("/", "~1")
