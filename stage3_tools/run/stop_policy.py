"""`StopPolicy`: when a run ends, and with which status.

After each turn, the policy returns the ending of the run, or None to continue. At a limit of tool
rounds it asks for one last request in which tools cannot be called. Used by `loop.py` and by the
runner.
"""

from dataclasses import dataclass, replace
from typing import Any

from stage0_gateway import Message, ToolCall
from stage3_tools.abort import Stop
from stage3_tools.dialects.protocol import FinalReply, InvalidReply, ToolCalls
from stage3_tools.result import LoopStatus
from stage3_tools.run.state import ProviderStop, RunState, Turn, ran_tools

MAX_PAUSES = 5
MAX_REJECTED_TURNS = 5
"""The maximum number of turns in a row in which every call was rejected."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended.

    Attributes:
        status: The status of the result.
        reply: The final reply, or None.
        reason: The reason in a sentence, where the status does not say everything.
        waiting: Calls that wait for approval.
        output: The value of a reply with an output type.
    """

    status: LoopStatus
    reply: str | None = None
    reason: str | None = None
    waiting: tuple[ToolCall, ...] = ()
    output: Any = None


@dataclass(eq=False)
class StopPolicy:
    """Ends a run at a reply, or at a limit.

    Attributes:
        run: The run, which counts its turns, tool rounds and tokens.
    """

    run: RunState
    _invalid_replies: int = 0  # since the last call
    _calls_beside_text: int = 0  # since the last call that was alone
    _empty_replies: int = 0
    _pauses: int = 0
    _rejected_turns: int = 0  # in a row
    _limit: Ending | None = None  # the ending at the limit, once it is reached

    def __post_init__(self) -> None:
        self._limit = self._tool_limit()

    @property
    def last(self) -> bool:
        """Whether the next request is the final one.

        That is the case at a limit, and after an empty reply to tool results.
        """
        return self._limit is not None or bool(self._empty_replies and self.run.counts.tool_rounds)

    @property
    def requests_used_up(self) -> bool:
        """Whether the run may not make another request."""
        limit = self.run.max_requests
        return limit is not None and self.run.counts.requests >= limit

    @property
    def skip_reason(self) -> str:
        """Why the calls of this turn are not run; "" if they are."""
        if self._limit is not None:
            return f"{self._limit.reason} This call was not run."
        return f"{self._request_limit} This call was not run." if self.requests_used_up else ""

    @property
    def _request_limit(self) -> str:
        return f"The limit of {self.run.max_requests} requests was reached."

    def after(self, turn: Turn) -> Ending | None:
        """The ending after a turn; None if the run continues."""
        ending = self._ending(turn)
        counts = self.run.counts
        if ending is None and (limit := counts.limit_reached()):
            ending = Ending("limit", None, limit)
        elif ending and ending.status == "completed" and counts.unknown_cost:
            ending = replace(ending, status="limit", reason=counts.unknown_cost)
        if ending is None and self.requests_used_up:
            ending = Ending("limit", None, self._request_limit)
        if self._limit is not None:
            return ending and _without_tools(self._limit, ending, self.run)
        if ending is None and isinstance(turn.interpretation, ToolCalls):
            self._limit = self._tool_limit()
            if self._limit is not None:
                self._reset_invalid_replies()
                self._empty_replies = self._pauses = 0
        return ending

    def _ending(self, turn: Turn) -> Ending | None:
        match turn.interpretation:
            case ToolCalls():
                self._reset_invalid_replies()
                self._rejected_turns = 0 if ran_tools(turn.records) else self._rejected_turns + 1
                return awaiting_approval(turn.waiting) if turn.waiting else None
            case FinalReply() as reply if reply.text.strip():
                return Ending("completed", reply.text, output=reply.output)
            case FinalReply():
                self._empty_replies += 1
                if self._empty_replies > 1:
                    return Ending("completed", "", "The model's reply was empty, twice.")
            case InvalidReply() as reply:
                attempts = self._count_invalid(reply)
                if attempts > self.run.options.max_parse_retries:
                    return Ending("parse_failed", None, _invalid_reason(attempts, reply.feedback))
            case ProviderStop(message, reason):
                return self._provider_ending(message, reason)
        return None

    def _provider_ending(self, message: Message, reason: str) -> Ending | None:
        if reason == "refusal":
            return Ending("refused", None, message.text or "The model refused to answer.")
        self._pauses += 1
        too_many = self._pauses > MAX_PAUSES
        return Ending("limit", None, "The model paused too often.") if too_many else None

    def _count_invalid(self, reply: InvalidReply) -> int:
        """Count an invalid reply, and return the count of its kind.

        A call beside text is a valid call in the wrong place, so it does not use up the attempts
        of a model that writes invalid JSON, and the other way round.
        """
        if reply.is_call_beside_text:
            self._calls_beside_text += 1
            return self._calls_beside_text
        self._invalid_replies += 1
        return self._invalid_replies

    def _reset_invalid_replies(self) -> None:
        self._invalid_replies = self._calls_beside_text = 0

    def _tool_limit(self) -> Ending | None:
        """The ending without a reply, if no further tool may be run."""
        limit = self.run.options.max_tool_rounds
        if limit is not None and self.run.counts.tool_rounds >= limit:
            return Ending("max_rounds", None, f"The limit of {limit} tool rounds was reached.")
        if self._rejected_turns >= MAX_REJECTED_TURNS:
            reason = f"In {MAX_REJECTED_TURNS} turns in a row, every call was rejected."
            return Ending("limit", None, reason)
        return None


def _invalid_reason(attempts: int, feedback: str) -> str:
    return f"The model gave no valid reply in {attempts} attempts. The last feedback: {feedback}"


def _without_tools(limit: Ending, ending: Ending, run: RunState) -> Ending:
    """The ending of a run after its final request, in which tools could not be called."""
    if run.typed is not None and ending.status == "parse_failed":
        return ending
    if ending.reply:
        return Ending(limit.status, ending.reply, limit.reason, output=ending.output)
    reason = ending.reason if ending.status != "completed" else None
    reason = reason or "The model gave no reply without tools either."
    return Ending(limit.status, None, f"{limit.reason} {reason}")


def stopped(how: Stop, run: RunState) -> Ending:
    """The ending of a run that was stopped by its abort event or by a limit."""
    options = run.options
    if how == "limit":
        return Ending("limit", None, run.counts.limit_reached())
    if how == "timeout":
        seconds = options.limits.seconds if options.limits else None
        return Ending("timeout", None, f"The run took longer than its limit of {seconds:g} s.")
    reasons = [getattr(abort, "reason", None) for abort in run.counts.aborts]
    reason = next(filter(None, reasons), None)
    return Ending(
        "aborted", None, f"The run was aborted: {reason}" if reason else "The run was aborted."
    )


def awaiting_approval(waiting: tuple[ToolCall, ...], *, unasked: bool = False) -> Ending:
    """The ending of a run whose calls wait for approval.

    Args:
        waiting: The calls.
        unasked: Whether the user's question could therefore not be asked.
    """
    names = ", ".join(call.name for call in waiting)
    reason = f"Waiting for approval: {names}. No tool of this turn was run. Resume to decide."
    reason += " The question was not asked." if unasked else ""
    return Ending("awaiting_approval", None, reason, waiting)
