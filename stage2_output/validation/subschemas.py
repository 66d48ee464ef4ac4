"""Iterate over the schemas in a JSON Schema, and prepare it for the `jsonschema` library.

This module knows which keywords contain schemas, and which contain values or names that only look
like keywords. Used by `schema.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from stage2_output.errors import InvalidSchema

Schema = Mapping[str, Any] | bool

_REFERENCES = ("$ref", "$dynamicRef")
# Keywords that contain values: a "$ref" inside them is data.
_VALUE_KEYWORDS = ("const", "enum", "default", "examples")
# Keywords that contain schemas by name: the names are not keywords.
_NAME_KEYWORDS = (
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
)
_NOTHING: Mapping[str, Any] = {"not": {}}


def prepare(schema: Any) -> Any:
    """Return a copy of a schema in the form that suits the library best.

    The library replaces our validator class where a schema names its draft, so `$schema` is
    removed. It reports no position for the schema `false` under a name, so `false` is replaced.
    """
    if isinstance(schema, list):
        return [*map(prepare, schema)]
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAME_KEYWORDS and isinstance(value, Mapping):
            copy[keyword] = {
                name: _NOTHING if part is False else prepare(part) for name, part in value.items()
            }
        elif keyword != "$schema":
            copy[keyword] = value if keyword in _VALUE_KEYWORDS else prepare(value)
    return copy


def subschemas(schema: Any, resolver: Any, *, expand: bool = False) -> Iterator[Mapping[str, Any]]:
    """Yield every schema in a schema, including the schema itself.

    Args:
        schema: The schema.
        resolver: The `referencing` resolver of the schema.
        expand: Whether to follow references. A recursive schema then never ends.

    Raises:
        InvalidSchema: The target of a reference is missing or is not a schema.
    """
    from referencing.jsonschema import DRAFT202012  # slow to import

    # Each entry: a part, its resolver, and whether the keys of the part are names.
    pending: list[tuple[Any, Any, bool]] = [(schema, resolver, False)]
    while pending:
        part, resolver, is_named = pending.pop()
        if isinstance(part, list):
            part, is_named = dict(enumerate(part)), True
        if not isinstance(part, Mapping):
            continue
        if not is_named:
            if isinstance(part.get("$id"), str) and part is not schema:
                resolver = resolver.in_subresource(DRAFT202012.create_resource(part))
            yield part
            references = [part[name] for name in _REFERENCES if isinstance(part.get(name), str)]
            targets = [_lookup(resolver, reference) for reference in references]
            pending += [(target.contents, target.resolver, False) for target in targets if expand]
        for key, inner in part.items():
            if is_named or key not in _VALUE_KEYWORDS:
                pending.append((inner, resolver, not is_named and key in _NAME_KEYWORDS))


def patterns_of(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the patterns of one schema, without those of its inner schemas."""
    if isinstance(part.get("pattern"), str):
        yield part["pattern"]
    if isinstance(part.get("patternProperties"), Mapping):
        yield from part["patternProperties"]


def _lookup(resolver: Any, reference: str) -> Any:
    from referencing.exceptions import Unresolvable

    try:
        target = resolver.lookup(reference)
    except Unresolvable as error:
        raise InvalidSchema(
            f"The JSON Schema refers to {reference!r}, which it does not contain."
        ) from error
    if not isinstance(target.contents, Mapping | bool):
        raise InvalidSchema(f"The JSON Schema refers to {reference!r}, which is not a schema.")
    return target
