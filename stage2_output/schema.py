"""Compile a JSON Schema once, and check many values with it.

The `jsonschema` library decides whether a value is valid and finds what is wrong with it; `issues.py` puts that
into words. Schemas are read as written, references are never fetched, and an invalid schema is refused when it is
compiled, not when it is used. Used by the controller, and by stage 3 for the arguments of tools.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from stage2_output.confirm import Confirm, confirmation
from stage2_output.errors import InvalidSchema
from stage2_output.issues import NOT_CHECKED, NOT_IN_TIME, TOO_DEEP, TOO_LARGE, Issue, issues_of
from stage2_output.patterns import compiled, time_limit
from stage2_output.subschemas import Schema, prepared, subschemas

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


class CompiledSchema:
    """A schema that was checked once.

    Args:
        schema: A JSON Schema; draft 2020-12 unless its `$schema` says otherwise. Not to be changed afterwards.

    Raises:
        InvalidSchema: The schema breaks the rules of JSON Schema, or refers to something it does not hold.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        try:
            self._validator, self._confirm = _compile(schema)
        except InvalidSchema:
            raise
        except RecursionError as error:
            raise InvalidSchema("The JSON Schema is nested too deeply.") from error
        except Exception as error:  # a schema may hold anything
            raise InvalidSchema(f"The JSON Schema cannot be read: {type(error).__name__}.") from error

    def fits(self, value: Any, pointer: str = "") -> bool:
        """Whether a value is valid; one that cannot be checked is not.

        Args:
            value: Any value.
            pointer: JSON pointer to the part of the schema that the value should fit; "" is the whole schema.
        """
        if not pointer and self._confirm(value):
            return True
        validator = self._validator
        if pointer:
            validator = validator.evolve(schema={"$ref": "#" + quote(pointer)})
        try:
            with _limits():
                return validator.is_valid(value)
        except _CannotBeChecked:
            return False

    def issues(self, value: Any) -> tuple[Issue, ...]:
        """Everything that is wrong with a value, in the order of places; empty if it is valid."""
        if self._confirm(value):
            return ()
        try:
            with _limits():
                return issues_of(self._validator.iter_errors(value))
        except _CannotBeChecked as error:
            return (error.issue,)

    def load(self, value: Any, *, coerce: bool = False) -> tuple[Any, tuple[Issue, ...]]:
        """The value, or None and everything that is wrong with it; a JSON Schema changes nothing."""
        issues = self.issues(value)
        return (None if issues else value), issues


class _CannotBeChecked(Exception):
    """The value and the schema are more than the library can check."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.message)
        self.issue = issue


@contextmanager
def _limits() -> Iterator[None]:
    """Limit the work for one value; no exception of the library passes.

    Raises:
        _CannotBeChecked: A limit is reached, or the library fails.
    """
    from stage2_output.keywords import references_followed_once  # imports the library

    try:
        with time_limit(), references_followed_once():
            yield
    except TimeoutError:
        raise _CannotBeChecked(NOT_IN_TIME) from None
    except RecursionError:
        raise _CannotBeChecked(TOO_DEEP) from None
    except (ArithmeticError, ValueError):  # int(nan), or thousands of digits in a message
        raise _CannotBeChecked(TOO_LARGE) from None
    except Exception:
        raise _CannotBeChecked(NOT_CHECKED) from None


def _compile(schema: Schema) -> tuple["Validator", Confirm]:
    """The validator of a schema, and what may confirm its verdict sooner."""
    import jsonschema  # at first use: it costs as much as everything else here together
    from jsonschema_specifications import REGISTRY
    from referencing.jsonschema import specification_with

    from stage2_output.keywords import extended

    if not isinstance(schema, Mapping | bool):
        raise InvalidSchema(f"A JSON Schema is a mapping, not {type(schema).__name__}.")
    if isinstance(schema, Mapping) and not isinstance(schema.get("$schema", ""), str):
        raise InvalidSchema("The JSON Schema's $schema is not text; it names a draft, or is left out.")
    kind: Any = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema, format_checker=None)  # patterns are compiled below, by another library
    except jsonschema.SchemaError as error:
        raise InvalidSchema(
            f"The JSON Schema is wrong at {error.json_path}: {error.message[:200]}"
        ) from error
    root = prepared(schema)
    specification = specification_with(kind.META_SCHEMA["$schema"])
    resolver = REGISTRY.resolver_with_root(specification.create_resource(root))
    for part in subschemas(root, resolver):
        _compile_patterns(part)
    # The registry is named, because the library's default fetches unknown references from the network.
    validator: Validator = extended(kind)(root, registry=REGISTRY)
    return validator, confirmation(schema, subschemas(root, resolver, expand=True))


def _compile_patterns(part: Mapping[str, Any]) -> None:
    """Refuse invalid patterns."""
    of_names = part.get("patternProperties")
    patterns = [*of_names] if isinstance(of_names, Mapping) else []
    for pattern in [*patterns, part.get("pattern")]:
        if not isinstance(pattern, str):
            continue  # under a keyword that JSON Schema does not know
        try:
            compiled(pattern)
        except Exception as error:
            text = f"The JSON Schema has a pattern that cannot be read: {pattern!r}, {error}."
            raise InvalidSchema(text) from error
