"""Compile a JSON Schema once, and check many values with it.

The `jsonschema` library decides whether a value is valid, and `validation/` describes its errors.
Schemas are used as written, references are never fetched, and an invalid schema is rejected when it
is compiled. Used by the controller, and by stage 3 for the arguments of tools.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

from stage2_output.errors import InvalidSchema
from stage2_output.result import Issue
from stage2_output.validation.confirm import confirmation, is_failure
from stage2_output.validation.issues import NOT_CHECKED, NOT_IN_TIME, TOO_DEEP, TOO_LARGE, issues_of
from stage2_output.validation.keywords import extended, follow_references_once
from stage2_output.validation.patterns import compile_pattern, time_limit
from stage2_output.validation.subschemas import Schema, patterns_of, prepare, subschemas

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

T = TypeVar("T")


class OutputSchema(Protocol):
    """The common interface of `CompiledSchema` and `TypedSchema`."""

    @property
    def schema(self) -> Any:
        """The JSON Schema."""

    def fits(self, value: Any, pointer: str = "") -> bool:
        """Whether a value fits the JSON Schema, or the part of it at a JSON pointer."""

    def load(self, value: Any, *, coerce: bool = False) -> tuple[Any, tuple[Issue, ...]]:
        """Return the data of a value, or None, and all issues."""


class CompiledSchema:
    """A JSON Schema that was checked once.

    Args:
        schema: A JSON Schema, of draft 2020-12 unless its `$schema` names another one. It must not
            change afterwards.

    Raises:
        InvalidSchema: The schema is invalid or contains an unknown reference.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        try:
            self._compile(schema)
        except BaseException as error:
            if isinstance(error, InvalidSchema) or not is_failure(error):
                raise
            name = type(error).__name__
            raise InvalidSchema(f"The JSON Schema cannot be read: {name}.") from error

    def _compile(self, schema: Schema) -> None:
        from jsonschema_specifications import REGISTRY  # slow to import
        from referencing.jsonschema import specification_with

        validator_class = _validator_class(schema)
        root = prepare(schema)
        specification = specification_with(validator_class.META_SCHEMA["$schema"])
        resolver = REGISTRY.resolver_with_root(specification.create_resource(root))
        self._has_patterns = False
        for part in subschemas(root, resolver):
            for pattern in patterns_of(part):
                self._has_patterns = True
                try:
                    compile_pattern(pattern)
                except Exception as error:
                    message = f"The JSON Schema has an invalid pattern: {pattern!r}, {error}."
                    raise InvalidSchema(message) from error
        # The library's default registry would fetch unknown references from the network.
        self._validator: Validator = extended(validator_class)(root, registry=REGISTRY)
        self._confirm = confirmation(schema, subschemas(root, resolver, expand=True))

    def fits(self, value: Any, pointer: str = "") -> bool:
        """Whether a value is valid; False if it cannot be checked.

        Args:
            value: Any value.
            pointer: JSON pointer to the part of the schema to use; "" is the complete schema.
        """
        if not pointer:
            return self._confirm(value) or self._run(self._validator.is_valid, value) is True
        part = self._validator.evolve(schema={"$ref": "#" + quote(pointer)})
        return self._run(part.is_valid, value) is True

    def issues(self, value: Any) -> tuple[Issue, ...]:
        """Return all issues of a value, sorted by position; empty if it is valid."""
        if self._confirm(value):
            return ()
        found = self._run(lambda value: issues_of(self._validator.iter_errors(value)), value)
        return (found,) if isinstance(found, Issue) else found

    def load(self, value: Any, *, coerce: bool = False) -> tuple[Any, tuple[Issue, ...]]:
        """Return the value if it is valid, else None, and all issues.

        Args:
            value: Any value.
            coerce: Ignored: a JSON Schema has no type to convert to.
        """
        issues = self.issues(value)
        return (None if issues else value), issues

    def _run(self, check: Callable[[Any], T], value: Any) -> T | Issue:
        """Return the result of a check, or an issue if the library fails or reaches a limit."""
        try:
            with time_limit() if self._has_patterns else nullcontext():
                return follow_references_once(check, value)
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


def _validator_class(schema: Schema) -> Any:
    """Check a schema, and return the library's validator class for its draft."""
    import jsonschema  # slow to import

    if not isinstance(schema, Mapping | bool):
        raise InvalidSchema(
            f"A JSON Schema must be a mapping or a bool, not {type(schema).__name__}."
        )
    default = jsonschema.Draft202012Validator
    validator_class: Any = jsonschema.validators.validator_for(schema, default=default)
    try:
        # Without a format checker, which would compile patterns with Python's `re`.
        validator_class.check_schema(schema, format_checker=None)
    except jsonschema.SchemaError as error:
        message = f"The JSON Schema is invalid at {error.json_path}: {error.message[:200]}"
        raise InvalidSchema(message) from error
    return validator_class
