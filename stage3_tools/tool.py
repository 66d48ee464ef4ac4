"""`Tool` and `@tool`: a name, a description, a schema of the arguments, and a function.

`Tool(...)` takes these values directly. `@tool` derives them from a function with named parameters.
A tool does not know models, dialects or loops; `execution/` runs its function.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, ParamSpec, TypeVar, get_args, overload

from stage0_gateway import ToolSpec
from stage2_output import CompiledSchema, InvalidSchema
from stage3_tools.context import ToolContext
from stage3_tools.errors import RegistrationError, Retry
from stage3_tools.schema.callables import (
    accepts,
    has_context,
    is_async,
    is_generator,
    misplaces_context,
    parameter_names,
)
from stage3_tools.schema.signature import signature_of

Effect = Literal["read", "idempotent", "write"]

DEFAULT_TIMEOUT = 30.0
"""Seconds that one attempt may take if the tool sets no timeout."""

_GENERATOR = (
    "a tool cannot be a generator. Return a list, and report progress with context.progress(…)."
)
_MISSING: Any = None
_SETTINGS = ("effect", "timeout", "retry", "needs_approval", "exclusive", "category", "tags")
P = ParamSpec("P")
R = TypeVar("R", covariant=True)
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class Tool:
    """A function that a model can call.

    Attributes:
        name: The name for the model; unique in a registry.
        description: The description for the model.
        parameters: JSON Schema of the arguments, used as written. None accepts every object.
        execute: Receives one dict of arguments; required. It also receives a `ToolContext` if its
            second parameter is named `context`, is annotated with this type, or has neither a
            default nor an annotation. Plain functions run in a thread, async functions in the event
            loop.
        parse: Converts valid arguments to the value that `execute` receives. A ValueError rejects
            them.
        effect: "read" changes nothing, "idempotent" may be repeated, "write" may not. A tool that
            declares no effect is a "write". A write that fails is reported as "may have happened".
        timeout: Seconds for one attempt; None selects 30. An async function is cancelled at the
            limit. If it does not end within 1 second, it is abandoned and not retried. A plain
            function is abandoned immediately. The outcome of an abandoned function is dropped.
        retry: Maximum number of retries after a retryable failure, or a `Retry`. None selects the
            default of the kind of failure. A write is never retried.
        needs_approval: True: an approver must approve each call, and without one the call waits.
            False: calls run unasked. None: an approver, if there is one, decides about calls of a
            write. A function of the arguments decides between True and False for each call.
        exclusive: Whether no other call of the same turn may run at the same time.
        category: A group of tools, for `ToolRegistry.search`. The model does not see it.
        tags: Labels for `ToolRegistry.search`. The model does not see them.
        declares_effect: Whether `effect` was given.
        takes_context: Whether `execute` receives a `ToolContext`; derived from its signature.
        is_async: Whether `execute` runs in the event loop; derived from its type.

    Raises:
        RegistrationError: A value is invalid; the text names it.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    execute: Callable[..., Any] = field(default=_MISSING, repr=False)
    parse: Callable[[dict[str, Any]], Any] | None = field(default=None, repr=False, kw_only=True)
    effect: Effect = field(default=_MISSING, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    retry: Retry | int | None = field(default=None, kw_only=True)
    needs_approval: bool | Callable[[dict[str, Any]], bool] | None = field(
        default=None, kw_only=True
    )
    exclusive: bool = field(default=False, kw_only=True)
    category: str | None = field(default=None, kw_only=True)
    tags: Collection[str] = field(default=(), kw_only=True)
    declares_effect: bool = field(init=False, repr=False, compare=False)
    takes_context: bool = field(init=False, repr=False, compare=False)
    is_async: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name = self.name
        if not (isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= 256):
            raise RegistrationError(
                f"{name!r} cannot be a tool's name: use 1 to 256 printable characters."
            )
        object.__setattr__(self, "declares_effect", self.effect is not _MISSING)
        object.__setattr__(self, "effect", self.effect if self.declares_effect else "write")
        object.__setattr__(self, "takes_context", self._check_execute())
        object.__setattr__(self, "is_async", is_async(self.execute))
        self._check_options()
        self._check_choices()
        if self.retry is not None:
            self._check_retry(self.retry)
        object.__setattr__(self, "tags", tuple(self.tags))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function of a decorated tool; see `FunctionTool`.

        Raises:
            TypeError: The tool was made with `Tool(...)`.
        """
        raise TypeError(
            f"{self.name} was made with Tool(…), so it takes one dict of arguments. Call its own "
            f"function, or: await registry.execute({self.name!r}, {{…}})."
        )

    def _check_execute(self) -> bool:
        """Check the function, and return whether it receives a context."""
        execute: Any = self.execute
        if not callable(execute):
            kind = "missing" if execute is None else f"{type(execute).__name__}, not a function"
            raise self._invalid(
                f"execute is {kind}. Use Tool(name=…, execute=function), or put @tool above the "
                "function."
            )
        if is_generator(execute):
            raise self._invalid(_GENERATOR)
        takes_context = accepts(execute, 2) and has_context(execute)
        is_callable = (takes_context or accepts(execute, 1)) and not misplaces_context(execute)
        names = parameter_names(execute)
        if not is_callable or any(map(self._is_one_argument, names[:1])):
            raise self._invalid(
                f"execute takes the parameters {', '.join(names) or '(none)'}; it must take one "
                "dict of arguments, or that and a ToolContext. Use @tool, which derives the schema "
                "from the function's parameters."
            )
        return takes_context

    def _is_one_argument(self, name: str) -> bool:
        """Return whether a parameter with this name seems to expect one of the arguments."""
        schema = self.parameters if isinstance(self.parameters, Mapping) else {}
        properties = schema.get("properties")
        is_property = isinstance(properties, Mapping) and name in properties
        return is_property and self.parse is None and name not in ("arguments", "args")

    def _check_options(self) -> None:
        if self.effect not in get_args(Effect):
            raise self._invalid(f"effect is {self.effect!r}; use 'read', 'idempotent' or 'write'.")
        if not isinstance(self.description, str):
            raise self._invalid(f"description is {type(self.description).__name__}, not text.")
        if self.timeout is not None and not (_is_number(self.timeout) and self.timeout > 0):
            raise self._invalid(f"timeout is {self.timeout!r}; it must be above 0 seconds.")
        if not isinstance(self.category, str | None):
            raise self._invalid(f"category is {type(self.category).__name__}, not text.")
        is_list = isinstance(self.tags, Collection) and not isinstance(self.tags, str)
        if not is_list or not all(isinstance(tag, str) for tag in self.tags):
            raise self._invalid(f"tags is {self.tags!r}; use a list of texts.")
        if self.parse is not None and not callable(self.parse):
            raise self._invalid(f"parse is {type(self.parse).__name__}, not a function.")
        for option in ("parse", "needs_approval"):
            if callable(function := getattr(self, option)) and is_async(function):
                raise self._invalid(f"{option} is an async function; use a plain function.")

    def _check_choices(self) -> None:
        needs_approval, choices = self.needs_approval, "use True, False"
        if not isinstance(self.exclusive, bool):
            raise self._invalid(f"exclusive is {self.exclusive!r}; {choices}.")
        if not (isinstance(needs_approval, bool | None) or callable(needs_approval)):
            raise self._invalid(f"needs_approval is {needs_approval!r}; {choices}, a function.")

    def _check_retry(self, retry: Retry | int) -> None:
        count, delay = retry if isinstance(retry, Retry) else (retry, 0.0)
        is_valid = isinstance(count, int) and _is_number(count) and _is_number(delay)
        if not (is_valid and count >= 0 and delay >= 0):
            raise self._invalid(
                f"retry is {retry!r}; use a number of retries, Retry(max_retries, delay), or None."
            )
        if count and self.effect == "write":
            raise self._invalid(
                "a write is never retried. If a repetition does no harm, use effect='idempotent'."
            )

    def _invalid(self, problem: str) -> RegistrationError:
        return RegistrationError(f"{self.name}: {problem}")

    @cached_property
    def schema(self) -> CompiledSchema:
        """The compiled parameters.

        Raises:
            RegistrationError: The parameters are not a JSON Schema of an object.
        """
        parameters = {} if self.parameters is None else self.parameters
        try:
            compiled = CompiledSchema(parameters)
            json.dumps(parameters, allow_nan=False)  # requests contain them
        except (InvalidSchema, TypeError, ValueError, RecursionError) as error:
            raise RegistrationError(f"{self.name}: {error}") from error
        types = parameters.get("type", "object") if isinstance(parameters, Mapping) else ()
        if "object" not in ([types] if isinstance(types, str) else types):
            raise self._invalid("parameters must be a JSON Schema of an object, or None.")
        return compiled

    @cached_property
    def spec(self) -> ToolSpec:
        """The description for a provider.

        Some providers require `properties`, so they are added if they are missing. The property
        always returns the same object, and the gateway encodes it once.
        """
        return ToolSpec(self.name, self.description, {**_NO_PARAMETERS, **(self.parameters or {})})

    @cached_property
    def as_json(self) -> str:
        """The name, the description and the parameters as JSON text for a prompt."""
        description = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters or {},
        }
        return json.dumps(description, ensure_ascii=False)


@dataclass(frozen=True)
class FunctionTool(Tool, Generic[P, R]):
    """The tool of a function with named parameters, made by `@tool`.

    Calling it calls the function: `get_weather("Rome")`. Nothing is validated, and no option of the
    tool applies. An async function returns its coroutine.

    Attributes:
        function: The function.
    """

    function: Callable[P, R] = field(default=_MISSING, repr=False, kw_only=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout: float | None = None,
    retry: Retry | int | None = None,
    needs_approval: bool | Callable[[dict[str, Any]], bool] | None = None,
    exclusive: bool = False,
    category: str | None = None,
    tags: Collection[str] = (),
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **settings: Any,
) -> Any:
    """Convert a function with named parameters to a `Tool`: `@tool`, or `@tool(effect="read")`.

    The tool can be called like the function.

    Args:
        function: A plain or async function, or a method of an object. Its annotations become the
            schema, and its docstring becomes the descriptions. The model does not see a parameter
            that is annotated `ToolContext`.
        name: A name to use instead of the function's.
        description: A description to use instead of the docstring.
        **settings: `effect`, `timeout`, `retry`, `needs_approval`, `exclusive`, `category` and
            `tags`; see `Tool`.

    Raises:
        RegistrationError: The value is not a function, has no name, is a generator, or has a
            parameter without a JSON Schema.
    """
    if unknown := settings.keys() - set(_SETTINGS):
        raise RegistrationError(
            f"@tool has no option {min(unknown)!r}. The options are name, description, "
            f"{', '.join(_SETTINGS)}."
        )

    def convert(function: Callable[..., Any]) -> Tool:
        if isinstance(function, Tool):
            raise RegistrationError(f"{function.name} is a tool already. Use it as it is.")
        if not callable(function) or isinstance(function, type):
            raise RegistrationError(
                f"{function!r:.200} is not a function. Put @tool above a function, or make a tool "
                "with Tool(...); a list is given as register(*tools). For a method, after the "
                "class, make a tool of an object's method: tool(thing.method)."
            )
        tool_name = getattr(function, "__name__", "<none>") if name is None else name
        if tool_name in ("<none>", "<lambda>"):
            raise RegistrationError(
                f"{function!r:.200} has no name of its own: tool(name=…) gives it one."
            )
        if is_generator(function):
            raise RegistrationError(f"{tool_name}: {_GENERATOR}")
        signature = signature_of(function)
        return FunctionTool(
            tool_name,
            signature.description if description is None else description,
            signature.schema,
            _with_named_arguments(function, signature.context),
            parse=signature.convert,
            function=function,
            **settings,
        )

    return convert if function is None else convert(function)


def _with_named_arguments(
    function: Callable[..., Any], context_name: str | None
) -> Callable[..., Any]:
    """Wrap a function so that it takes one dict of arguments, and the context if it needs one."""

    def execute(arguments: dict[str, Any]) -> Any:
        return function(**arguments)

    async def execute_async(arguments: dict[str, Any]) -> Any:
        return await function(**arguments)

    def execute_with_context(arguments: dict[str, Any], context: ToolContext) -> Any:
        return function(**arguments, **{str(context_name): context})

    async def execute_async_with_context(arguments: dict[str, Any], context: ToolContext) -> Any:
        return await function(**arguments, **{str(context_name): context})

    if context_name is None:
        return execute_async if is_async(function) else execute
    return execute_async_with_context if is_async(function) else execute_with_context


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
