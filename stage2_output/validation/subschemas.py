"""Walk through the schemas in a JSON Schema, and prepare them for the `jsonschema` library.

Knows which keywords hold schemas, and which hold values or names that only look like keywords. Used
by `schema.py` and `confirm.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from stage2_output.errors import InvalidSchema

Schema = Mapping[str, Any] | bool

REFERENCES = ("$ref", "$dynamicRef")

# Keywords that hold values: a "$ref" in them is data.
_HOLD_VALUES = ("const", "enum", "default", "examples")
# Keywords that hold schemas by name: the names are no keywords.
_HOLD_NAMES = (
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
)
_NOTHING: Mapping[str, Any] = {"not": {}}


def prepared(schema: Any) -> Any:
    """A copy of a schema as the library reads it best.

    Where a schema names its draft, the library would switch to a validator of its own. Of an error
    at the schema `false` under a name it would lose the place.
    """
    if isinstance(schema, list):
        return [*map(prepared, schema)]
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _HOLD_NAMES and isinstance(value, Mapping):
            copy[keyword] = {
                name: _NOTHING if each is False else prepared(each) for name, each in value.items()
            }
        elif keyword != "$schema":
            copy[keyword] = value if keyword in _HOLD_VALUES else prepared(value)
    return copy


def subschemas(schema: Any, resolver: Any, *, expand: bool = False) -> Iterator[Mapping[str, Any]]:
    """Every schema in a schema, the schema itself included.

    Args:
        schema: The schema.
        resolver: The `referencing` resolver of the schema.
        expand: Continue where references lead. A recursive schema has no end then.

    Raises:
        InvalidSchema: A reference leads to nothing, or to something that is no schema.
    """
    todo: list[tuple[Any, Any, bool]] = [
        (schema, resolver, False)
    ]  # part, resolver, whether its keys are names
    while todo:
        part, resolver, is_named = todo.pop()
        if isinstance(part, list):
            todo += [(each, resolver, False) for each in part]
        if not isinstance(part, Mapping):
            continue
        if is_named:
            todo += [(each, resolver, False) for each in part.values()]
            continue
        if isinstance(part.get("$id"), str) and part is not schema:
            resolver = _inside(resolver, part)
        yield part
        targets = [
            _target(resolver, part[name]) for name in REFERENCES if isinstance(part.get(name), str)
        ]
        if expand:
            todo += [(target.contents, target.resolver, False) for target in targets]
        todo += [
            (each, resolver, key in _HOLD_NAMES)
            for key, each in part.items()
            if key not in _HOLD_VALUES
        ]


def patterns_of(part: Mapping[str, Any]) -> list[str]:
    """The patterns of one schema, without those in its inner schemas."""
    of_names = part.get("patternProperties")
    patterns = [part.get("pattern"), *(of_names if isinstance(of_names, Mapping) else ())]
    return [each for each in patterns if isinstance(each, str)]


def _inside(resolver: Any, part: Mapping[str, Any]) -> Any:
    """The resolver for what a part with its own `$id` holds."""
    from referencing.jsonschema import DRAFT202012

    return resolver.in_subresource(DRAFT202012.create_resource(part))


def _target(resolver: Any, reference: str) -> Any:
    from referencing.exceptions import Unresolvable

    try:
        target = resolver.lookup(reference)
    except Unresolvable as error:
        raise InvalidSchema(
            f"The JSON Schema refers to {reference!r}, which it does not hold."
        ) from error
    if not isinstance(target.contents, Mapping | bool):
        raise InvalidSchema(f"The JSON Schema refers to {reference!r}, which is not a schema.")
    return target
