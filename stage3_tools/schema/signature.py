"""Derive a description and a JSON Schema from a Python function.

Types and defaults come from the signature, through pydantic. Descriptions come from the docstring.
This module does not know `Tool`; `tool.py` combines the pieces.
"""

import inspect
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NotRequired

from stage3_tools.errors import RegistrationError
from stage3_tools.schema.callables import annotation_of, is_context
from stage3_tools.schema.docstring import docstring_of

_VALUE_KEYWORDS = ("default", "const", "enum", "examples")  # they contain values, not schemas


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function.

    Attributes:
        description: The text of the docstring above its sections.
        schema: JSON Schema of the arguments; other arguments are not allowed.
        convert: Converts valid arguments to the types of the signature: dates, enums, models.
            Raises `pydantic.ValidationError` for what JSON Schema cannot express, such as an
            invalid date.
        context: The name of the `ToolContext` parameter, or None. The schema does not contain it.
    """

    description: str
    schema: dict[str, Any]
    convert: Callable[[dict[str, Any]], dict[str, Any]]
    context: str | None = None


def signature_of(function: Callable[..., Any]) -> Signature:
    """Read the signature and the docstring of a function.

    Raises:
        RegistrationError: A parameter has no name, or its type has no JSON Schema.
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = _named_parameters(function)
        types = {parameter.name: annotation_of(parameter, function) for parameter in parameters}
        contexts = [name for name, annotation in types.items() if is_context(annotation)]
        if len(contexts) > 1:
            raise TypeError("only one parameter may take a ToolContext")
        parameters = [parameter for parameter in parameters if parameter.name not in contexts]
        adapter = _adapter(name, {p.name: _field(p, types[p.name]) for p in parameters})
        schema = _without_titles(adapter.json_schema(by_alias=False))
    except Exception as error:  # an annotation may be any expression, and raise any exception
        reason = getattr(error, "message", error)  # pydantic's message, without its link
        raise RegistrationError(f"{name}: its parameters have no JSON Schema: {reason}") from error
    description, descriptions = docstring_of(function)
    _describe(schema, parameters, descriptions)
    convert = partial(adapter.validate_python, by_name=True, by_alias=False)  # as in the schema
    return Signature(description, schema, convert, contexts[0] if contexts else None)


def _named_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{parameter} has no name that JSON could use")
    if parameters and parameters[0].name in ("self", "cls"):
        scope = getattr(function, "__qualname__", "").rpartition(".")[0]
        is_in_class = scope and not scope.endswith("<locals>")
        if is_in_class or parameters[0].annotation is inspect.Parameter.empty:
            raise TypeError(
                f"a model cannot give {parameters[0].name}; after the class, make a tool of an "
                "object's method: tool(thing.method)"
            )
    return parameters


def _adapter(name: str, fields: dict[str, Any]) -> Any:
    """Create a pydantic TypeAdapter for a dict with these fields."""
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict  # required by pydantic before Python 3.12

    make_type: Any = TypedDict  # the fields are not known to type checkers
    # Not a model: a TypedDict may have fields named `json` or `copy`, and the function applies its
    # own defaults.
    typed_dict = make_type(name, fields)
    typed_dict.__pydantic_config__ = ConfigDict(extra="forbid")
    return TypeAdapter(typed_dict)


def _field(parameter: inspect.Parameter, annotation: Any) -> Any:
    """Convert a parameter to a field of a TypedDict."""
    from pydantic.fields import FieldInfo

    default = parameter.default
    if isinstance(default, FieldInfo):  # `x: int = Field(5, ge=1)`, as in a model
        annotation = Annotated[annotation, default]
        return annotation if default.is_required() else NotRequired[annotation]
    return annotation if default is parameter.empty else NotRequired[annotation]


def _describe(
    schema: dict[str, Any], parameters: list[inspect.Parameter], descriptions: dict[str, str]
) -> None:
    """Add defaults and descriptions to the properties of a schema."""
    from pydantic_core import to_jsonable_python

    schema.pop("description", None)  # pydantic's copy of TypedDict's own docstring
    for parameter in parameters:
        field = schema["properties"][parameter.name]
        if text := descriptions.get(parameter.name):
            field.setdefault("description", text)
        if parameter.default is not parameter.empty:
            with suppress(Exception):  # the default has no JSON form; the schema omits it
                default = to_jsonable_python(parameter.default)
                json.dumps(default, allow_nan=False)
                field.setdefault("default", default)


def _without_titles(schema: Any, *, are_names: bool = False) -> Any:
    """Remove the titles that pydantic derives from the field names; they only cost tokens.

    Args:
        schema: A JSON Schema or a part of one.
        are_names: Whether the keys are names of properties or definitions, which may be "title".
    """
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if are_names:
            result[key] = _without_titles(value)
        elif key in _VALUE_KEYWORDS:
            result[key] = value
        elif key != "title":
            result[key] = _without_titles(value, are_names=key in ("properties", "$defs"))
    return result
