"""`run_turns`: repeat the turn until a stop policy ends the run. This is the only loop.

`run_tool_loop` answers one question with it. `ToolRunner` takes the same three steps of a turn one
at a time, and `execute_tool_chain` starts the loop with a reply. The turn itself is in `turn.py`.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from typing import Any, TypeVar, Unpack, cast

from stage0_gateway import Message, as_message
from stage1_context import Transcript
from stage3_tools.abort import RunStopped, Stop
from stage3_tools.dialects.escaping import is_from_framework
from stage3_tools.options import ToolLoopDeps, ToolLoopOptions, type_error
from stage3_tools.result import LoopStats, ToolLoopResult
from stage3_tools.resume.open_calls import close_open_calls, resume_open_calls
from stage3_tools.run.calls import deliver_cancellation
from stage3_tools.run.cancellation import run_until_stopped
from stage3_tools.run.keywords import LoopKeywords
from stage3_tools.run.state import RunState, Turn
from stage3_tools.run.stop_policy import Ending, StopPolicy, stopped
from stage3_tools.turn import act, read, request

T = TypeVar("T")


async def run_turns(
    run: RunState, turn: Turn | None = None, policy: StopPolicy | None = None
) -> Ending:
    """Repeat the turn until the run ends; `turn` is a first turn whose reply exists already.

    A `policy` continues the counts of an earlier call that failed.

    Raises:
        GatewayError: The model could not be reached. The history can be continued.
        Exception: A listener or an approver raised. Each call has its result.
    """
    policy = policy or StopPolicy(run)
    while True:
        turn = turn or await request(run, last=policy.last)
        await read(run, turn)
        await act(run, turn, policy.skip_reason)
        if ending := policy.after(turn):
            return ending
        turn = None


async def run_tool_loop(
    deps: ToolLoopDeps,
    session_id: str,
    user_message: str | Message | Mapping[str, Any] | None,
    options: ToolLoopOptions | None = None,
    *,
    resume: bool = False,
    **keywords: Unpack[LoopKeywords],
) -> ToolLoopResult:
    """Answer a question, with tools where the model calls them.

    Args:
        deps: The parts of the other stages.
        session_id: A session of `deps.context_engine`.
        user_message: The question; None continues without a new one, together with `resume`.
        options: The options; None uses the defaults.
        keywords: Options by name, such as `max_tool_rounds=5`; they override `options`.
        resume: Whether calls that an earlier run left without results are run first. If False, they
            get a result with the status "interrupted".

    Returns:
        The reply, or the reason why there is none. Invalid replies, invalid calls and failing tools
        are part of the result, not exceptions.

    Raises:
        GatewayError: The model could not be reached. The history contains the question and can be
            continued.
        SessionNotFound: The session does not exist.
        SessionConflict: Another process continued the session at the same time.
        WindowTooSmall: The question, or a call with its result, does not fit into the window.
        TypeError: `deps` or `options` has the wrong type.
        ValueError: The question is not a user message.
        RuntimeError: A tool of a run asks in the session of that run, which would wait for itself.
        Exception: A callback raised. Each call has its result.
    """
    if not isinstance(deps, ToolLoopDeps):
        raise type_error("deps", deps, ToolLoopDeps, "It holds the parts of the other stages.")
    if keywords or not isinstance(options, ToolLoopOptions):
        options = with_keywords(options, keywords)
    if isinstance(user_message, str):
        question: Message | None = Message.user(user_message)
    else:
        question = _check_question(user_message, resume)
    run = RunState(deps, deps.context_engine.transcript(session_id), options, question)

    async def body() -> Ending:
        async with session_lock(run.transcript, session_id):
            return await _prepare(run, resume) or await run_turns(run)

    return await run_to_end(run, body)


async def run_to_end(run: RunState, body: Callable[[], Awaitable[Ending]]) -> ToolLoopResult:
    """Run the body of a run; report the start and the end of the run."""
    async with reports_failure(run):
        ending = await stoppable(run, body)
        await deliver_cancellation()
    result = result_of(run, ending)
    await run.end(result)
    return result


@asynccontextmanager
async def reports_failure(run: RunState) -> AsyncIterator[None]:
    """Report that the run has ended, if the block raises."""
    try:
        yield
    except BaseException as error:
        await run.fail(error)
        raise


def with_keywords(options: ToolLoopOptions | None, keywords: Mapping[str, Any]) -> ToolLoopOptions:
    """The options with the keywords of a call.

    Raises:
        TypeError: The options have another type, or a keyword is unknown.
    """
    given: Any = ToolLoopOptions() if options is None else options
    if not isinstance(given, ToolLoopOptions):
        raise type_error("options", given, ToolLoopOptions, "Write them by name: max_tokens=500.")
    known = [option.name for option in fields(given)]
    if unknown := keywords.keys() - set(known):
        names = ", ".join(known)
        raise TypeError(f"Unknown option {min(unknown)!r}. The options are {names}.")
    return replace(given, **keywords)


async def _prepare(run: RunState, resume: bool) -> Ending | None:
    """Resume or close the calls of an earlier run, then append the question."""
    question, ending = run.question, None
    if resume:
        ending = await resume_open_calls(run)  # which may find an earlier question to answer
    elif open_calls := await run.transcript.open_calls():
        await close_open_calls(run, open_calls)
    if question is not None and ending is None:
        await run.transcript.append(question)
    return ending


def _check_question(
    user_message: Message | Mapping[str, Any] | None, resume: bool
) -> Message | None:
    if user_message is None:
        if resume:
            return None
        raise ValueError("The question is missing. To continue without one, pass resume=True.")
    question = as_message(user_message)
    if question.role != "user" or question.tool_calls:
        raise ValueError(f"The question must be a user message, not a {question.role!r} message.")
    if is_from_framework(question):
        raise ValueError(f"The question has the name of {question.name} messages. Remove its name.")
    return question


def result_of(run: RunState, ending: Ending) -> ToolLoopResult:
    """The result of a run that has ended."""
    counts = run.counts
    return ToolLoopResult(
        reply=ending.reply,
        status=ending.status,
        status_reason=ending.reason,
        tool_rounds=counts.tool_rounds,
        last_raw_content=run.last_content,
        usage=counts.usage,
        cost=counts.cost,
        history=tuple(run.records),
        messages=run.last_request,
        stats=LoopStats(counts.requests, len(run.records), time.perf_counter() - counts.started),
        pending_approvals=ending.waiting,
        output=ending.output,
    )


async def stoppable(run: RunState, body: Callable[[], Awaitable[T]]) -> T | Ending:
    """Run the body; end it by an abort or by a limit if one of them comes first."""

    async def started() -> T:
        if run.events.listeners:
            await run.start()
        if reason := run.counts.stop_reason():
            raise RunStopped(reason)
        return await body()

    aborts, seconds = run.counts.aborts, run.counts.seconds_left()
    if not aborts and seconds is None:
        try:
            return await started()
        except RunStopped as stop:
            return stopped(stop.status, run)
    result = await run_until_stopped(started(), aborts, seconds)
    return stopped(cast(Stop, result), run) if isinstance(result, str) else result


_locked: ContextVar[tuple[list[Transcript], ...]] = ContextVar("_locked", default=())
"""The conversations of the runs that the current code is part of. The list of a run is emptied when
it ends, because tasks that it started keep their copy of this variable.
"""


@asynccontextmanager
async def session_lock(transcript: Transcript, session_id: str) -> AsyncIterator[None]:
    """Serialize the runs on one conversation; a run inside of itself raises a RuntimeError."""
    if any(transcript in locked for locked in _locked.get()):
        raise RuntimeError(
            f"{session_id!r} is running already, and waits for the tool or callback that asks "
            "here. Use another session, or ask after the run."
        )
    async with transcript.lock:
        with part_of_run(transcript):
            yield


@contextmanager
def part_of_run(transcript: Transcript) -> Iterator[None]:
    """Mark code that a run on this conversation waits for: it must not wait for the run."""
    locked = [transcript]
    _locked.set((*filter(None, _locked.get()), locked))  # without the runs that have ended
    try:
        yield
    finally:
        locked.clear()
