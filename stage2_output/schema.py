"""Compile a JSON Schema once, and ask about many values.

The `jsonschema` library decides what is valid; `issues.py` puts its findings into words. Schemas are read
as written, `$ref`s to other places are never fetched, and a schema that is none is refused when it is
compiled, not when it is used. Used by the controller, and by stage 3 for the arguments of tools.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stage2_output.errors import InvalidSchema
from stage2_output.issues import Issue, issues_of

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Schema = Mapping[str, Any] | bool

# Under these keywords stand values, not schemas: a "$ref" in them is data.
_VALUES = ("const", "enum", "default", "examples")
# Under these the keys are names, whatever they are called.
_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


class CompiledSchema:
    """A schema that was checked once.

    Args:
        schema: A JSON Schema; draft 2020-12 unless its `$schema` says otherwise.

    Raises:
        InvalidSchema: The schema breaks the rules of JSON Schema, or refers to something it does not hold.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._validator = _validator(schema)

    def issues(self, value: Any) -> tuple[Issue, ...]:
        """Everything that is wrong with a value, in the order of places; empty if it is valid."""
        try:
            return issues_of(self._validator.iter_errors(value))
        except RecursionError:
            return (Issue("", "is nested too deeply to be checked", "depth"),)
        except ArithmeticError:
            return (Issue("", "holds a number too large to be checked", "number"),)


def _validator(schema: Schema) -> "Validator":
    import jsonschema  # at first use: it costs as much as everything else here together
    from jsonschema_specifications import REGISTRY

    if not isinstance(schema, Mapping | bool):
        raise InvalidSchema(f"A JSON Schema is a mapping, not {type(schema).__name__}.")
    if isinstance(schema, Mapping) and not isinstance(schema.get("$schema", ""), str):
        raise InvalidSchema("The JSON Schema's $schema is not text; it names a draft, or is left out.")
    kind: Any = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
        _look_up_references(schema)
        # Named, because the library's own default fetches unknown references from the network.
        validator: Validator = kind(schema, registry=REGISTRY)
        return validator
    except jsonschema.SchemaError as error:
        raise InvalidSchema(
            f"The JSON Schema is wrong at {error.json_path}: {error.message[:200]}"
        ) from error
    except RecursionError as error:
        raise InvalidSchema("The JSON Schema is nested too deeply.") from error


def _look_up_references(schema: Schema) -> None:
    from referencing.exceptions import Unresolvable

    for reference, resolver in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            text = f"The JSON Schema refers to {reference!r}, which it does not hold."
            raise InvalidSchema(text) from error


def _references(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Every reference in a schema, with the resolver that knows what it is relative to."""
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.jsonschema import DRAFT202012

    def resource(part: Any) -> Any:
        return Resource.from_contents(part, DRAFT202012)

    root = REGISTRY.resolver_with_root(resource(schema))
    todo: list[tuple[Any, Any, bool]] = [(schema, root, False)]  # part, resolver, whether its keys are names
    while todo:
        part, resolver, names = todo.pop()
        if isinstance(part, list):
            todo += [(value, resolver, False) for value in part]
        if not isinstance(part, Mapping):
            continue
        if not names and isinstance(part.get("$id"), str) and part is not schema:
            resolver = resolver.in_subresource(resource(part))
        for key, value in part.items():
            if not names and key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value, resolver
            elif names or key not in _VALUES:
                todo.append((value, resolver, not names and key in _NAMES))
