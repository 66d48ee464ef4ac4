"""What a run of the loop works with, and how it is to go: `ToolLoopDeps` and `ToolLoopOptions`.

The first names the pieces of the stages below, the second the knobs. Both are values; what a run
has done so far is `run.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from stage0_gateway import ChatResponse, Message, MessageStream, ToolSpec, as_message
from stage1_context import ContextEngine, Transcript
from stage2_output import OutputController
from stage3_tools.dialects.protocol import Dialect
from stage3_tools.events import LoopEvent
from stage3_tools.execution.approval import Approver
from stage3_tools.execution.cache import ResultCache
from stage3_tools.execution.error_kinds import Classify, ErrorText
from stage3_tools.execution.settings import Consent
from stage3_tools.execution.several_calls import MAX_PARALLEL
from stage3_tools.registry import ToolRegistry
from stage3_tools.run.abort import Abort
from stage3_tools.run.limits import RunLimits
from stage3_tools.schema.callables import is_async

MOST_CHARACTERS = 100_000
"""Of one result that a model is shown, unless something else is said."""

PREVIEW = 200
"""Characters of a long result that a model is shown."""

LONG = 4_000
"""Characters above which a result or an argument is kept as a variable, unless `variables_over` is
set."""


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What `before_send` is told about a request besides its messages.

    Attributes:
        turn: The number of the turn, counted from 1.
        tools: The tools that the model may call, or on the last request could have called.
        last: Whether this is the final request, in which tools cannot be called.
    """

    turn: int
    tools: tuple[ToolSpec, ...]
    last: bool


Sent = Iterable[Message | Mapping[str, Any]] | None
BeforeSend = Callable[[Sequence[Message], RequestInfo], Sent | Awaitable[Sent]]
"""Receives the messages of a request before they are sent; returns others to send instead, or
None."""


def check_kind(name: str, given: object, kind: type, hint: str = "") -> None:
    """Say at once that something was given in the place of something else.

    Raises:
        TypeError: It is not of this kind.
    """
    if not isinstance(given, kind):
        raise TypeError(f"{name} is a {kind.__name__}, not {type(given).__name__}. {hint}".rstrip())


def check_listener(name: str, given: object) -> None:
    """Refuse what could not be called, or would have to be awaited, where somebody is to be told
    something.

    Raises:
        ValueError: It is no plain function.
    """
    if given is not None and (not callable(given) or is_async(given)):
        raise ValueError(
            f"{name} must be a plain function. An async function would never be awaited."
        )


def messages_of(name: str, given: Iterable[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Messages as people give them, each a `Message`.

    Raises:
        ValueError: It is one message, or something in it is none.
    """
    if isinstance(given, str | Message | Mapping):
        raise ValueError(f"{name} is a list of messages; put the one into brackets.")
    return tuple(map(as_message, given))


@dataclass(frozen=True)
class ToolLoopDeps:
    """The pieces a loop is made of, one from each stage.

    Attributes:
        chat: Sends messages and returns the reply; `Gateway.chat`.
        context_engine: Keeps the sessions.
        output_controller: Reads decisions out of replies.
        tool_registry: The tools.
        stream: Sends messages and returns the reply while it arrives; `Gateway.stream`. Where it is
            given it is used instead of `chat`, and the event `reply_stream` has each reply to
            listen to.

    Raises:
        TypeError: One of them is something else.
    """

    chat: Callable[..., Awaitable[ChatResponse]]
    context_engine: ContextEngine
    output_controller: OutputController
    tool_registry: ToolRegistry
    stream: Callable[..., MessageStream] | None = None

    def __post_init__(self) -> None:
        if self.chat is not None and not callable(self.chat):
            raise TypeError(
                f"chat is a function, such as gateway.chat, not {type(self.chat).__name__}."
            )
        check_kind("context_engine", self.context_engine, ContextEngine)
        check_kind("output_controller", self.output_controller, OutputController)
        check_kind("tool_registry", self.tool_registry, ToolRegistry)

    @cached_property
    def always(self) -> "WeakKeyDictionary[Transcript, Consent]":
        """What nobody is asked about any more, in each session."""
        return WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class ToolLoopOptions:
    """How a run is to go.

    Attributes:
        max_tool_rounds: The most turns that run tools; then one last request is made, in which
            tools cannot be called. None is no limit.
        max_parse_retries: How often in a row a reply that could not be used is answered with
            feedback.
        temperature: Passed on to the model.
        max_tokens: The most tokens of one reply; also kept free in the window.
        dialect: How to talk about tools: `PromptDialect()`, `NativeDialect()`, or one of your own.
            None is the first.
        max_parallel_tools: The most tools of one turn that run at once; 1 runs them one after the
            other.
        approve: Asked about each call before anything of its turn is run; see `approval`. None asks
            nobody, and a tool that needs approval ends the run with the status "awaiting_approval".
        approve_result: Asked about each result before the model sees it.
        abort: Stops the run when it is set, with the status "aborted": an `Abort`, which any thread
            may set, or an `asyncio.Event`, which belongs to one event loop.
        limits: The most the run may use.
        cache: Keeps what read tools said; None keeps nothing.
        classify: Says what the exceptions of tools mean, before the usual rules do.
        error_text: Whether the model is told an exception's type and message, or its type alone.
        variables_over: A result or an argument with more characters than this is kept as a variable
            of the session: the model sees the beginning of a result and a reference, with which it
            can read on or pass the value to a tool. None keeps nothing, and leaves references in
            arguments alone.
        max_result_chars: The most characters of a result that the model is shown; None shows all.
            People get all.
        before_send: Called as `before_send(messages, info)` with the messages of each request as
            they will be sent and a `RequestInfo`; may return other messages, for this request only.
            Plain or async.
        on_event: Called with each `LoopEvent`, in the order drawn in `events`. What it raises ends
            the run.

    Raises:
        ValueError: A number makes no sense, or `on_event` is async.
        TypeError: The dialect or the abort is of another type.
    """

    max_tool_rounds: int | None = 10
    max_parse_retries: int = 2
    temperature: float | None = None
    max_tokens: int | None = None
    dialect: Dialect | None = None
    max_parallel_tools: int = MAX_PARALLEL
    approve: Approver | None = None
    approve_result: Approver | None = None
    abort: Abort | asyncio.Event | None = None
    limits: RunLimits | None = None
    cache: ResultCache | None = None
    classify: Classify | None = None
    error_text: ErrorText = "message"
    variables_over: int | None = LONG
    max_result_chars: int | None = MOST_CHARACTERS
    before_send: BeforeSend | None = None
    on_event: Callable[[LoopEvent], None] | None = None

    def __post_init__(self) -> None:
        least = {"max_tool_rounds": 0, "max_parse_retries": 0, "max_parallel_tools": 1}
        least |= {"max_result_chars": 1, "variables_over": PREVIEW}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise ValueError(f"{name} is {value}; {lowest} is the least.")
        if isinstance(self.dialect, type) or not (
            self.dialect is None or hasattr(self.dialect, "read")
        ):
            raise TypeError(
                f"dialect is PromptDialect(), NativeDialect() or one of your own, not {self.dialect!r:.80}."
            )
        if not isinstance(self.abort, Abort | asyncio.Event | None):
            raise TypeError(
                f"abort is an Abort() or an asyncio.Event(), not {type(self.abort).__name__}."
            )
        check_listener("on_event", self.on_event)
