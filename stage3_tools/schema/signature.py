"""From a Python function to what a model is told of it: a description and a JSON Schema.

Types and defaults come from the signature, through pydantic; descriptions come from the docstring.
Knows nothing of tools: `decorator.py` puts the pieces together.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from stage3_tools.errors import RegistrationError
from stage3_tools.schema.callables import annotation_of, is_context
from stage3_tools.schema.docstring import docstring_of

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
        context: The name of the parameter that takes a `ToolContext`, or None; it is in no schema.
    """

    description: str
    schema: dict[str, Any]
    types: "TypeAdapter[dict[str, Any]]"
    context: str | None = None

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments that fit the schema, as the types of the signature: dates, enums, models.

        Raises:
            pydantic.ValidationError: Something is wrong that the schema could not say, such as a
            date that is none.
        """
        return self.types.validate_python(
            arguments, by_name=True, by_alias=False
        )  # as in the schema


def signature_of(function: Callable[..., Any]) -> Signature:
    """Read a function's signature and docstring.

    Raises:
        RegistrationError: A parameter cannot be described: it has no name, or a type without a JSON
            Schema.
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = _parameters(function)
        types = {each.name: annotation_of(each, function) for each in parameters}
        context = _context_of(types)
        parameters = [each for each in parameters if each.name != context]
        adapter = _adapter(name, {each.name: _field(each, types[each.name]) for each in parameters})
        schema = _without_titles(adapter.json_schema(by_alias=False))
    except Exception as error:  # an annotation may be any expression, and raise anything
        why = getattr(error, "message", error)  # pydantic's, without its link
        raise RegistrationError(f"{name}: its parameters have no JSON Schema: {why}") from error
    description, about = docstring_of(function)
    _describe(schema, parameters, about)
    return Signature(description, schema, adapter, context)


def _context_of(types: Mapping[str, Any]) -> str | None:
    """The parameter that is no argument of the model's."""
    names = [name for name, kind in types.items() if is_context(kind)]
    if len(names) > 1:
        raise TypeError(f"{' and '.join(names)} both take a ToolContext, and there is one")
    return names[0] if names else None


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    for each in parameters:
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise TypeError(f"{each} has no name that JSON could use")
    if parameters and parameters[0].name in ("self", "cls"):
        home = getattr(function, "__qualname__", "").rpartition(".")[0]
        in_a_class = home and not home.endswith("<locals>")
        if in_a_class or parameters[0].annotation is inspect.Parameter.empty:
            raise TypeError(
                f"it takes {parameters[0].name}, which no model has; below the class, make a tool of an object's "
                "method: tool(thing.method)"
            )
    return parameters


def _adapter(name: str, fields: dict[str, Any]) -> "TypeAdapter[dict[str, Any]]":
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

    make_type: Any = TypedDict  # from a signature, which type checkers cannot know
    # Not a model: fields of a TypedDict may be called `json` or `copy`, and defaults stay the
    # function's.
    typed_dict = make_type(name, fields)
    typed_dict.__pydantic_config__ = ConfigDict(extra="forbid")
    return TypeAdapter(typed_dict)


def _field(parameter: inspect.Parameter, kind: Any) -> Any:
    """A parameter as a field of a TypedDict."""
    from pydantic.fields import FieldInfo

    default = parameter.default
    if isinstance(default, FieldInfo):  # `x: int = Field(5, ge=1)`, as in a model
        kind = Annotated[kind, default]
        return kind if default.is_required() else NotRequired[kind]
    return kind if default is parameter.empty else NotRequired[kind]


def _describe(
    schema: dict[str, Any], parameters: list[inspect.Parameter], about: dict[str, str]
) -> None:
    """Add what signature and docstring say besides the types: defaults and descriptions."""
    from pydantic_core import to_jsonable_python

    schema.pop("description", None)  # pydantic's copy of TypedDict's own docstring
    for each in parameters:
        field = schema["properties"][each.name]
        if text := about.get(each.name):
            field.setdefault("description", text)
        if each.default is not each.empty:
            with suppress(
                Exception
            ):  # a default that JSON cannot hold is the function's own business
                plain = to_jsonable_python(each.default)
                json.dumps(plain, allow_nan=False)
                field.setdefault("default", plain)


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
