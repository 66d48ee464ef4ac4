"""Compile a JSON Schema once, and ask about many values.

`checks.py` decides quickly whether a value is valid. The `jsonschema` library finds out what is wrong with it,
and `issues.py` puts its findings into words. Schemas are read as written, `$ref`s to other places are never
fetched, and a schema that is none is refused when it is compiled, not when it is used. Used by the
controller, and by stage 3 for the arguments of tools.
"""

import re
from collections.abc import Callable, Iterator, Mapping
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
        schema: A JSON Schema; draft 2020-12 unless its `$schema` says otherwise. Not to be changed afterwards.

    Raises:
        InvalidSchema: The schema breaks the rules of JSON Schema, or refers to something it does not hold.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._validator, self._references = _validator(schema)
        self._check = _quick_check(schema)

    def fits(self, value: Any) -> bool:
        """Whether a value is valid."""
        valid = self._check(value)
        if valid is not None:
            return valid
        from stage2_output.bounds import CannotBeChecked, bounds

        try:
            with bounds(value, self._references):
                return self._validator.is_valid(value)
        except CannotBeChecked:
            return False

    def issues(self, value: Any) -> tuple[Issue, ...]:
        """Everything that is wrong with a value, in the order of places; empty if it is valid."""
        if self._check(value):
            return ()
        from stage2_output.bounds import CannotBeChecked, bounds  # as the library, at the first schema

        try:
            with bounds(value, self._references):
                return issues_of(self._validator.iter_errors(value))
        except CannotBeChecked as error:
            return (error.issue,)

    def load(self, value: Any, *, coerce: bool = False) -> tuple[Any, tuple[Issue, ...]]:
        """The value, or None and everything that is wrong with it; a JSON Schema changes nothing."""
        issues = self.issues(value)
        return (None if issues else value), issues


def _quick_check(schema: Schema) -> Callable[[Any], bool | None]:
    from stage2_output.checks import compile_check  # as the library, at the first schema

    return compile_check(schema) or (lambda value: None)


def _validator(schema: Schema) -> tuple["Validator", int]:
    """The library's validator, and how many references it may follow."""
    import jsonschema  # at first use: it costs as much as everything else here together
    from jsonschema_specifications import REGISTRY

    from stage2_output.bounds import bounded

    if not isinstance(schema, Mapping | bool):
        raise InvalidSchema(f"A JSON Schema is a mapping, not {type(schema).__name__}.")
    if isinstance(schema, Mapping) and not isinstance(schema.get("$schema", ""), str):
        raise InvalidSchema("The JSON Schema's $schema is not text; it names a draft, or is left out.")
    kind: Any = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
        references = _look_up_references(schema)
        _read_patterns(schema)
        # Named, because the library's own default fetches unknown references from the network.
        validator: Validator = bounded(kind)(_without_draft(schema), registry=REGISTRY)
        return validator, references
    except jsonschema.SchemaError as error:
        raise InvalidSchema(
            f"The JSON Schema is wrong at {error.json_path}: {error.message[:200]}"
        ) from error
    except RecursionError as error:
        raise InvalidSchema("The JSON Schema is nested too deeply.") from error


def _without_draft(schema: Schema) -> Schema:
    """A schema as handed to the library, which takes a validator of its own where it meets a `$schema`."""
    if isinstance(schema, bool):
        return schema
    return {name: each for name, each in schema.items() if name != "$schema"}


def _look_up_references(schema: Schema) -> int:
    """Refuse references that lead nowhere; how many there are."""
    from referencing.exceptions import Unresolvable

    count = 0
    for part, resolver in _parts(schema):
        count += "$recursiveRef" in part
        for reference in (part.get("$ref"), part.get("$dynamicRef")):
            try:
                if isinstance(reference, str):
                    resolver.lookup(reference)
                    count += 1
            except Unresolvable as error:
                text = f"The JSON Schema refers to {reference!r}, which it does not hold."
                raise InvalidSchema(text) from error
    return count


def _parts(schema: Schema) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """Every schema in a schema, with the resolver that knows what its references are relative to."""
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
        if not names:
            yield part, resolver
        for key, value in part.items():
            if names or key not in _VALUES:
                todo.append((value, resolver, not names and key in _NAMES))


def _read_patterns(schema: Schema) -> None:
    """Refuse patterns of properties that are none; older drafts allow them, and the library finds out too late."""
    for part, _ in _parts(schema):
        patterns = [*(part.get("patternProperties") or ())]
        if "additionalProperties" in part:
            patterns.append("|".join(patterns))  # as the library does to find the names that match none
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                text = f"The JSON Schema has a pattern that cannot be read: {pattern!r}, {error}."
                raise InvalidSchema(text) from error
