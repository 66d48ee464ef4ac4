"""Events of a run: one frozen value for each step of the loop.

Every turn emits its events in this order:

    turn_start, decision, tool_call ..., tool_result ..., turn_end       the reply contains calls
    turn_start, decision, tool_call ..., approval_pending ..., turn_end  calls need approval
    turn_start, decision, turn_end                                       the reply is final
    turn_start, feedback, turn_end                                       the reply is invalid
    turn_start, turn_end                                                 the provider stopped

`tool_call` and `tool_result` follow the order of the calls. `tool_progress` and `tool_retry` occur
between them, at the time of the progress or the retry. `loop_end` is the last event of a run that
does not raise. A resumed run first emits the events of the open calls, without `turn_start` and
`turn_end`, as turn 0. A run that is stopped emits a `tool_result` for each emitted `tool_call`.
"""

import json
import time
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Literal

from stage0_gateway import Message, MessageStream, ToolCall, Usage
from stage2_output import Issue, Repair
from stage3_tools.errors import ToolError
from stage3_tools.result import ToolLoopResult, ToolResult, plain_data


@dataclass(frozen=True, kw_only=True)
class _Event:
    """Fields of all events: the turn, counted from 1, and the time in seconds since the epoch."""

    name: ClassVar[str]
    turn: int
    timestamp: float = field(default_factory=time.time, compare=False, repr=False)

    def to_json(self) -> str:
        """Return the event as JSON text, for logs and other processes.

        A stream is left out. A value without a JSON form is replaced by the name of its type.
        """
        return json.dumps({"name": self.name, **_json_fields(self)}, default=_json_fields)


@dataclass(frozen=True, kw_only=True)
class TurnStarted(_Event):
    """A request is sent next; `messages` are the messages of the request."""

    name: ClassVar[Literal["turn_start"]] = "turn_start"
    messages: tuple[Message, ...]


@dataclass(frozen=True, kw_only=True)
class ReplyStreamed(_Event):
    """The reply arrives as a stream. `stream.on("text", ...)` adds a listener to it."""

    name: ClassVar[Literal["reply_stream"]] = "reply_stream"
    stream: MessageStream = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class DecisionMade(_Event):
    """The reply is valid: it contains `calls`, or it is the final `reply`.

    `repairs` lists the repairs that the JSON of the decision needed.
    """

    name: ClassVar[Literal["decision"]] = "decision"
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
    """A call is looked up, validated and run next."""

    name: ClassVar[Literal["tool_call"]] = "tool_call"
    call: ToolCall


@dataclass(frozen=True, kw_only=True)
class ToolProgressed(_Event):
    """A tool reported progress; `value` is the argument of `ToolContext.progress`."""

    name: ClassVar[Literal["tool_progress"]] = "tool_progress"
    call: ToolCall
    value: Any


@dataclass(frozen=True, kw_only=True)
class ToolRetried(_Event):
    """Attempt number `attempt` failed with `error`; a retry follows after a wait.

    With `approve_result`, the error contains no text of the tool.
    """

    name: ClassVar[Literal["tool_retry"]] = "tool_retry"
    call: ToolCall
    error: ToolError
    attempt: int


@dataclass(frozen=True, kw_only=True)
class ApprovalPending(_Event):
    """A call needs approval; the run ends and can be resumed."""

    name: ClassVar[Literal["approval_pending"]] = "approval_pending"
    call: ToolCall


@dataclass(frozen=True, kw_only=True)
class ToolAnswered(_Event):
    """A call has its result."""

    name: ClassVar[Literal["tool_result"]] = "tool_result"
    result: ToolResult


@dataclass(frozen=True, kw_only=True)
class TurnEnded(_Event):
    """The turn has ended; the history contains its messages."""

    name: ClassVar[Literal["turn_end"]] = "turn_end"
    usage: Usage | None


@dataclass(frozen=True, kw_only=True)
class LoopEnded(_Event):
    """The run has ended with this status, reply and result."""

    name: ClassVar[Literal["loop_end"]] = "loop_end"
    status: str
    reply: str | None
    result: ToolLoopResult = field(repr=False, compare=False)


LoopEvent = (
    TurnStarted
    | ReplyStreamed
    | DecisionMade
    | FeedbackGiven
    | ToolCalled
    | ToolProgressed
    | ToolRetried
    | ApprovalPending
    | ToolAnswered
    | TurnEnded
    | LoopEnded
)


def _json_fields(value: Any) -> Any:
    """The form of a value of this project for `json.dumps`."""
    if isinstance(value, Message):
        return value.to_dict()
    if isinstance(value, ToolError):
        return {"kind": value.kind, "message": value.message, "hint": value.hint}
    if not is_dataclass(value):
        return type(value).__name__
    left_out = "value" if isinstance(value, ToolResult) else "stream"
    names = [each.name for each in fields(value) if each.name != left_out]
    return {name: _json_field(name, getattr(value, name)) for name in names}


def _json_field(name: str, value: Any) -> Any:
    """Values of tools and output types may be of any type, all others are of this project."""
    return plain_data(value) if name in ("details", "output", "value") else value
