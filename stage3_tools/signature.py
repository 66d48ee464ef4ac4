"""From a Python function to what a model is told of it: a description and a JSON Schema.

Types and defaults come from the signature, through pydantic; descriptions come from the docstring (Google,
NumPy or Sphinx style), through griffe. Knows nothing of tools: `tool.py` puts the pieces together.
"""

import inspect
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired

from stage3_tools.errors import RegistrationError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_VALUES = ("default", "const", "enum", "examples")  # keywords under which stand values, not schemas


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes.

    Attributes:
        description: The docstring's text above its sections.
        schema: JSON Schema of the arguments; nothing beyond them is allowed.
        types: Turns checked arguments into the types the function wants.
    """

    description: str
    schema: dict[str, Any]
    types: "TypeAdapter[dict[str, Any]]"

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments that fit the schema, as the types of the signature: dates, enums, models.

        Raises:
            ValueError: Something is wrong that the schema could not say, such as a date that is none.
        """
        from pydantic import ValidationError

        try:
            return self.types.validate_python(arguments)
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)
            lines = [f"- /{'/'.join(map(str, each['loc']))} {each['msg']}" for each in found]
            raise ValueError("\n".join(["", *lines])) from None


def signature_of(function: Callable[..., Any]) -> Signature:
    """Read a function's signature and docstring.

    Raises:
        RegistrationError: A parameter cannot be described: it has no name, or a type without a JSON Schema.
    """
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

    make_type: Any = TypedDict  # from a signature, which type checkers cannot know
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = list(inspect.signature(function).parameters.values())
        fields = {each.name: _type_of(each, function) for each in parameters}
        # Not a model: fields of a TypedDict may be called `json` or `copy`, and defaults stay the function's.
        typed_dict = make_type(name, fields)
        typed_dict.__pydantic_config__ = ConfigDict(
            extra="forbid", validate_by_name=True, validate_by_alias=False
        )
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(typed_dict)
        schema = _without_titles(adapter.json_schema(by_alias=False))
    except Exception as error:  # an annotation may be any expression, and raise anything
        raise RegistrationError(f"{name}: its parameters have no JSON Schema: {error}") from error
    description, about = _docstring(function)
    _describe(schema, parameters, about)
    return Signature(description, schema, adapter)


def _type_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError(f"{parameter} has no name that JSON could use")
    kind = parameter.annotation
    if kind is parameter.empty:
        if parameter.name == "self":
            raise TypeError("it takes self; use the method of an object, such as tool(thing.method)")
        kind = Any
    if isinstance(kind, str):  # `from __future__ import annotations`, or a type in quotes
        plain = inspect.unwrap(function)
        kind = eval(
            kind, getattr(plain, "__globals__", None) or getattr(type(plain).__call__, "__globals__", {})
        )
    return kind if parameter.default is parameter.empty else NotRequired[kind]


def _describe(schema: dict[str, Any], parameters: list[inspect.Parameter], about: dict[str, str]) -> None:
    """Add what signature and docstring say besides the types: defaults and descriptions."""
    from pydantic_core import to_jsonable_python

    schema.pop("description", None)  # pydantic's copy of TypedDict's own docstring
    for each in parameters:
        field = schema["properties"][each.name]
        if text := about.get(each.name):
            field.setdefault("description", text)
        if each.default is not each.empty:
            with suppress(ValueError):  # a default that JSON cannot hold is the function's own business
                plain = to_jsonable_python(each.default)
                json.dumps(plain, allow_nan=False)
                field.setdefault("default", plain)


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The text above the sections, and what is said of each parameter."""
    text = inspect.getdoc(function) or ""
    if not text:
        return "", {}
    from griffe import Docstring, DocstringSectionKind, parse_google, parse_numpy, parse_sphinx

    for parse in (parse_google, parse_numpy, parse_sphinx):
        sections = parse(Docstring(text), warnings=False)
        if any(section.kind is DocstringSectionKind.parameters for section in sections):
            break
    else:
        sections = parse_google(Docstring(text), warnings=False)
    parameters = (s for s in sections if s.kind is DocstringSectionKind.parameters)
    about = {each.name: each.description for section in parameters for each in section.value}
    texts = (str(s.value) for s in sections if s.kind is DocstringSectionKind.text)
    return next(texts, ""), about


def _without_titles(schema: Any, *, names: bool = False) -> Any:
    """Pydantic titles every field with its own name; a model would pay for each and learn nothing.

    Args:
        schema: A JSON Schema or a part of one.
        names: The keys are names of properties or definitions, one of which may be "title".
    """
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: each
        if not names and key in _VALUES
        else _without_titles(each, names=not names and key in ("properties", "$defs"))
        for key, each in schema.items()
        if names or key != "title"
    }
