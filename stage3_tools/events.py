"""What the loop tells whoever watches: one frozen value for each thing that happened.

For every turn, in this order:

    turn_start ─▶ decision ─▶ tool_call …  ─▶ tool_result …  ─▶ turn_end    the model asked for
    tools
                              in call order   in call order
                                       └─ tool_progress, tool_retry ─┘      from the tools, as it
                                       happens
                              tool_call … ─▶ approval_pending … ─▶ turn_end nothing was run yet
    turn_start ─▶ decision ─▶ turn_end                                      the model answered
    turn_start ─▶ feedback ─▶ turn_end                                      the reply could not be
    used turn_start ─▶ turn_end                                                  the provider ended
    it: refused, paused

and `loop_end` once, at the very end, unless the run raises. Calls that a run is resumed with come
first, without `turn_start` and `turn_end`, as turn 0. A run that is stopped in the middle still
tells the `tool_result` of each call it told. Output is for the model, details are for people. The
values know nothing of who listens.
"""

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from stage0_gateway import Message, MessageStream, ToolCall, Usage
from stage2_output import Repair
from stage3_tools.errors import ToolError
from stage3_tools.result import ToolResult


@dataclass(frozen=True, kw_only=True)
class _Event:
    """What all events have: `turn`, counted from 1 in a run, and the time in seconds since the
    epoch.
    """

    turn: int
    timestamp: float = field(default_factory=time.time, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class TurnStarted(_Event):
    """A request is about to be made; `messages` are exactly what the model will see."""

    name: ClassVar[str] = "turn_start"
    messages: tuple[Message, ...]


@dataclass(frozen=True, kw_only=True)
class ReplyStreamed(_Event):
    """The reply will arrive piece by piece: `stream.on("text", …)` hears of each. Its end is waited
    for here.
    """

    name: ClassVar[str] = "reply_stream"
    stream: MessageStream = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class DecisionMade(_Event):
    """The model's reply was understood: it asks for `calls`, or answers with `reply`.

    `repairs` is what had to be mended in the decision's JSON to read it.
    """

    name: ClassVar[str] = "decision"
    text: str
    calls: tuple[ToolCall, ...] = ()
    reply: str | None = None
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FeedbackGiven(_Event):
    """The model's reply, `text`, could not be used; `feedback` is what the model is told."""

    name: ClassVar[str] = "feedback"
    text: str
    feedback: str


@dataclass(frozen=True, kw_only=True)
class ToolCalled(_Event):
    """A call is about to be looked up, checked and run."""

    name: ClassVar[str] = "tool_call"
    call: ToolCall


@dataclass(frozen=True, kw_only=True)
class ToolProgressed(_Event):
    """A tool reports how far it is: `value` is whatever it gave to `ToolContext.progress`."""

    name: ClassVar[str] = "tool_progress"
    call: ToolCall
    value: Any


@dataclass(frozen=True, kw_only=True)
class ToolRetried(_Event):
    """The try number `attempt` failed with `error`; after a wait there will be another."""

    name: ClassVar[str] = "tool_retry"
    call: ToolCall
    error: ToolError
    attempt: int


@dataclass(frozen=True, kw_only=True)
class ApprovalPending(_Event):
    """A call waits for somebody's consent; the run ends, and can be resumed."""

    name: ClassVar[str] = "approval_pending"
    call: ToolCall


@dataclass(frozen=True, kw_only=True)
class ToolAnswered(_Event):
    """A call has its one result."""

    name: ClassVar[str] = "tool_result"
    result: ToolResult


@dataclass(frozen=True, kw_only=True)
class TurnEnded(_Event):
    """The turn is over; all it led to is in the history."""

    name: ClassVar[str] = "turn_end"
    usage: Usage | None


@dataclass(frozen=True, kw_only=True)
class LoopEnded(_Event):
    """The run is over, with this status and reply."""

    name: ClassVar[str] = "loop_end"
    status: str
    reply: str | None


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
