"""Tools of a case as Python functions with named parameters, which every peer accepts."""

import inspect
import json
from collections.abc import Callable
from typing import Any, Literal

from tests.conformance.surroundings import Failure

TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
}
KNOWN = {"type", "description", "enum", "title"}


def function_of(spec: dict[str, Any], run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the parameters of a tool, an async one for an async tool.

    It returns text.

    Raises:
        Failure: A parameter has a schema that a signature cannot express.
    """

    def function(**arguments: Any) -> str:
        return text_of(run(spec["name"], given(arguments)))

    async def async_function(**arguments: Any) -> str:
        return text_of(await run(spec["name"], given(arguments)))

    return described(async_function if spec.get("async") else function, spec)


def described(function: Callable[..., Any], spec: dict[str, Any]) -> Callable[..., Any]:
    """Give a function the name, the docstring and the signature of a tool."""
    schema = spec["parameters"]
    required = schema.get("required", [])
    parameters, texts = [], []
    for name, each in schema.get("properties", {}).items():
        if set(each) - KNOWN or each.get("type", "") not in TYPES:
            raise Failure("unsupported", f"a signature cannot express the schema {each}")
        kind = Literal[tuple(each["enum"])] if "enum" in each else TYPES[each["type"]]
        default = inspect.Parameter.empty if name in required else None
        kind = kind if name in required else kind | None
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default
            )
        )
        if "description" in each:
            texts.append(f"    {name}: {each['description']}")
    function.__name__ = function.__qualname__ = spec["name"]
    about = spec.get("description") or spec["name"]
    function.__doc__ = "\n".join([about, "", "Args:", *texts]) if texts else about
    function.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": str}
    return function


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those that the model left out."""
    return {name: value for name, value in arguments.items() if value is not None}


def text_of(value: Any) -> str:
    """The text of a result."""
    return value if isinstance(value, str) else json.dumps(value)
