"""`Tool`: a name, a description, a schema of the arguments, and the function that does it.

A tool knows nothing of models, dialects or loops: the same one serves all of them. `Tool(...)`
takes the pieces by hand; `@tool` makes one of a plain function (`decorator.py`).
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from stage0_gateway import ToolSpec
from stage2_output import CompiledSchema, InvalidSchema
from stage3_tools.context import ToolContext
from stage3_tools.errors import RegistrationError, Retry, ToolError
from stage3_tools.execution.deadline import DeadlineExceeded, SelfCancelled, run_with_deadline
from stage3_tools.execution.threads import run_in_thread
from stage3_tools.schema.callables import (
    has_context,
    is_async,
    is_generator,
    misplaces_context,
    takes,
)

Effect = Literal["read", "idempotent", "write"]

DEFAULT_TIMEOUT = 30.0
"""Seconds a tool may take unless it says otherwise."""

YIELDS = "it yields. A tool returns one value: return a list, and report on the way with context.progress(…)."
"""Why a generator is no tool."""

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class Tool:
    """Something a model can ask for.

    Attributes:
        name: How the model calls it; unique in a registry.
        description: What the model is told of it.
        parameters: JSON Schema of its arguments, read as it is written; None checks nothing.
        execute: Takes one dict of arguments, and a `ToolContext` if it has a second parameter that
            is called `context`, is annotated so, or has no default. Plain functions run in a
            thread, async ones in the event loop.
        parse: Turns arguments that fit the schema into what `execute` is given; a ValueError
            refuses them.
        effect: "read" changes nothing, "idempotent" may be repeated, "write" may not. A write that
            did not end well is reported as "may have happened".
        timeout: Seconds that one attempt may take; None is 30. An async function is cancelled then,
            and abandoned if it does not end within 1 second; then it is not tried again. A plain
            function is abandoned at once. An abandoned function goes on, but its outcome is
            dropped.
        retry: How often to try again after a failure that may pass; a number is the most retries.
            None leaves it to the kind of failure (`errors.RETRIES`). A write is never tried again.
        needs_approval: It is not run without somebody's consent; a function of the arguments says
            when.
        exclusive: No other call of the same turn runs while it runs.
        metadata: For people and programs, such as {"category": …, "tags": […]}; the model does not
            see it.

    Raises:
        RegistrationError: Something of it cannot be used; the text says what.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] | None
    execute: Callable[..., Any] = field(repr=False)
    parse: Callable[[dict[str, Any]], Any] | None = field(default=None, repr=False, kw_only=True)
    effect: Effect = field(default="write", kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    retry: Retry | int | None = field(default=None, kw_only=True)
    needs_approval: bool | Callable[[dict[str, Any]], bool] = field(default=False, kw_only=True)
    exclusive: bool = field(default=False, kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _is_name(self.name):
            raise RegistrationError(
                f"{self.name!r} cannot be a tool's name: 1 to 256 printable characters."
            )
        self._check_execute()
        if self.effect not in get_args(Effect):
            raise self._wrong(f"effect is {self.effect!r}; use 'read', 'idempotent' or 'write'.")
        if not isinstance(self.description, str):
            raise self._wrong(f"description is {type(self.description).__name__}, not text.")
        if self.timeout is not None and not (_is_number(self.timeout) and self.timeout > 0):
            raise self._wrong(f"timeout is {self.timeout!r}; it must be above 0 seconds.")
        if self.parse is not None and not callable(self.parse):
            raise self._wrong(f"parse is {type(self.parse).__name__}, not a function.")
        for name in ("parse", "needs_approval"):
            if callable(given := getattr(self, name)) and is_async(given):
                raise self._wrong(
                    f"{name} is an async function, which nobody would await; give a plain one."
                )
        if not isinstance(self.metadata, Mapping):
            raise self._wrong(f"metadata is {type(self.metadata).__name__}, not a mapping.")
        if self.retry is not None:
            self._check_retry(self.retry)

    def _check_execute(self) -> None:
        if not callable(self.execute):
            raise self._wrong(f"execute is {type(self.execute).__name__}, not a function.")
        if is_generator(self.execute):
            raise self._wrong(YIELDS)
        if not (takes(self.execute, 1) or self.wants_context) or misplaces_context(self.execute):
            raise self._wrong(
                "execute must take one argument, the dict of arguments, or that and a ToolContext."
            )

    def _check_retry(self, retry: Retry | int) -> None:
        most, delay = retry if isinstance(retry, Retry) else (retry, 0.0)
        if not (
            isinstance(most, int)
            and _is_number(most)
            and _is_number(delay)
            and most >= 0
            and delay >= 0
        ):
            raise self._wrong(
                f"retry is {retry!r}; use a number of retries, Retry(max_retries, delay), or None."
            )
        if most and self.effect == "write":
            raise self._wrong(
                "a write is never tried again. If a second time does no harm, say effect='idempotent'."
            )

    def _wrong(self, what: str) -> RegistrationError:
        return RegistrationError(f"{self.name}: {what}")

    @cached_property
    def wants_context(self) -> bool:
        """Whether `execute` takes a `ToolContext` behind the arguments."""
        return takes(self.execute, 2) and has_context(self.execute)

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
            raise RegistrationError(
                f"{self.name}: parameters must be a JSON Schema of an object, or None."
            )
        return compiled

    @cached_property
    def spec(self) -> ToolSpec:
        """The description for a provider: parameters are the schema of an object, for some with
        empty properties.

        It is the same object in each request, so the gateway encodes it once.
        """
        return ToolSpec(self.name, self.description, {**_NO_PARAMETERS, **(self.parameters or {})})

    @cached_property
    def as_json(self) -> str:
        """The name, description and parameters as JSON text, which a prompt shows to the model."""
        shown = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters or {},
        }
        return json.dumps(shown, ensure_ascii=False)

    async def run(
        self,
        arguments: Any,
        context: ToolContext | None = None,
        *,
        begin: Callable[[], None] | None = None,
    ) -> Any:
        """Run the function once with the checked arguments and return its value.

        Args:
            arguments: The value that `check_arguments` returned.
            context: The context for a function that takes one; None creates one.
            begin: Called immediately before the function, in its thread. If it raises, the function
                is not called.

        Raises:
            ToolError: The function took too long ("timeout") or cancelled itself ("interrupted").
            BaseException: What the function or `begin` raises; a GeneratorExit as RuntimeError.
        """
        given: tuple[Any, ...] = (arguments,)
        if self.wants_context:
            context = context or ToolContext(self.name)
            given = (arguments, context)
        limit, ended = DEFAULT_TIMEOUT if self.timeout is None else self.timeout, False

        async def call() -> Any:
            return await self._call(given, begin)

        def close() -> None:
            if context is not None:
                context.close(abort=not ended)

        try:
            value = await run_with_deadline(call, limit, on_stop=close)
            ended = True
            return value
        except DeadlineExceeded as late:
            message = f"{self.name} took longer than {limit:g} s."
            # A second attempt beside one that ignores its cancellation would only add to the
            # damage.
            raise ToolError("timeout", message, retryable=not late.is_abandoned) from None
        except SelfCancelled:
            raise ToolError("interrupted", f"{self.name} cancelled itself.") from None
        finally:
            close()

    async def _call(self, given: tuple[Any, ...], begin: Callable[[], None] | None) -> Any:
        if self.is_async:
            if begin is not None:
                begin()
            return await self.execute(*given)
        value = await run_in_thread(self.execute, *given, begin=begin)
        return await value if inspect.isawaitable(value) else value

    @cached_property
    def is_async(self) -> bool:
        """Whether `execute` runs in the event loop; an object with an async `__call__` does."""
        return is_async(self.execute)


def _is_name(text: str) -> bool:
    return bool(text.strip()) and text.isprintable() and len(text) <= 256


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _types(schema: Mapping[str, Any]) -> list[str]:
    """The types a schema allows; one that names none allows an object, too."""
    types = schema.get("type", "object")
    return [types] if isinstance(types, str) else types
