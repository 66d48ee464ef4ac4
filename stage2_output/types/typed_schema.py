"""Use a pydantic model, or any type that pydantic supports, as a schema.

    TypedSchema(list[date]).load(["2024-02-29"])  ->  [datetime.date(2024, 2, 29)], ()

A value is first checked against the JSON Schema of the type, which the model received, so that its
issues have the usual wording. Pydantic then reads the value; it also knows which dates exist and
calls the developer's validators. Types are strict: "5" is not 5, but the text "2024-02-29" is a
date, because JSON has no dates. Pydantic is imported when a type is first used.
"""

import json
import sys
from dataclasses import is_dataclass
from functools import partial
from inspect import isroutine
from typing import TYPE_CHECKING, Any

from stage2_output.errors import InvalidSchema
from stage2_output.result import Issue
from stage2_output.schema import CompiledSchema
from stage2_output.types.pydantic_errors import issues_of_pydantic
from stage2_output.types.unions import recursive_alternatives, takes_too_long
from stage2_output.validation.issues import NOT_CHECKED, TOO_DEEP, TOO_LARGE, TOO_MANY_ALTERNATIVES

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class TypedSchema:
    """A type that was compiled to a schema once.

    Args:
        kind: A pydantic model, a dataclass, a TypedDict, `list[int]`, `int | None`, `Literal["a"]`,
            an `Annotated[...]`, or a `TypeAdapter` of any type.

    Attributes:
        schema: Its JSON Schema, with the names that validation uses.

    Raises:
        InvalidSchema: The type, or the type of a field, has no JSON Schema.
    """

    def __init__(self, kind: Any) -> None:
        from pydantic import TypeAdapter  # slow to import

        # Pydantic would evaluate a text, call a function, and repeat an instance in its error.
        is_instance = is_dataclass(kind) or hasattr(type(kind), "__pydantic_fields__")
        is_value = is_instance or isroutine(kind) or isinstance(kind, str | partial)
        if is_value and not isinstance(kind, type):
            raise InvalidSchema(
                "A schema must be a JSON Schema (a mapping) or a type such as a pydantic model, not"
                f" a value of the type {type(kind).__name__}."
            )
        try:
            self._adapter = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
            self.schema = _json_schema(self._adapter)
            self._compiled = CompiledSchema(self.schema)
        except Exception as error:  # a type may be any expression and raise anything
            reason = str(error).partition("\n")[0][:300]
            raise InvalidSchema(f"{_type_name(kind)} has no valid JSON Schema: {reason}") from error
        self._alternatives = recursive_alternatives(self.schema)

    def fits(self, value: Any, pointer: str = "") -> bool:
        """Whether a value fits the JSON Schema or a part of it; `load` may find more issues."""
        return self._compiled.fits(value, pointer)

    def load(self, value: Any, *, coerce: bool = False) -> tuple[Any, tuple[Issue, ...]]:
        """Return a value as the type, or None, and all issues.

        Args:
            value: A value as `json.loads` returns it.
            coerce: Whether the type decides how strict it is. Values that do not fit the JSON
                Schema are still rejected; `coercion.py` converts them first.

        Raises:
            Exception: Any exception of a validator of the type, except for ValueError and
                AssertionError, which reject a value.
        """
        if issues := self._compiled.issues(value):
            return None, issues
        if takes_too_long(self._alternatives, value):
            return None, (TOO_MANY_ALTERNATIVES,)
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            # Pydantic converts an integer that a float cannot represent to infinity.
            json.loads(text, parse_int=_float_sized)
        except RecursionError:
            return None, (TOO_DEEP,)
        except ValueError:  # thousands of digits, infinity or NaN
            return None, (TOO_LARGE,)
        return self._read(text, value, strict=None if coerce else True)

    def _read(self, text: str, value: Any, *, strict: bool | None) -> tuple[Any, tuple[Issue, ...]]:
        from pydantic import ValidationError  # slow to import

        try:
            return self._adapter.validate_json(text.encode(), strict=strict), ()
        except UnicodeEncodeError:  # half a surrogate pair, which pydantic's parser rejects
            return None, (NOT_CHECKED,)
        except ValidationError as error:
            found = error.errors(include_url=False)
        is_root_error = found[0]["type"] == "json_invalid" and not found[0]["loc"]
        if is_root_error and not isinstance(value, str):
            return None, (TOO_DEEP,)  # the text is valid, so the parser reached its nesting limit
        if any(item["type"] == "int_type" for item in found):
            # JSON Schema accepts 5.0 as an integer; pydantic's strict mode does not.
            whole = json.dumps(json.loads(text, parse_float=_whole), ensure_ascii=False)
            if whole != text:
                return self._read(whole, value, strict=strict)
        return None, issues_of_pydantic(found, value)


def _float_sized(digits: str) -> int:
    number = int(digits)
    if abs(number) > sys.float_info.max:
        raise ValueError("too large for a float")
    return number


def _whole(digits: str) -> int | float:
    number = float(digits)
    return int(number) if number.is_integer() else number


def _json_schema(adapter: "TypeAdapter[Any]") -> dict[str, Any]:
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind  # slow to import

    class Generator(GenerateJsonSchema):
        def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
            """Ignore warnings: parts without a JSON Schema are left out."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            """Omit titles that repeat the name, because they cost tokens."""
            return False

    return adapter.json_schema(schema_generator=Generator)


def _type_name(kind: Any) -> str:
    is_plain_class = isinstance(kind, type) and not hasattr(kind, "__args__")
    return kind.__name__ if is_plain_class else str(kind)[:100]
