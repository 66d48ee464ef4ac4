"""Compile a JSON Schema once, and check many values with it.

The `jsonschema` library decides whether a value is valid and finds what is wrong with it;
`issues.py` puts that into words. Schemas are read as written, references are never fetched, and an
invalid schema is refused when it is compiled, not when it is used. Used by the controller, and by
stage 3 for the arguments of tools.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from stage2_output.errors import InvalidSchema
from stage2_output.validation.confirm import confirmation, is_failure
from stage2_output.validation.issues import (
    NOT_CHECKED,
    NOT_IN_TIME,
    TOO_DEEP,
    TOO_LARGE,
    Issue,
    issues_of,
)
from stage2_output.validation.patterns import compiled, time_limit
from stage2_output.validation.subschemas import Schema, patterns_of, prepared, subschemas

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

T = TypeVar("T")


class CompiledSchema:
    """A schema that was checked once.

    Args:
        schema: A JSON Schema; draft 2020-12 unless its `$schema` says otherwise. Not to be changed
            afterwards.

    Raises:
        InvalidSchema: The schema breaks the rules of JSON Schema, or refers to something it does
            not hold.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        try:
            self._compile(schema)
        except InvalidSchema:
            raise
        except RecursionError as error:
            raise InvalidSchema("The JSON Schema is nested too deeply.") from error
        except BaseException as error:
            if not is_failure(error):
                raise
            raise InvalidSchema(
                f"The JSON Schema cannot be read: {type(error).__name__}."
            ) from error

    def _compile(self, schema: Schema) -> None:
        from jsonschema_specifications import REGISTRY  # with the library, at the first schema
        from referencing.jsonschema import specification_with

        from stage2_output.validation.keywords import extended

        draft = _draft(schema)
        root = prepared(schema)
        specification = specification_with(draft.META_SCHEMA["$schema"])
        resolver = REGISTRY.resolver_with_root(specification.create_resource(root))
        patterns = [pattern for part in subschemas(root, resolver) for pattern in patterns_of(part)]
        for pattern in patterns:
            _check_pattern(pattern)
        self._has_patterns = bool(patterns)
        # The registry is named, because the library's default fetches unknown references from the
        # network.
        self._validator: Validator = extended(draft)(root, registry=REGISTRY)
        self._confirm = confirmation(schema, subschemas(root, resolver, expand=True))

    def fits(self, value: Any, pointer: str = "") -> bool:
        """Whether a value is valid; one that cannot be checked is not.

        Args:
            value: Any value.
            pointer: JSON pointer to the part of the schema that the value should fit; "" is the
                whole schema.
        """
        if not pointer:
            return self._confirm(value) or self._checked(self._validator.is_valid, value) is True
        part = self._validator.evolve(schema={"$ref": "#" + quote(pointer)})
        return self._checked(part.is_valid, value) is True

    def issues(self, value: Any) -> tuple[Issue, ...]:
        """Everything that is wrong with a value, in the order of places; empty if it is valid."""
        if self._confirm(value):
            return ()
        found = self._checked(lambda value: issues_of(self._validator.iter_errors(value)), value)
        return (found,) if isinstance(found, Issue) else found

    def load(self, value: Any, *, coerce: bool = False) -> tuple[Any, tuple[Issue, ...]]:
        """The value, or None and everything that is wrong with it; a JSON Schema changes
        nothing.
        """
        issues = self.issues(value)
        return (None if issues else value), issues

    def _checked(self, check: Callable[[Any], T], value: Any) -> T | Issue:
        """The result of a check; an issue if the library fails, takes too long, or cannot go as
        deep.
        """
        from stage2_output.validation.keywords import (
            follow_each_reference_once,
        )  # imports the library

        try:
            with time_limit() if self._has_patterns else nullcontext():
                return follow_each_reference_once(check, value)
        except TimeoutError:
            return NOT_IN_TIME
        except RecursionError:
            return TOO_DEEP
        except (ArithmeticError, ValueError):  # int(nan), or thousands of digits in a message
            return TOO_LARGE
        except BaseException as error:
            if not is_failure(error):
                raise
            return NOT_CHECKED


def _draft(schema: Schema) -> Any:
    """The library's validator class for the draft of a schema, which follows the rules of that
    draft.
    """
    import jsonschema

    if not isinstance(schema, Mapping | bool):
        raise InvalidSchema(f"A JSON Schema is a mapping, not {type(schema).__name__}.")
    if isinstance(schema, Mapping) and not isinstance(schema.get("$schema", ""), str):
        raise InvalidSchema(
            "The JSON Schema's $schema is not text; it names a draft, or is left out."
        )
    draft: Any = jsonschema.validators.validator_for(
        schema, default=jsonschema.Draft202012Validator
    )
    try:
        draft.check_schema(
            schema, format_checker=None
        )  # which would check patterns by Python's `re`
    except jsonschema.SchemaError as error:
        text = f"The JSON Schema is wrong at {error.json_path}: {error.message[:200]}"
        raise InvalidSchema(text) from error
    return draft


def _check_pattern(pattern: str) -> None:
    try:
        compiled(pattern)
    except Exception as error:
        text = f"The JSON Schema has a pattern that cannot be read: {pattern!r}, {error}."
        raise InvalidSchema(text) from error
