"""Events of a run: one frozen value for each step of the loop.

Together they contain everything that happened. The events of a run have this order:

    run_start
      turn_start  [compaction]  request  reply       one turn; the lines below follow
        decision  (tool_call [approval]) ...  tool_result ...  turn_end    the reply contains calls
        decision  tool_call ...  approval_pending ...  turn_end            calls need approval
        decision  turn_end                                                 the reply is final
        feedback  turn_end                                                 the reply is invalid
        turn_end                                                           the provider stopped
    loop_end

A streamed reply has a `reply_stream` behind its request. `reply_text` holds the words of a reply
for people, before `reply`. A request without a reply is followed by `request_failed`, and by
nothing else of its turn. `tool_call` and `tool_result` follow the order of the calls.
`tool_progress` and `tool_retry` occur between them, and `approval` of a result before its
`tool_result`. A resumed run first emits the events of the open calls, without `turn_start` and
`turn_end`, as turn 0; so does a chain with its first reply. A run that is stopped emits a
`tool_result` for each emitted `tool_call`. Each run ends with `loop_end`, also if it raises. A
runner that continues after an error emits further events, and `loop_end` again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from typing import Any, ClassVar, Literal

from stage0_gateway import ChatModel, ChatResponse, Message, MessageStream, ToolCall, Usage
from stage1_context import Selection, newly_dropped
from stage2_output import Issue, Repair
from stage3_tools.dialects.protocol import Dialect
from stage3_tools.errors import ToolError, exception_text
from stage3_tools.execution.approval import ApprovalRequest, Verdict
from stage3_tools.result import ToolLoopResult, ToolResult, plain_data
from stage3_tools.tool import Tool


@dataclass(frozen=True, kw_only=True)
class _Event:
    """Fields of all events.

    Attributes:
        turn: The number of the turn, counted from 1; 0 before the first request.
        run_id: The id of the run.
        parent_run_id: The id of the run whose tool made this run, or None.
        parent_call_id: The id of the call of that tool, or None.
        at: Seconds since `run_start`, by a clock that never goes back.
    """

    name: ClassVar[str]
    public: ClassVar[tuple[str, ...]] = ()
    """The fields that a browser may receive."""

    turn: int
    run_id: str = field(default="", compare=False, repr=False)
    parent_run_id: str | None = field(default=None, compare=False, repr=False)
    parent_call_id: str | None = field(default=None, compare=False, repr=False)
    at: float = field(default=0.0, compare=False, repr=False)

    def to_json(self, *, public: bool = False) -> str:
        """Return the event as JSON text.

        A stream is left out. A value without a JSON form is replaced by the name of its type.

        Args:
            public: Whether the text is for a browser. It then contains the fields that an allow
                list names: no system prompt, no request, no raw reply, no details and no texts of
                errors. False is for logs and other processes of your own.
        """
        names = [item.name for item in fields(self) if item.name not in _HIDDEN]
        values = {name: _json_value(name, getattr(self, name)) for name in names}
        if public:
            names = [name for name in names if name in _COMMON or name in self.public]
            values = {name: _public_value(values[name]) for name in names}
        return json.dumps({"name": self.name, **values}, default=_json_fields)


@dataclass(frozen=True, kw_only=True)
class RunStarted(_Event):
    """A run begins.

    Attributes:
        started: The time in seconds since the epoch.
        entry: The entry: "loop", "runner" or "chain".
        session_id: The session; "" for a conversation in memory.
        question: The question; None for a run that continues a conversation.
        options: The options that were set, by name, as plain data: of a function the name, and of
            the `output_type` its JSON Schema.
        dialect: The dialect.
        model: The "provider:name" of the requests; None if it is unknown.
        gateway: The model; None if it is unknown.
        tools: The tools.
    """

    name: ClassVar[Literal["run_start"]] = "run_start"
    public: ClassVar[tuple[str, ...]] = ("started", "entry")
    started: float
    entry: str
    session_id: str
    question: Message | None
    options: Mapping[str, Any] = field(repr=False)
    dialect: Dialect
    model: str | None
    gateway: ChatModel | None = field(repr=False, compare=False)
    tools: tuple[Tool, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class TurnStarted(_Event):
    """A turn begins: the messages of its request are selected next."""

    name: ClassVar[Literal["turn_start"]] = "turn_start"


@dataclass(frozen=True, kw_only=True)
class Compacted(_Event):
    """A model was asked to summarize old messages before a request.

    Attributes:
        usage: The tokens of its replies.
        cost: Their cost in US dollars; None if no price is known.
        before: The messages that the summary replaces.
        after: The message with the summary; None if none was added.
        reason: The outcome, as a sentence.
        error: The exception of the model, if it failed.
    """

    name: ClassVar[Literal["compaction"]] = "compaction"
    public: ClassVar[tuple[str, ...]] = ("usage",)
    usage: Usage
    cost: float | None
    before: tuple[Message, ...] = field(repr=False)
    after: Message | None = field(repr=False)
    reason: str
    error: BaseException | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class RequestSent(_Event):
    """A request is complete, and is sent when all listeners have received this event.

    Attributes:
        messages: The messages as they are sent.
        keywords: All keywords of the request, such as `temperature`, and the native `tools`.
        tools: The tools that the model may call.
        dialect: The dialect that rendered the request.
        gateway: The model; None if it is unknown.
        last: Whether this is the final request, in which tools cannot be called.
        selection: What the window selected; `conversation` and `dropped` are computed from it.
        previous: The selection of the previous request, and its messages as they were sent.
    """

    name: ClassVar[Literal["request"]] = "request"
    messages: tuple[Message, ...] = field(repr=False)
    keywords: Mapping[str, Any]
    tools: tuple[Tool, ...] = field(repr=False)
    dialect: Dialect
    gateway: ChatModel | None = field(repr=False, compare=False)
    last: bool
    selection: Selection | None = field(repr=False, compare=False)
    previous: tuple[Selection | None, tuple[Message, ...]] = field(repr=False, compare=False)

    @property
    def conversation(self) -> tuple[Message, ...]:
        """The messages of the conversation from which the request was rendered."""
        chosen = () if self.selection is None else self.selection.chosen
        return tuple(map(attrgetter("message"), chosen))

    @property
    def dropped(self) -> tuple[tuple[Message, str], ...]:
        """The messages that this request leaves out for the first time, with reasons.

        A message has the form in which the previous request contained it. The first request of a
        run lists the newest ones only. Computed at each access.
        """
        before, sent = self.previous
        if self.selection is None or not (dropped := newly_dropped(self.selection, before)):
            return ()
        forms = {} if before is None else _sent_forms(before, sent)
        return tuple([(forms.get(each.index, each.message), reason) for each, reason in dropped])


def _sent_forms(selection: Selection, sent: tuple[Message, ...]) -> dict[int, Message]:
    """The messages of a request as they were sent, by the index of their record."""
    stored = [counted for counted in selection.chosen if counted.message.role != "system"]
    rendered = [message for message in sent if message.role != "system"]
    if len(stored) != len(rendered):  # `before_send` has changed the number
        return {}
    pairs = zip(stored, rendered, strict=True)
    return {counted.index: message for counted, message in pairs}


@dataclass(frozen=True, kw_only=True)
class ReplyStreamed(_Event):
    """The reply arrives as a stream. `stream.on("text", ...)` adds a listener to it."""

    name: ClassVar[Literal["reply_stream"]] = "reply_stream"
    stream: MessageStream = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class ReplyText(_Event):
    """Words of a reply for people.

    A reply that is not streamed has one event with the whole text. If it is rejected later,
    `feedback` follows, and the next `reply_text` begins anew.

    Attributes:
        text: The text so far. With an `output_type`, the JSON text so far.
        delta: The new part of the text.
        value: With an `output_type`, the partial value; None without one.
    """

    name: ClassVar[Literal["reply_text"]] = "reply_text"
    public: ClassVar[tuple[str, ...]] = ("text", "delta", "value")
    text: str
    delta: str
    value: Any = None


@dataclass(frozen=True, kw_only=True)
class ReplyReceived(_Event):
    """The reply is complete; `seconds` have passed since its request."""

    name: ClassVar[Literal["reply"]] = "reply"
    public: ClassVar[tuple[str, ...]] = ("seconds",)
    response: ChatResponse
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RequestFailed(_Event):
    """A request has no reply.

    Attributes:
        error: The exception: of the gateway, a cancellation, or `RunStopped`.
        message: The part of the reply that arrived; None if nothing did.
        seconds: Seconds since the request.
        sent: Whether the request was sent. It is not if the run was stopped while listeners of the
            event `request` were waited for.
    """

    name: ClassVar[Literal["request_failed"]] = "request_failed"
    public: ClassVar[tuple[str, ...]] = ("error", "seconds", "sent")
    error: BaseException = field(compare=False)
    message: Message | None
    seconds: float
    sent: bool


@dataclass(frozen=True, kw_only=True)
class DecisionMade(_Event):
    """The reply is valid: it contains `calls`, or it is the final `reply`.

    `text` is the text of the reply. `repairs` lists the repairs that the JSON of the decision
    needed.
    """

    name: ClassVar[Literal["decision"]] = "decision"
    public: ClassVar[tuple[str, ...]] = ("calls", "reply")
    text: str
    calls: tuple[ToolCall, ...] = ()
    reply: str | None = None
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FeedbackGiven(_Event):
    """The reply `text` is invalid; `feedback` is the message for the model.

    `issues` lists what is wrong with the JSON in the reply, or with the value of an output type.
    """

    name: ClassVar[Literal["feedback"]] = "feedback"
    text: str
    feedback: str
    issues: tuple[Issue, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class ToolCalled(_Event):
    """A call is looked up, validated and run next; `tool` is None if no tool has its name."""

    name: ClassVar[Literal["tool_call"]] = "tool_call"
    public: ClassVar[tuple[str, ...]] = ("call",)
    call: ToolCall
    tool: Tool | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class ApprovalDecided(_Event):
    """An approver has decided about a call, or about its result.

    Attributes:
        request: What it was asked, without the result, which the model may not see.
        about: Whether it decided about the call or about its result.
        verdict: What it decided.
        seconds: The time that it needed.
    """

    name: ClassVar[Literal["approval"]] = "approval"
    public: ClassVar[tuple[str, ...]] = ("request", "about", "verdict", "seconds")
    request: ApprovalRequest
    about: Literal["call", "result"]
    verdict: Verdict
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ToolProgressed(_Event):
    """A tool reported progress; `value` is the argument of `ToolContext.progress`."""

    name: ClassVar[Literal["tool_progress"]] = "tool_progress"
    public: ClassVar[tuple[str, ...]] = ("call", "value")
    call: ToolCall
    value: Any


@dataclass(frozen=True, kw_only=True)
class ToolRetried(_Event):
    """Attempt number `attempt` failed with `error`; a retry follows after a wait.

    With `approve_result`, the error contains no text of the tool.
    """

    name: ClassVar[Literal["tool_retry"]] = "tool_retry"
    public: ClassVar[tuple[str, ...]] = ("call", "error", "attempt")
    call: ToolCall
    error: ToolError
    attempt: int


@dataclass(frozen=True, kw_only=True)
class ApprovalPending(_Event):
    """A call needs approval; the run ends and can be resumed."""

    name: ClassVar[Literal["approval_pending"]] = "approval_pending"
    public: ClassVar[tuple[str, ...]] = ("call",)
    call: ToolCall


@dataclass(frozen=True, kw_only=True)
class ToolAnswered(_Event):
    """A call has its result.

    Attributes:
        result: The result.
        message: Its message in the history, which shows the beginning of a long output.
        variable: The id of the variable that holds a long output; None if the output is not long.
    """

    name: ClassVar[Literal["tool_result"]] = "tool_result"
    public: ClassVar[tuple[str, ...]] = ("result",)
    result: ToolResult
    message: Message | None = field(default=None, repr=False, compare=False)
    variable: str | None = None


@dataclass(frozen=True, kw_only=True)
class TurnEnded(_Event):
    """The turn has ended; the history contains its messages."""

    name: ClassVar[Literal["turn_end"]] = "turn_end"
    public: ClassVar[tuple[str, ...]] = ("usage",)
    usage: Usage | None


@dataclass(frozen=True, kw_only=True)
class LoopEnded(_Event):
    """The run has ended.

    Attributes:
        status: The status of the result; "error" or "cancelled" if the run raised.
        reply: The final reply, or None.
        result: The result; None if the run raised.
        error: The exception or the cancellation that ended the run; None if there is a result.
        usage: The tokens of all requests, of compactions, and of runs inside of tools.
        cost: Their cost in US dollars; None if no price is known.
        tool_rounds: The number of turns that ran at least one tool.
    """

    name: ClassVar[Literal["loop_end"]] = "loop_end"
    public: ClassVar[tuple[str, ...]] = ("status", "reply", "usage", "tool_rounds")
    status: str
    reply: str | None
    result: ToolLoopResult | None = field(repr=False, compare=False)
    error: BaseException | None = field(default=None, compare=False)
    usage: Usage = field(default_factory=Usage, compare=False)
    cost: float | None = field(default=None, compare=False)
    tool_rounds: int = field(default=0, compare=False)


LoopEvent = (
    RunStarted
    | TurnStarted
    | Compacted
    | RequestSent
    | ReplyStreamed
    | ReplyText
    | ReplyReceived
    | RequestFailed
    | DecisionMade
    | FeedbackGiven
    | ToolCalled
    | ApprovalDecided
    | ToolProgressed
    | ToolRetried
    | ApprovalPending
    | ToolAnswered
    | TurnEnded
    | LoopEnded
)

# ---- JSON

_COMMON = {"turn", "run_id", "parent_run_id", "parent_call_id", "at"}
_HIDDEN = {"stream", "gateway", "selection", "previous"}
"""Fields that JSON never contains."""

_PUBLIC: dict[type, tuple[str, ...]] = {
    ToolCall: ("id", "name", "arguments"),
    ToolResult: (
        *("call_id", "name", "output", "is_error", "status"),
        *("duration", "attempts", "cached"),
    ),
    ApprovalRequest: ("call_id", "tool", "effect", "needs_approval"),
}
"""The attributes of a value that a browser may receive."""


def _public_value(value: Any) -> Any:
    """The part of a value that a browser may receive."""
    if isinstance(value, tuple):
        return [_public_value(item) for item in value]
    if isinstance(value, ToolError):
        return {"kind": value.kind}
    if isinstance(value, Verdict | BaseException):
        return {"type": type(value).__name__}
    names = _PUBLIC.get(type(value))
    if names is None:
        return value
    found = {name: getattr(value, name) for name in names}
    if found.get("is_error"):
        del found["output"]  # the text of the error
    return found


def _json_value(name: str, value: Any) -> Any:
    """Values of tools and output types may be of any type, all others are of this project."""
    return plain_data(value) if name in ("details", "output", "value") else value


def _json_fields(value: Any) -> Any:
    """The form of a value of this project for `json.dumps`."""
    if isinstance(value, Message):
        return value.to_dict()
    if isinstance(value, ToolError):
        return {"kind": value.kind, "message": value.message, "hint": value.hint}
    if isinstance(value, BaseException):
        return {"type": type(value).__name__, "message": exception_text(value)}
    if isinstance(value, Tool):
        return {**json.loads(value.as_json), "effect": value.effect}
    if not is_dataclass(value):
        return type(value).__name__
    left_out = _LEFT_OUT.get(type(value))
    names = [item.name for item in fields(value) if item.name != left_out]
    found = {name: _json_value(name, getattr(value, name)) for name in names}
    return {"type": type(value).__name__, **found} if isinstance(value, Verdict) else found


_LEFT_OUT = {ToolResult: "value", ChatResponse: "raw"}
"""Attributes that contain what an approver may have hidden, or what the others repeat."""
