"""When a run is over: a reply, or something that may not go on for ever.

`ending_of` looks at one turn; `Tally` counts what happened before. `Course` says whether the next
request is the last one, in which no tools can be called, because a limit was reached. Knows no
loop: `loop.py` asks after every turn.
"""

from dataclasses import dataclass
from typing import Literal

from stage0_gateway import ToolCall
from stage3_tools.dialects.protocol import Calls, FinalReply, Unusable
from stage3_tools.options import ToolLoopOptions
from stage3_tools.run.state import Run
from stage3_tools.turn import Stopped, Turn

LoopStatus = Literal[
    "completed",
    "max_rounds",
    "parse_failed",
    "refused",
    "awaiting_approval",
    "limit",
    "aborted",
    "timeout",
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
            return (
                Ending("completed", "", "The model's reply was empty, twice.")
                if tally.empty > 1
                else None
            )
        case Unusable(feedback=why):
            tally.unusable += 1
            if tally.unusable <= max_parse_retries:
                return None
            told = (
                f"The model gave no usable reply in {tally.unusable} tries. It was told last: {why}"
            )
            return Ending("parse_failed", None, told)
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
                Ending("limit", None, "The model paused too often.")
                if tally.pauses > MOST_PAUSES
                else None
            )


def stopped(how: Literal["aborted", "timeout"], options: ToolLoopOptions) -> Ending:
    """The ending of a run that was stopped from outside: by its `abort`, or by its limit of
    time.
    """
    if how == "aborted":
        reason = getattr(options.abort, "reason", None)
        return Ending(
            "aborted", None, f"The run was aborted: {reason}" if reason else "The run was aborted."
        )
    seconds = options.limits.seconds if options.limits else None
    return Ending("timeout", None, f"The run took longer than its limit of {seconds:g} s.")


def awaiting(waiting: tuple[ToolCall, ...], *, question: bool = False) -> Ending:
    """The ending of a run in which calls wait for consent, and perhaps a question could not be
    asked because of it.
    """
    names = ", ".join(call.name for call in waiting)
    reason = f"Waiting for approval: {names}. Nothing of this turn was run; resume when somebody can say."
    reason += " The question was not asked." if question else ""
    return Ending("awaiting_approval", None, reason, waiting)


class Course:
    """The course of a run: turns with tools; at a limit a last request in which none can be called;
    an ending.

    Args:
        run: The run, which counts its tool rounds itself.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tally = Tally()
        self._last = self._limit()

    @property
    def last(self) -> bool:
        """Whether the next request asks for the final answer and offers no tool calls.

        That is the case at a limit, and after an empty reply to tool results.
        """
        return self._last is not None or bool(self._tally.empty and self._run.tool_rounds)

    @property
    def refusal(self) -> str:
        """Why the calls of this turn are not to be run; "" where they are."""
        return f"{self._last_request} This call was not run." if self.exhausted else ""

    @property
    def exhausted(self) -> bool:
        """Whether no further request may be made."""
        most = self._run.max_turns
        return most is not None and self._run.turns >= most

    @property
    def _last_request(self) -> str:
        return f"The limit of {self._run.max_turns} requests was reached."

    def after(self, turn: Turn) -> Ending | None:
        """How the run ends after this turn; None where it goes on."""
        ending = ending_of(turn, self._tally, self._run.options.max_parse_retries)
        if ending is None and (spent := self._run.spent):
            ending = Ending("limit", None, spent)
        if ending is None and self.exhausted:
            ending = Ending("limit", None, self._last_request)
        if self._last is not None:
            return ending and _without_tools(self._last, ending)
        if ending is None and isinstance(turn.reading, Calls) and (limit := self._limit()):
            self._last, self._tally = limit, Tally()
        return ending

    def _limit(self) -> Ending | None:
        """Why no more tools are to be run, as the ending that has no reply yet."""
        most = self._run.options.max_tool_rounds
        if most is not None and self._run.tool_rounds >= most:
            return Ending("max_rounds", None, f"The limit of {most} tool rounds was reached.")
        if self._tally.fruitless >= MOST_FRUITLESS:
            return Ending(
                "limit", None, f"In {MOST_FRUITLESS} turns in a row every call was refused."
            )
        return None


def _without_tools(limit: Ending, last: Ending) -> Ending:
    """The ending of a run whose last call was made without tools."""
    if last.reply:
        return Ending(limit.status, last.reply, limit.reason)
    why = last.reason if last.status != "completed" else None
    return Ending(
        limit.status,
        None,
        f"{limit.reason} {why or 'The model gave no reply without tools either.'}",
    )
