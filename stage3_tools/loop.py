"""`run_turns`: turn after turn, until there is a reply or a reason why there is none. The one loop
there is.

`run_tool_loop` is its first face: one question, one result. `ToolRunner` shows it step by step, and
`execute_tool_chain` begins in the middle of it. A turn itself is `turn.py`, when to stop is said by
`ending.py`.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from stage0_gateway import Message, as_message
from stage1_context import Transcript
from stage3_tools.dialects.escaping import is_feedback
from stage3_tools.execution.several_calls import obey
from stage3_tools.loop_result import LoopStats, ToolLoopResult
from stage3_tools.options import ToolLoopDeps, ToolLoopOptions, check_kind
from stage3_tools.resume.open_calls import go_on, let_go
from stage3_tools.run.cancellation import unless_stopped
from stage3_tools.run.state import Run
from stage3_tools.run.stop_policy import Course, Ending, stopped
from stage3_tools.turn import OpenTurn, begin_turn

_held: ContextVar[tuple[list[Transcript], ...]] = ContextVar("held", default=())
"""The conversations held by the runs that the current code is part of; a list is empty when its run
is over."""


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
        resume: First answer the calls that an earlier run left open: those that waited for
            approval, and those it could not end. Without it they are closed unanswered, and the
            model is told so.

    Returns:
        The reply, or why there is none. Bad replies, bad calls and failing tools are part of it,
        not exceptions.

    Raises:
        GatewayError: The model could not be asked. The history is sound and the question stands in
            it.
        SessionNotFound: There is no such session.
        SessionConflict: Somebody else goes on with the session; what was written until then is in
            the history.
        WindowTooSmall: The question, or a call with its result, does not fit into the window.
        ValueError: The question is no user message.
        RuntimeError: A tool of a run asks in the session of the same run, which would wait for
            itself.
        Exception: What a listener, an approver, `before_send` or `classify` raises; every call has
            its result then, too.
    """
    check_kind(
        "deps", deps, ToolLoopDeps, "It holds gateway.chat, an engine, a controller and a registry."
    )
    check_kind("options", options or ToolLoopOptions(), ToolLoopOptions)
    question = _question(user_message, resume)
    transcript = deps.context_engine.transcript(session_id)
    run = Run(deps, transcript, options or ToolLoopOptions(), question)
    ending = await stoppable(run, lambda: _started(run, session_id, resume))
    await obey()  # who was cancelled while the reply was written sees it here, and nobody later
    run.end(ending.status, ending.reply)
    return result_of(run, ending)


async def run_turns(run: Run, first: OpenTurn | None = None) -> AsyncIterator[OpenTurn | Ending]:
    """Turn after turn, until the run is over.

    Args:
        run: The run; its question stands in the history.
        first: A turn whose request was made elsewhere.

    Yields:
        Each turn when the model has replied, before any tool of it is run; whoever gets it may
        finish it, and if nobody does it is finished here when the next one is asked for. At last
        the ending.

    Raises:
        GatewayError: The model could not be asked. The history is sound.
        Exception: What a listener or an approver raises; every call has its result then, too.
    """
    course, turn, ending = Course(run), first, None
    while ending is None:
        turn = turn or await begin_turn(run, run.deps.tool_registry, last=course.last)
        yield turn
        ending, turn = course.after(await turn.finish(course.refusal)), None
        if (
            run.between is not None
            and await run.between()
            and ending is not None
            and not course.exhausted
        ):
            ending, course = None, Course(run)
    yield ending


async def until_over(run: Run, first: OpenTurn | None = None) -> Ending:
    """All turns of a run; see `run_turns`."""
    async for step in run_turns(run, first):
        last = step
    assert isinstance(last, Ending)  # it comes last
    return last


def result_of(run: Run, ending: Ending) -> ToolLoopResult:
    """What became of a run."""
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
        stats=LoopStats(run.turns, len(run.records), time.perf_counter() - run.started),
        pending_approvals=ending.waiting,
    )


def _question(
    user_message: str | Message | Mapping[str, Any] | None, resume: bool
) -> Message | None:
    if user_message is None and resume:
        return None
    if user_message is None:
        raise ValueError("There is no question. To go on with what there is, say resume=True.")
    question = (
        Message.user(user_message) if isinstance(user_message, str) else as_message(user_message)
    )
    if question.role != "user" or question.tool_calls:
        raise ValueError(
            f"A question is a user message, not a message of the role {question.role!r}."
        )
    if is_feedback(question):
        raise ValueError(
            "A question is a user's own message, not the framework's feedback: leave out its name."
        )
    return question


async def stoppable(run: Run, body: Callable[[], Awaitable[Ending]]) -> Ending:
    """The ending of the run's body; or it is ended by its `abort` or its time limit, if they come
    first.
    """
    abort, seconds = run.options.abort, run.seconds_left
    if abort is None and seconds is None:
        return await body()
    if run.is_aborted:
        return stopped("aborted", run.options)
    ended = await unless_stopped(body(), abort, seconds)
    return ended if isinstance(ended, Ending) else stopped(ended, run.options)


async def _started(run: Run, session_id: str, resume: bool) -> Ending:
    async with alone(run.transcript, session_id):
        return await _begin(run, resume) or await until_over(run)


async def _begin(run: Run, resume: bool) -> Ending | None:
    """Answer or close the calls that an earlier run left open, then store the question.

    Returns:
        An ending if there is nothing to ask the model, or if calls wait for approval again.
    """
    question, ending = run.question, None
    if resume:
        ending = await go_on(run)
    else:
        await let_go(run)
    if question is not None and ending is None:
        await run.transcript.append(question, seen=run.transcript.length)
    return ending


@asynccontextmanager
async def alone(transcript: Transcript, session_id: str) -> AsyncIterator[None]:
    """Hold a conversation for oneself: runs on it come one after the other.

    Raises:
        RuntimeError: Whoever asks is part of a run on it, which would wait for ever.
    """
    outer = _held.get()
    if any(transcript in held for held in outer):
        raise RuntimeError(f"{session_id!r} is running already, and waits for whoever asks here.")
    async with transcript.lock:
        held = [transcript]
        _held.set((*outer, held))
        try:
            yield
        finally:
            held.clear()
            _held.set(outer)
