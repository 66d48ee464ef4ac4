"""When a run is over: a reply, or something that may not go on for ever.

`ending_of` looks at one turn; `Tally` counts what happened before. Knows no loop: `loop.py` asks after every turn.
"""

from dataclasses import dataclass
from typing import Literal

from stage0_gateway import ToolCall
from stage3_tools.dialect import Calls, FinalReply, Unusable
from stage3_tools.turn import Stopped, Turn

LoopStatus = Literal[
    "completed", "max_rounds", "parse_failed", "refused", "awaiting_approval", "limit", "aborted", "timeout"
]

MOST_PAUSES = 5
MOST_FRUITLESS = 5
"""Turns in a row in which every call was refused; without a limit they could go on for ever."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: with which status and reply, why, and which calls still wait for consent."""

    status: LoopStatus
    reply: str | None = None
    reason: str | None = None
    waiting: tuple[ToolCall, ...] = ()


@dataclass
class Tally:
    """How often each thing happened that may not happen for ever."""

    fruitless: int = 0
    unusable: int = 0
    empty: int = 0
    pauses: int = 0


def ending_of(turn: Turn, tally: Tally, max_parse_retries: int) -> Ending | None:
    """Count what a turn led to; returns the ending if it is one."""
    match turn.reading:
        case FinalReply(message) if message.text.strip():
            return Ending("completed", message.text)
        case FinalReply():
            tally.empty += 1
            return Ending("completed", "", "The model's reply was empty, twice.") if tally.empty > 1 else None
        case Unusable(feedback=why):
            tally.unusable += 1
            return Ending("parse_failed", None, why) if tally.unusable > max_parse_retries else None
        case Calls() if turn.waiting:
            return awaiting(turn.waiting)
        case Calls():
            tally.unusable = 0
            tally.fruitless = 0 if turn.ran_tools else tally.fruitless + 1
            return None
        case Stopped(message, "refusal"):
            return Ending("refused", None, message.text or "The model refused to answer.")
        case Stopped():
            tally.pauses += 1
            return (
                Ending("limit", None, "The model paused too often.") if tally.pauses > MOST_PAUSES else None
            )


def awaiting(waiting: tuple[ToolCall, ...], *, question: bool = False) -> Ending:
    """The ending of a run in which calls wait for consent, and perhaps a question could not be asked because of it."""
    names = ", ".join(call.name for call in waiting)
    reason = f"Waiting for approval: {names}. Nothing of this turn was run; resume when somebody can say."
    reason += " The question was not asked." if question else ""
    return Ending("awaiting_approval", None, reason, waiting)
