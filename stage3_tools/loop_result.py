"""What became of a question: the reply, or why there is none, and what it took.

A value; `loop.py` makes it.
"""

from dataclasses import dataclass, field

from stage0_gateway import Message, ToolCall, Usage
from stage3_tools.result import ToolCallRecord
from stage3_tools.run.stop_policy import LoopStatus


@dataclass(frozen=True, slots=True)
class LoopStats:
    """What a run took: turns (model calls), tool calls, and seconds."""

    turns: int
    tool_calls: int
    duration: float


@dataclass(frozen=True, slots=True)
class ToolLoopResult:
    """What became of a question.

    Attributes:
        reply: The answer, or None.
        status: Why the loop ended.
        status_reason: The same in a sentence, where there is more to say.
        tool_rounds: Turns in which at least one tool was run.
        last_raw_content: What the model wrote last, word for word.
        usage: The tokens of all model calls of this run.
        cost: US dollars, or None where no price is known.
        history: Every tool call of this run with its result.
        messages: What the model saw in the last request.
        stats: Turns, calls, seconds.
        pending_approvals: Calls that wait for consent: resume when somebody can say.
    """

    reply: str | None
    status: LoopStatus
    status_reason: str | None
    tool_rounds: int
    last_raw_content: str | None
    usage: Usage
    cost: float | None
    history: tuple[ToolCallRecord, ...] = field(repr=False)
    messages: tuple[Message, ...] = field(repr=False)
    stats: LoopStats
    pending_approvals: tuple[ToolCall, ...] = ()

    @property
    def max_rounds_reached(self) -> bool:
        """Whether tools were taken away because the limit was reached."""
        return self.status == "max_rounds"
