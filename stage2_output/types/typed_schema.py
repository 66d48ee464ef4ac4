"""A pydantic model, or any type that pydantic takes, as a schema: data come back as that type.

    TypedSchema(list[date]).load(["2024-02-29"])  ->  [datetime.date(2024, 2, 29)], ()

Two questions are asked of a value. Does it fit the JSON Schema of the type, which is what the model
was told? Then what is wrong is told in the words used everywhere else. And does pydantic take it,
which knows what no JSON Schema says: that a date exists, what a validator of the developer's wants?
Types are strict: "5" is not 5, but the text "2024-02-29" is a date, since JSON has no other.
Pydantic is imported when a type is used.
"""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from inspect import isroutine
from types import NoneType
from typing import TYPE_CHECKING, Any, get_type_hints

from stage2_output.errors import InvalidSchema
from stage2_output.schema import CompiledSchema
from stage2_output.types.unions import recursive_alternatives, takes_too_long
from stage2_output.validation.issues import TOO_DEEP, TOO_LARGE, TOO_MANY_WAYS, Issue

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_PLAIN = (Mapping, bool, int, float, str, bytes, list, tuple, set, frozenset, NoneType, Enum)
_NEITHER = "A schema is a JSON Schema (a mapping), or a type such as a pydantic model"
_MANY_DIGITS = re.compile("[0-9]{300}")


def is_type(schema: object) -> bool:
    """Whether something given as a schema is for `TypedSchema`, and not a JSON Schema or a mistaken
    value.
    """
    return not (isinstance(schema, _PLAIN) or _is_function(schema) or _is_of_a_model(schema))


class TypedSchema:
    """A type that was made into a schema once.

    Args:
        kind: A pydantic model, a dataclass, a TypedDict, `list[int]`, `int | None`, `Literal["a"]`,
            an `Annotated[...]`, or a `TypeAdapter` of anything.

    Attributes:
        schema: Its JSON Schema, with the names that values are read by.

    Raises:
        InvalidSchema: The type, or that of a field, has no JSON Schema.
    """

    def __init__(self, kind: Any) -> None:
        try:
            self._adapter = _adapter(kind)
            self.schema = _json_schema(self._adapter)
        except InvalidSchema:
            raise
        except Exception as error:  # a type may be any expression, and raise anything
            why = str(error).partition("\n")[0][:300]
            raise InvalidSchema(
                f"{_name(kind)}{_faulty_field(kind)} has no JSON Schema: {why}"
            ) from error
        try:
            self._compiled = CompiledSchema(self.schema)
            self._alternatives = recursive_alternatives(self.schema)
        except InvalidSchema as error:  # a pattern that Python cannot read, for one
            raise InvalidSchema(f"{_name(kind)}: {error}") from error

    def issues(self, value: Any) -> tuple[Issue, ...]:
        """What is wrong with a value by the JSON Schema alone; `load` finds this, too, and more."""
        return self._compiled.issues(value)

    def fits(self, value: Any) -> bool:
        """Whether a value fits the JSON Schema; `load` may find more that is wrong."""
        return self._compiled.fits(value)

    def load(self, value: Any, *, coerce: bool = False) -> tuple[Any, tuple[Issue, ...]]:
        """A value as the type, or None and everything that is wrong with it.

        Args:
            value: A value as `json.loads` gives it.
            coerce: Leave it to the type how strict it is. What does not fit the JSON Schema is
                refused all the same: `coercion.coerce` makes it fit.

        Raises:
            Exception: Whatever a validator of the type raises, except for ValueError and
                AssertionError, by which validators refuse.
        """
        if issues := self._compiled.issues(value):
            return None, issues
        if takes_too_long(self._alternatives, value):
            return None, (TOO_MANY_WAYS,)
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except RecursionError:
            return None, (TOO_DEEP,)
        except ValueError:  # thousands of digits, or no number at all
            return None, (TOO_LARGE,)
        if _MANY_DIGITS.search(text) and self._may_become_infinite(text):
            return None, (TOO_LARGE,)
        return self._read(text, value, strict=None if coerce else True)

    def _read(self, text: str, value: Any, *, strict: bool | None) -> tuple[Any, tuple[Issue, ...]]:
        from pydantic import ValidationError

        from stage2_output.types.pydantic_errors import issues_of_refusal, places_of

        try:
            return self._validated(text, value, strict), ()
        except ValidationError as error:
            found = error.errors(include_url=False)
        if (
            found[0]["type"] == "json_invalid"
            and not found[0]["loc"]
            and not isinstance(value, str)
        ):
            return None, (
                TOO_DEEP,
            )  # the text is valid: only the parser's limit of nesting is left
        # To JSON Schema 5.0 is an integer; to pydantic it is none where types are strict.
        changed = _with_integers(text, places_of(found, "int_type", value))
        if changed is None:
            return None, issues_of_refusal(found, value)
        return self._read(json.dumps(changed, ensure_ascii=False), changed, strict=strict)

    def _validated(self, text: str, value: Any, strict: bool | None) -> Any:
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            # Half a surrogate pair is nothing to pydantic's parser. Given as Python's values, a
            # date is text, which strict types refuse; the schema has seen to it already that no
            # type is wrong.
            return self._adapter.validate_python(value, strict=False)
        return self._adapter.validate_json(encoded, strict=strict)

    def _may_become_infinite(self, text: str) -> bool:
        """A float cannot hold every integer, and pydantic makes infinity of the others.

        Where the schema takes half of something, it is not an integer that is wanted.
        """
        large: list[str] = []

        def probe(digits: str) -> float:
            if abs(int(digits)) <= sys.float_info.max:
                return int(digits)
            large.append(digits)
            return 0.5

        issues = self._compiled.issues(json.loads(text, parse_int=probe))
        return len({issue.path for issue in issues}) < len(large)


def _with_integers(text: str, places: list[list[str | int]]) -> Any:
    """The value with whole numbers at these places; None if there is none that was written as a
    float.
    """
    top: list[Any] = [json.loads(text)]
    changed = False
    for place in places:
        holder: Any = top
        *way, last = 0, *place
        for each in way:
            holder = holder[each]
        number = holder[last]
        if isinstance(number, float) and number.is_integer():
            holder[last], changed = int(number), True
    return top[0] if changed else None


def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    if isinstance(kind, TypeAdapter):
        return kind
    if isinstance(kind, Mapping):
        raise InvalidSchema("A mapping is no type. A JSON Schema is for CompiledSchema.")
    if not is_type(kind):
        raise InvalidSchema(f"{_NEITHER}; this is {_what(kind)}.")
    return TypeAdapter(kind)


def _is_function(kind: object) -> bool:
    """Of which pydantic would make a schema of its arguments, and call it."""
    return isroutine(kind) or isinstance(kind, partial)


def _is_of_a_model(kind: object) -> bool:
    """Whether it is an object of a type that would be a schema; told without the import of
    pydantic.
    """
    return not isinstance(kind, type) and (
        is_dataclass(kind) or hasattr(type(kind), "__pydantic_fields__")
    )


def _what(kind: object) -> str:
    """What was given instead of a schema, without saying what it holds."""
    if _is_function(kind):
        return "a function"
    also = ", which would be one" if _is_of_a_model(kind) else ""
    return f"a value of the type {type(kind).__name__}{also}"


def _json_schema(adapter: "TypeAdapter[Any]") -> dict[str, Any]:
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

    class Plain(GenerateJsonSchema):
        def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
            """Never: a default that JSON cannot hold, or one of several types without a schema, is
            left out.
            """

        def field_title_should_be_set(self, schema: Any) -> bool:
            """Never: a title that repeats the name costs tokens and says nothing."""
            return False

    return adapter.json_schema(schema_generator=Plain)


def _faulty_field(kind: Any) -> str:
    """The first field that has no JSON Schema of its own, if the type has fields."""
    try:
        fields = get_type_hints(kind, include_extras=True)
    except Exception:  # not a type with fields, or one with an annotation that cannot be read
        return ""
    for name, inner in fields.items():
        try:
            _json_schema(_adapter(inner))
        except Exception:
            return f".{name}"
    return ""


def _name(kind: Any) -> str:
    return (
        kind.__name__
        if isinstance(kind, type) and not hasattr(kind, "__args__")
        else str(kind)[:100]
    )
