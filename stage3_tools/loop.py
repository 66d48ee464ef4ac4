"""`run_tool_loop`: one question, as many turns as it takes, one result. The one loop there is.

It decides when to go on and when to stop; a turn itself is `turn.py`. It ends always: with a reply, or with
a status that says why there is none.
"""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from stage0_gateway import Message, Usage, as_message
from stage1_context import Transcript
from stage3_tools.dialect import Calls, FinalReply, Unusable
from stage3_tools.events import LoopEnded
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord
from stage3_tools.run import Run, ToolLoopDeps, ToolLoopOptions
from stage3_tools.turn import Stopped, Turn, run_turn

LoopStatus = Literal[
    "completed", "max_rounds", "parse_failed", "refused", "awaiting_approval", "limit", "aborted", "timeout"
]

MOST_PAUSES = 5
MOST_FRUITLESS = 5
"""Turns in a row in which every call was refused; without a limit they could go on for ever."""

_running: ContextVar[frozenset[int]] = ContextVar("running", default=frozenset())
"""Which transcripts the code that is running here is part of a run on."""


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

    @property
    def max_rounds_reached(self) -> bool:
        """Whether tools were taken away because the limit was reached."""
        return self.status == "max_rounds"


@dataclass(frozen=True, slots=True)
class _Ending:
    status: LoopStatus
    reply: str | None = None
    reason: str | None = None


async def run_tool_loop(
    deps: ToolLoopDeps,
    session_id: str,
    user_message: str | Message | Mapping[str, Any],
    options: ToolLoopOptions | None = None,
) -> ToolLoopResult:
    """Answer a question, with tools where the model asks for them.

    Args:
        deps: The pieces of the other stages.
        session_id: A session of `deps.context_engine`.
        user_message: The question.
        options: None takes the defaults.

    Returns:
        The reply, or why there is none. Bad replies, bad calls and failing tools are part of it, not exceptions.

    Raises:
        GatewayError: The model could not be asked. The history is sound and the question stands in it.
        SessionNotFound: There is no such session.
        SessionConflict: Somebody else keeps writing to the session; the question was not added.
        WindowTooSmall: The question, or a call with its result, does not fit into the window.
        ValueError: The question is no user message.
        RuntimeError: A tool of a run asks in the session of the same run, which would wait for itself.
    """
    started = time.perf_counter()
    question = _question(user_message)
    transcript = deps.context_engine.transcript(session_id)
    run = Run(deps, transcript, options or ToolLoopOptions(), question)
    async with _alone(transcript, session_id):
        await transcript.close_open_calls()  # where the program was killed in the middle of a turn
        await transcript.append(question)
        ending = await _answer_within_limits(run)
    run.emit(LoopEnded(turn=run.turns, status=ending.status, reply=ending.reply))
    return ToolLoopResult(
        reply=ending.reply,
        status=ending.status,
        status_reason=ending.reason,
        tool_rounds=run.tool_rounds,
        last_raw_content=run.last_content,
        usage=run.usage,
        cost=run.cost,
        history=tuple(run.records),
        messages=run.shown,
        stats=LoopStats(run.turns, len(run.records), time.perf_counter() - started),
    )


def _question(user_message: str | Message | Mapping[str, Any]) -> Message:
    question = Message.user(user_message) if isinstance(user_message, str) else as_message(user_message)
    if question.role != "user" or question.tool_calls:
        raise ValueError(f"A question is a user message, not a message of the role {question.role!r}.")
    return question


@asynccontextmanager
async def _alone(transcript: Transcript, session_id: str) -> AsyncIterator[None]:
    """Two runs on one session come one after the other; one inside of the other would wait for ever."""
    outer = _running.get()
    if id(transcript) in outer and transcript.lock.locked():
        raise RuntimeError(f"The session {session_id!r} is running already, and waits for whoever asks here.")
    async with transcript.lock:
        _running.set(outer | {id(transcript)})
        try:
            yield
        finally:
            _running.set(outer)


async def _answer_within_limits(run: Run) -> _Ending:
    limit = run.options.max_tool_rounds
    ending = None
    if limit:
        ending = await _until_answered(run, run.deps.tool_registry)
    if ending is not None:
        return ending
    # The limit is reached: one last call, with the tools taken away.
    status: LoopStatus = "max_rounds"
    reason = f"The limit of {limit} tool rounds was reached."
    if run.tool_rounds < limit:
        status, reason = "limit", f"In {MOST_FRUITLESS} turns in a row every call was refused."
    last = await _until_answered(run, ToolRegistry())
    if last is None or not last.reply:
        return _Ending(status, None, f"{reason} The model gave no reply without tools either.")
    return _Ending(status, last.reply, reason)


async def _until_answered(run: Run, registry: ToolRegistry) -> _Ending | None:
    """Turn after turn, until there is an ending; None when no more tools are to be run."""
    tally = _Tally()
    while True:
        turn = await run_turn(run, registry)
        ending = _ending(turn, tally, run.options.max_parse_retries)
        if ending is not None:
            return ending
        spent = run.tool_rounds >= run.options.max_tool_rounds or tally.fruitless >= MOST_FRUITLESS
        if spent and isinstance(turn.reading, Calls):
            return None


@dataclass
class _Tally:
    """How often each thing happened that may not happen for ever."""

    fruitless: int = 0
    unusable: int = 0
    empty: int = 0
    pauses: int = 0


def _ending(turn: Turn, tally: _Tally, max_parse_retries: int) -> _Ending | None:
    """Count what a turn led to; returns the ending if it is one."""
    match turn.reading:
        case FinalReply(message) if message.text.strip():
            return _Ending("completed", message.text)
        case FinalReply():
            tally.empty += 1
            return (
                _Ending("completed", "", "The model's reply was empty, twice.") if tally.empty > 1 else None
            )
        case Unusable(feedback=why):
            tally.unusable += 1
            return _Ending("parse_failed", None, why) if tally.unusable > max_parse_retries else None
        case Calls():
            tally.unusable = 0
            tally.fruitless = 0 if turn.ran_tools else tally.fruitless + 1
            return None
        case Stopped(message, "refusal"):
            return _Ending("refused", None, message.text or "The model refused to answer.")
        case Stopped():
            tally.pauses += 1
            return (
                _Ending("limit", None, "The model paused too often.") if tally.pauses > MOST_PAUSES else None
            )
