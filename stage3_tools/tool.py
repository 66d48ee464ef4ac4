"""`Tool`: a name, a description, a schema of the arguments, and the function that does it.

A tool knows nothing of models, dialects or loops: the same one serves all of them. `@tool` makes one of a
plain function; `Tool(...)` takes the pieces by hand.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, overload

from stage2_output import CompiledSchema, InvalidSchema
from stage3_tools.errors import RegistrationError, ToolError
from stage3_tools.signature import signature_of
from stage3_tools.threads import run_in_thread

Effect = Literal["read", "idempotent", "write"]

DEFAULT_TIMEOUT = 30.0
"""Seconds a tool may take unless it says otherwise."""


@dataclass(frozen=True)
class Tool:
    """Something a model can ask for.

    Attributes:
        name: How the model calls it; unique in a registry.
        description: What the model is told of it.
        parameters: JSON Schema of its arguments, read as it is written; None checks nothing.
        execute: Takes one dict of arguments. Plain functions run in a thread, async ones in the event loop.
        parse: Turns arguments that fit the schema into what `execute` is given; a ValueError refuses them.
        effect: "read" changes nothing, "idempotent" may be repeated, "write" may not. A write that is cut off
            is reported as "may have happened".
        timeout: Seconds it may take; None is 30.

    Raises:
        RegistrationError: The name or the schema cannot be used.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] | None
    execute: Callable[..., Any] = field(repr=False)
    parse: Callable[[dict[str, Any]], Any] | None = field(default=None, repr=False, kw_only=True)
    effect: Effect = field(default="write", kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _is_name(self.name):
            raise RegistrationError(f"{self.name!r} cannot be a tool's name: 1 to 256 printable characters.")
        if not callable(self.execute):
            raise RegistrationError(f"{self.name}: execute is {type(self.execute).__name__}, not a function.")
        if not _takes_one(self.execute):
            raise RegistrationError(f"{self.name}: execute must take one argument, the dict of arguments.")
        if self.effect not in ("read", "idempotent", "write"):
            raise RegistrationError(
                f"{self.name}: effect is {self.effect!r}; use 'read', 'idempotent' or 'write'."
            )
        if not isinstance(self.description, str):
            raise RegistrationError(
                f"{self.name}: description is {type(self.description).__name__}, not text."
            )
        if self.timeout is not None and not (isinstance(self.timeout, int | float) and self.timeout > 0):
            raise RegistrationError(f"{self.name}: timeout is {self.timeout!r}; it must be above 0 seconds.")

    @cached_property
    def schema(self) -> CompiledSchema:
        """The parameters, compiled once.

        Raises:
            RegistrationError: They are no JSON Schema of an object.
        """
        parameters = {} if self.parameters is None else self.parameters
        try:
            compiled = CompiledSchema(parameters)
            json.dumps(parameters, allow_nan=False)  # the model will be shown them
        except (InvalidSchema, TypeError, ValueError, RecursionError) as error:
            raise RegistrationError(f"{self.name}: {error}") from error
        if not isinstance(parameters, Mapping) or "object" not in _types(parameters):
            raise RegistrationError(f"{self.name}: parameters must be a JSON Schema of an object, or None.")
        return compiled

    async def run(self, arguments: Any) -> Any:
        """Run the function with what `check_arguments` gave.

        Raises:
            ToolError: It took too long ("timeout").
            Exception: Whatever the function raises.
        """
        limit = DEFAULT_TIMEOUT if self.timeout is None else self.timeout
        try:
            async with asyncio.timeout(limit) as clock:
                if _is_async(self.execute):
                    return await self.execute(arguments)
                value = await run_in_thread(self.execute, arguments)
                return await value if inspect.isawaitable(value) else value
        except TimeoutError:
            if not clock.expired():
                raise  # the tool's own
            raise ToolError("timeout", f"{self.name} took longer than {limit:g} s.", retryable=True) from None


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout: float | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout: float | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a function with named parameters: `@tool`, or `@tool(effect="read")`.

    Args:
        function: Plain or async. Its annotations become the schema, its docstring the descriptions.
        name: Another name than the function's.
        description: Another description than the docstring's.
        effect: See `Tool`.
        timeout: See `Tool`.

    Raises:
        RegistrationError: A parameter cannot be described in JSON.
    """

    def make(function: Callable[..., Any]) -> Tool:
        known_as = name or getattr(function, "__name__", None)
        if known_as is None:
            raise RegistrationError(f"{function!r} has no name of its own: @tool(name=…) gives it one.")
        signature = signature_of(function)

        def execute(arguments: dict[str, Any]) -> Any:
            return function(**arguments)

        async def execute_async(arguments: dict[str, Any]) -> Any:
            return await function(**arguments)

        return Tool(
            known_as,
            signature.description if description is None else description,
            signature.schema,
            execute_async if _is_async(function) else execute,
            parse=signature.convert,
            effect=effect,
            timeout=timeout,
        )

    return make if function is None else make(function)


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind({})
    except TypeError:
        return False
    except ValueError:  # a builtin that does not say what it takes
        return True
    return True


def _is_name(text: str) -> bool:
    return bool(text.strip()) and text.isprintable() and len(text) <= 256


def _types(schema: Mapping[str, Any]) -> list[str]:
    """The types a schema allows; one that names none allows an object, too."""
    types = schema.get("type", "object")
    return [types] if isinstance(types, str) else types


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable; an object with an async `__call__` counts."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
