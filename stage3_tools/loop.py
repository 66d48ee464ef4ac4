"""`run_tool_loop`: one question, as many turns as it takes, one result. The one loop there is.

It decides when to go on and when to stop; a turn itself is `turn.py`. It ends always: with a reply, or with
a status that says why there is none.
"""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from stage0_gateway import Message, as_message
from stage1_context import Transcript
from stage3_tools.batch import obey
from stage3_tools.dialect import Calls
from stage3_tools.ending import MOST_FRUITLESS, Ending, LoopStatus, Tally, ending_of
from stage3_tools.events import LoopEnded
from stage3_tools.loop_result import LoopStats, ToolLoopResult
from stage3_tools.options import ToolLoopDeps, ToolLoopOptions
from stage3_tools.registry import ToolRegistry
from stage3_tools.run import Run
from stage3_tools.turn import run_turn

_running: ContextVar[frozenset[int]] = ContextVar("running", default=frozenset())
"""Which transcripts the code that is running here is part of a run on."""


async def run_tool_loop(
    deps: ToolLoopDeps,
    session_id: str,
    user_message: str | Message | Mapping[str, Any] | None,
    options: ToolLoopOptions | None = None,
    *,
    resume: bool = False,
) -> ToolLoopResult:
    """Answer a question, with tools where the model asks for them.

    Args:
        deps: The pieces of the other stages.
        session_id: A session of `deps.context_engine`.
        user_message: The question; None only goes on with what there is, which is for `resume`.
        options: None takes the defaults.
        resume: First answer the calls that an earlier run left open: those that waited for approval, and those
            it could not end. Without it they are closed unanswered, and the model is told so.

    Returns:
        The reply, or why there is none. Bad replies, bad calls and failing tools are part of it, not exceptions.

    Raises:
        GatewayError: The model could not be asked. The history is sound and the question stands in it.
        SessionNotFound: There is no such session.
        SessionConflict: Somebody else goes on with the session; what was written until then is in the history.
        WindowTooSmall: The question, or a call with its result, does not fit into the window.
        ValueError: The question is no user message.
        RuntimeError: A tool of a run asks in the session of the same run, which would wait for itself.
        Exception: What a listener or an approver raises; every call has its result then, too.
    """
    started = time.perf_counter()
    question = _question(user_message, resume)
    transcript = deps.context_engine.transcript(session_id)
    run = Run(deps, transcript, options or ToolLoopOptions(), question)
    ending = await _stoppable(run, session_id, resume)
    await obey()  # who was cancelled while the reply was written sees it here, and nobody later
    run.over = True
    run.emit(LoopEnded(turn=run.turns, status=ending.status, reply=ending.reply))
    return _result(run, ending, time.perf_counter() - started)


def _result(run: Run, ending: Ending, seconds: float) -> ToolLoopResult:
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
        stats=LoopStats(run.turns, len(run.records), seconds),
        pending_approvals=ending.waiting,
    )


def _question(user_message: str | Message | Mapping[str, Any] | None, resume: bool) -> Message | None:
    if user_message is None and resume:
        return None
    if user_message is None:
        raise ValueError("There is no question. To go on with what there is, say resume=True.")
    question = Message.user(user_message) if isinstance(user_message, str) else as_message(user_message)
    if question.role != "user" or question.tool_calls:
        raise ValueError(f"A question is a user message, not a message of the role {question.role!r}.")
    return question


async def _stoppable(run: Run, session_id: str, resume: bool) -> Ending:
    """The run, ended by its `abort` or its time limit if they come first."""
    abort, limits = run.options.abort, run.options.limits
    seconds = None if limits is None else limits.seconds
    if abort is None and seconds is None:
        return await _started(run, session_id, resume)
    if abort is not None and abort.is_set():
        return Ending("aborted", None, "The abort event was set before the run began; nothing was asked.")
    from stage3_tools.stopping import unless_stopped  # most runs are not watched

    match await unless_stopped(_started(run, session_id, resume), abort, seconds):
        case "aborted":
            return Ending("aborted", None, "The run was stopped by its abort event.")
        case "timeout":
            return Ending("timeout", None, f"The run took longer than its limit of {seconds:g} s.")
        case ending:
            return ending


async def _started(run: Run, session_id: str, resume: bool) -> Ending:
    async with _alone(run.transcript, session_id):
        question = run.question
        ending = await _answer_or_close(run, resume)
        if question is not None and ending is None:
            await run.transcript.append(question)
        return ending or await _answer_within_limits(run)


async def _answer_or_close(run: Run, resume: bool) -> Ending | None:
    """Look after the calls that an earlier run left open; returns an ending if there is nothing else to do."""
    if not resume and await run.transcript.open_calls() is None:
        return None  # nearly always
    from stage3_tools.resume import go_on, let_go

    if resume:
        return await go_on(run)
    await let_go(run)
    return None


@asynccontextmanager
async def _alone(transcript: Transcript, session_id: str) -> AsyncIterator[None]:
    """Two runs on one session come one after the other; one inside of the other would wait for ever."""
    outer = _running.get()
    if id(transcript) in outer and transcript.busy:
        raise RuntimeError(f"The session {session_id!r} is running already, and waits for whoever asks here.")
    async with transcript.lock:
        _running.set(outer | {id(transcript)})
        try:
            yield
        finally:
            _running.set(outer)


async def _answer_within_limits(run: Run) -> Ending:
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
        why = last.reason if last is not None and last.status != "completed" else None
        return Ending(status, None, f"{reason} {why or 'The model gave no reply without tools either.'}")
    return Ending(status, last.reply, reason)


async def _until_answered(run: Run, registry: ToolRegistry) -> Ending | None:
    """Turn after turn, until there is an ending; None when no more tools are to be run."""
    tally = Tally()
    while True:
        turn = await run_turn(run, registry)
        ending = ending_of(turn, tally, run.options.max_parse_retries)
        if ending is not None:
            return ending
        if reason := run.spent:
            return Ending("limit", None, reason)
        spent = run.tool_rounds >= run.options.max_tool_rounds or tally.fruitless >= MOST_FRUITLESS
        if spent and isinstance(turn.reading, Calls):
            return None
