"""`ToolLoopDeps` and `ToolLoopOptions`: the parts that a run uses, and its settings.

Both are frozen values. The state of a run is in `run/state.py`. Used by the loop, the runner and
the chain.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from stage0_gateway import (
    FUNCTION,
    Accepted,
    Chat,
    ChatModel,
    Message,
    MessageStream,
    Reasoning,
    ToolSpec,
    Usage,
    chat_of,
    check_arguments,
    is_model,
)
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools.abort import Abort
from stage3_tools.context import ParentRun
from stage3_tools.dialects.protocol import Dialect
from stage3_tools.events import LoopEvent
from stage3_tools.execution.approval import Approver
from stage3_tools.execution.cache import ResultCache
from stage3_tools.execution.error_kinds import Classify
from stage3_tools.execution.several_calls import MAX_PARALLEL
from stage3_tools.registry import Registrable, ToolRegistry
from stage3_tools.variables.long_values import PREVIEW

LONG = 4_000
"""The default number of characters above which a result is stored as a variable."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of a run. At a limit, the run ends with a status, not with an exception.

    Tokens and cost are compared after each reply, because only then they are known: no further tool
    is run, and no further request is made. The time limit takes effect at any time.

    Attributes:
        seconds: From the question to the reply, including waiting for approvals; None is no limit.
        tokens: Of all requests and replies together, as servers report them; None is no limit.
            Usage that is not reported does not count.
        cost: US dollars; None is no limit. It needs the `prices` of the gateway. A run whose
            gateway has none raises a ConfigurationError; after a reply whose cost is unknown
            otherwise, the run ends with the status "limit".

    Raises:
        ValueError: A limit is not a number above 0.
    """

    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "tokens", "cost"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise ValueError(
                    f"The limit of {name} is {value!r}; it must be a number above 0, or None."
                )

    def reached(self, usage: Usage, cost: float | None) -> str | None:
        """The limit of tokens or cost that was reached, as a sentence; None if none was."""
        used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        if self.tokens is not None and used >= self.tokens:
            return f"The limit of {self.tokens} tokens for this run was reached: {used} were used."
        if self.cost is not None and (cost or 0.0) >= self.cost:
            limit = f"The limit of {self.cost:g} dollars for this run was reached"
            return f"{limit}: {cost:g} were spent."
        return None


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Information about a request, for `before_send`.

    Attributes:
        turn: The number of the turn; the first is 1.
        tools: The tools that the model may call. In the final request it may not call them.
        last: Whether this is the final request, in which tools cannot be called.
    """

    turn: int
    tools: tuple[ToolSpec, ...]
    last: bool


Stream = Callable[..., MessageStream]
"""Sends messages to a model, and returns the reply while it arrives."""

Listener = Callable[[LoopEvent], object]
"""Receives the events of a run. A plain or async function, whose return value is not used; or an
object with `__call__`. It does not receive the events whose names its attribute `ignores` contains,
and an event that all listeners ignore is not created, which saves time."""

EditedMessages = Iterable[Message | Mapping[str, Any]] | None
BeforeSend = Callable[[Sequence[Message], RequestInfo], EditedMessages | Awaitable[EditedMessages]]
"""Receives the messages of a request; returns the messages to send instead, or None."""


@dataclass(frozen=True, init=False)
class ToolLoopDeps:
    """The parts that a run uses, one from each stage. Only the model is required.

        ToolLoopDeps(gateway)                    the usual form
        ToolLoopDeps(logged, gateway=gateway)    a function of the program around the gateway

    Args:
        chat: The model: a `Gateway`, or another `ChatModel`; or any async function that sends
            messages and returns a `ChatResponse` or a text. Nothing is known about the model behind
            a function, unless `gateway` names it.
        context_engine: As the attribute; None creates an engine that stores sessions in memory.
        output_controller: As the attribute; None creates one.
        tool_registry: A `ToolRegistry`, or a list of tools and functions, which are converted as by
            `@tool`. None registers no tools.
        stream: True streams the replies through the gateway. A function sends messages and returns
            a `MessageStream`. None uses `chat`.
        gateway: The model behind a function. A model that is passed as `chat` takes precedence.

    Attributes:
        chat: The function that sends messages and returns the reply.
        context_engine: Stores the sessions.
        output_controller: Parses decisions.
        tool_registry: The tools.
        stream: The function that returns the reply while it arrives, as the event `reply_stream`
            holds it; used instead of `chat`. None does not stream.
        gateway: The model; None if it is unknown.

    Raises:
        TypeError: A part has the wrong type.
        RegistrationError: A tool is invalid.
    """

    chat: Chat
    context_engine: ContextEngine
    output_controller: OutputController
    tool_registry: ToolRegistry
    stream: Stream | None
    gateway: ChatModel | None

    def __init__(
        self,
        chat: Chat | ChatModel,
        context_engine: ContextEngine | None = None,
        output_controller: OutputController | None = None,
        tool_registry: ToolRegistry | Iterable[Registrable] | None = None,
        stream: Stream | bool | None = None,
        *,
        gateway: ChatModel | None = None,
    ) -> None:
        if is_model(chat):
            gateway = chat
        check_arguments({"gateway": gateway}, _ACCEPTED_GATEWAY)
        engine = ContextEngine() if context_engine is None else context_engine
        if not isinstance(engine, ContextEngine):
            raise type_error("context_engine", engine, ContextEngine)
        controller = OutputController() if output_controller is None else output_controller
        if not isinstance(controller, OutputController):
            raise type_error("output_controller", controller, OutputController)
        parts = {
            "chat": chat_of(chat),
            "context_engine": engine,
            "output_controller": controller,
            "tool_registry": as_registry(tool_registry),
            "stream": _stream_of(stream, gateway),
            "gateway": gateway,
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)  # the dataclass is frozen


def _stream_of(stream: Stream | bool | None, gateway: ChatModel | None) -> Stream | None:
    """Return the function that streams replies; None if they are not streamed."""
    if stream is True:
        if gateway is None:
            raise TypeError(
                "stream=True needs a known model: pass the gateway itself, or name it behind a "
                "function: gateway=gateway."
            )
        return gateway.stream
    if stream and not callable(stream):
        raise TypeError(f"stream must be True, a function, or None, not {stream!r:.80}.")
    return stream or None


@dataclass(frozen=True, kw_only=True)
class ToolLoopOptions:
    """The settings of a run.

    Attributes:
        max_tool_rounds: The maximum number of turns that run tools. Then one last request is made,
            in which tools cannot be called. None is no limit.
        max_parse_retries: How many invalid replies in a row are answered with feedback.
        temperature: The model's temperature; None leaves it to the server.
        max_tokens: The maximum number of tokens of one reply, which the window also reserves.
        stop: Texts at which the model stops writing.
        reasoning: How much the model thinks before each reply: "low", "medium", "high", or a budget
            in tokens for models that accept one. None leaves it to the `Gateway`.
        model: Another "provider:name" for the requests of this run; None uses the gateway's.
        provider_options: Fields that are merged into the body of each request unchanged, such as
            `{"seed": 7}`.
        tool_choice: What the first turn must call: "required", any tool; or the name of one tool.
            Another reply is answered with feedback. "none" forbids calls in the first turn, "auto"
            is the default. Later turns choose freely.
        dialect: `PromptDialect()`, `NativeDialect()`, or your own `Dialect`; None is the first.
        output_type: The type of the final reply: a type that pydantic supports, such as a model, or
            a JSON Schema. The reply is validated, and an invalid one is answered with feedback.
            `output` of the result holds the value. None accepts any text.
        max_parallel_tools: The maximum number of tools of one turn that run at the same time.
        approve: Decides about calls before any tool of their turn is run; see
            `execution/approval.py`. It receives each call of a write, unless
            `needs_approval=False` exempts the tool, and each call whose tool requires approval.
            Without it, a tool that requires approval ends the run with the status
            "awaiting_approval".
        approve_all: Whether `approve` receives every call, also reads.
        approve_result: Decides about the result of each tool that was run, also about a failure,
            before the model sees it.
        abort: Stops the run when it is set, with the status "aborted": an `Abort`, which any thread
            may set, or an `asyncio.Event`, which belongs to one event loop.
        limits: Limits of time, tokens and cost.
        cache: Stores the results of read tools; None stores nothing.
        classify: Called with each exception of a tool. Returns a `ToolError`, or a text that the
            model sees instead of the exception's type and message, or None.
        variables_over: A result with more characters is stored as a variable of the session. The
            model sees its beginning and a reference, with which it can read the rest or pass the
            value to a tool. None stores nothing, and does not expand references in arguments; the
            model then sees the first 100,000 characters.
        before_send: Called as `before_send(messages, info)` with the messages of each request and a
            `RequestInfo`; may return other messages, for this request only. Plain or async.
        on_event: A listener, or a list of listeners: functions that receive each `LoopEvent`, plain
            or async. They are called in the order given. An exception ends the run.
        trace: One more listener, which is called first: `RunFile("run.jsonl")` writes the run to a
            file.
        parent: The run whose tool makes this run; from `ToolContext.sub_run`.

    Raises:
        ValueError: A number is out of range.
        TypeError: An option has the wrong type. The text states what to write.
    """

    max_tool_rounds: int | None = 10
    max_parse_retries: int = 2
    temperature: float | None = None
    max_tokens: int | None = None
    stop: str | Sequence[str] = ()
    reasoning: Reasoning | None = None
    model: str | None = None
    provider_options: Mapping[str, Any] | None = None
    tool_choice: str | None = None
    dialect: Dialect | None = None
    output_type: Any = None
    max_parallel_tools: int = MAX_PARALLEL
    approve: Approver | None = None
    approve_all: bool = False
    approve_result: Approver | None = None
    abort: Abort | asyncio.Event | None = None
    limits: RunLimits | None = None
    cache: ResultCache | None = None
    classify: Classify | None = None
    variables_over: int | None = LONG
    before_send: BeforeSend | None = None
    on_event: Listener | Sequence[Listener] | None = None
    trace: Listener | None = None
    parent: ParentRun | None = None

    def __post_init__(self) -> None:
        check_arguments(vars(self), _ACCEPTED)
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        choice = None if self.tool_choice == "auto" else self.tool_choice
        on_event = () if self.on_event is None else self.on_event
        listeners = (on_event,) if callable(on_event) else tuple(on_event)
        for name, value in (("stop", stop), ("tool_choice", choice), ("on_event", listeners)):
            object.__setattr__(self, name, value)  # the dataclass is frozen
        for listener in listeners:
            check_arguments({"on_event": listener}, _ACCEPTED_LISTENER)

    def with_listener(self, listener: Listener) -> Self:
        """The same options with one more listener, which is called last."""
        return replace(self, on_event=(*cast("Sequence[Listener]", self.on_event), listener))


_ACCEPTED_LISTENER = {"on_event": Accepted("__call__", "functions of one event", required=True)}
_ACCEPTED_GATEWAY = {"gateway": Accepted(ChatModel, "a Gateway")}
_ACCEPTED = {
    "max_tool_rounds": Accepted(int, "a whole number", 0),
    "max_parse_retries": Accepted(int, "a whole number", 0, required=True),
    "temperature": Accepted(int | float, "a number"),
    "max_tokens": Accepted(int, "a whole number", 1),
    "stop": Accepted(
        str | list | tuple, 'a text or a list of texts, such as stop=["END"]', required=True
    ),
    "reasoning": Accepted(str | int, "'low', 'medium', 'high' or a number of tokens"),
    "model": Accepted(str, "a text such as 'openai:gpt-5-mini'"),
    "provider_options": Accepted(Mapping, 'a mapping, such as provider_options={"seed": 7}'),
    "tool_choice": Accepted(str, "'auto', 'none', 'required' or the name of a tool"),
    "dialect": Accepted(
        "render", "PromptDialect(), NativeDialect() or an object with their methods"
    ),
    "max_parallel_tools": Accepted(int, "a whole number", 1, required=True),
    "approve": Accepted(FUNCTION, "a function of one request, such as approve=my_approver"),
    "approve_all": Accepted(bool, "True or False; the function belongs to approve="),
    "approve_result": Accepted(FUNCTION, "a function of one request"),
    "abort": Accepted(Abort | asyncio.Event, "an Abort() or an asyncio.Event()"),
    "limits": Accepted(RunLimits, "RunLimits(seconds=…, tokens=…, cost=…)"),
    "cache": Accepted(ResultCache, "a ResultCache()"),
    "classify": Accepted(FUNCTION, "a function of one exception"),
    "variables_over": Accepted(int, "a whole number", PREVIEW),
    "before_send": Accepted(FUNCTION, "a function of the messages and a RequestInfo"),
    "on_event": Accepted(
        FUNCTION | list | tuple, "a function of one event, or a list of functions"
    ),
    "trace": Accepted("__call__", 'a run file: write trace=RunFile("run.jsonl")'),
    "parent": Accepted(ParentRun, "that of a tool: write **context.sub_run"),
}


def as_registry(
    tools: ToolRegistry | Iterable[Registrable] | None, name: str = "tool_registry"
) -> ToolRegistry:
    """Convert a list of tools and functions to a registry.

    Args:
        tools: The list; a registry is returned unchanged.
        name: The name of the argument, for the error.

    Raises:
        TypeError: The value is not a list.
        RegistrationError: A tool is invalid.
    """
    if isinstance(tools, ToolRegistry):
        return tools
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable | None):
        raise TypeError(
            f"{name} must be a list such as {name}=[get_weather], or a ToolRegistry, "
            f"not {tools!r:.80}."
        )
    return ToolRegistry(*(tools or ()))


def type_error(name: str, value: object, expected: type, hint: str = "") -> TypeError:
    """The error for an argument of a wrong type."""
    text = f"{name} must be of type {expected.__name__}, not {type(value).__name__}. {hint}"
    return TypeError(text.rstrip())
