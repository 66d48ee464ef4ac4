"""`@tool`: a function with named parameters becomes a `Tool`.

Name, description and schema come from the function (`signature.py`); a parameter annotated
`ToolContext` is filled by whoever runs the tool, and the model never sees it.
"""

from collections.abc import Callable, Mapping
from typing import Any, overload

from stage3_tools.context import ToolContext
from stage3_tools.errors import RegistrationError, Retry
from stage3_tools.schema.callables import is_async, is_generator
from stage3_tools.schema.signature import signature_of
from stage3_tools.tool import YIELDS, Effect, Tool


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout: float | None = None,
    retry: Retry | int | None = None,
    needs_approval: bool | Callable[[dict[str, Any]], bool] = False,
    exclusive: bool = False,
    metadata: Mapping[str, Any] = ...,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **settings: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a function with named parameters: `@tool`, or `@tool(effect="read")`.

    Args:
        function: Plain or async, or a method of an object. Its annotations become the schema, its
            docstring the descriptions.
        name: Another name than the function's.
        description: Another description than the docstring's.
        settings: `effect`, `timeout`, `retry`, `needs_approval`, `exclusive`, `metadata`: see
            `Tool`.

    Raises:
        RegistrationError: It is no function, has no name, yields, or has a parameter that cannot be
            described in JSON.
    """

    def make(function: Callable[..., Any]) -> Tool:
        _refuse_what_is_no_function(function)
        known_as = getattr(function, "__name__", "<none>") if name is None else name
        if known_as in ("<none>", "<lambda>"):
            raise RegistrationError(
                f"{function!r:.200} has no name of its own: tool(name=…) gives it one."
            )
        if is_generator(function):
            raise RegistrationError(f"{known_as}: {YIELDS}")
        signature = signature_of(function)
        return Tool(
            known_as,
            signature.description if description is None else description,
            signature.schema,
            _with_names(function, signature.context),
            parse=signature.convert,
            **settings,
        )

    return make if function is None else make(function)


def _refuse_what_is_no_function(given: Any) -> None:
    if isinstance(given, classmethod | property):
        raise RegistrationError(
            f"{given!r:.200}: below the class, make a tool of its method: tool(thing.method)."
        )
    if not callable(given) or isinstance(given, type):
        raise RegistrationError(
            f"{given!r:.200} is not a function. Put @tool above a function, or make a tool with Tool(...); "
            "a list is given as register(*tools)."
        )


def _with_names(function: Callable[..., Any], context_name: str | None) -> Callable[..., Any]:
    """The function, taking one dict of arguments, and the context if it has a parameter for it."""
    if context_name is not None:
        return _with_context(function, context_name)

    def execute(arguments: dict[str, Any]) -> Any:
        return function(**arguments)

    async def execute_async(arguments: dict[str, Any]) -> Any:
        return await function(**arguments)

    return execute_async if is_async(function) else execute


def _with_context(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def execute(arguments: dict[str, Any], context: ToolContext) -> Any:
        return function(**arguments, **{name: context})

    async def execute_async(arguments: dict[str, Any], context: ToolContext) -> Any:
        return await function(**arguments, **{name: context})

    return execute_async if is_async(function) else execute
