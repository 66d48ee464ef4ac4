"""Run several calls of one reply at the same time.

    prepare   a ─▶ b ─▶ c ─▶ d        look up, check and approve, one after the other
    run       a ┬ b                   at most `max_parallel` at the same time; c is exclusive, so
                c                     it waits for the calls before it, and those behind it wait
                d                     for c

A call starts when a slot is free. The caller is told directly before, so a call that waits for a
slot is never recorded as started. A failing call does not affect the others. This module does not
know the history or events: `run/calls.py` appends starts and results. Used by it and by
`execute_tool_calls`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from stage0_gateway import Accepted, ToolCall, check_arguments
from stage3_tools.execution.invocation import cancel_again
from stage3_tools.execution.one_call import PendingCall
from stage3_tools.execution.settings import ExecutionSettings, ToolLookup
from stage3_tools.result import ToolResult

MAX_PARALLEL = 8
"""The default number of tools that run at the same time."""


def groups(pending: Iterable[PendingCall]) -> Iterator[list[PendingCall]]:
    """Calls that may run at the same time, in call order. An exclusive call is alone."""
    for is_exclusive, group in groupby(pending, attrgetter("is_exclusive")):
        if is_exclusive:
            yield from ([call] for call in group)
        else:
            yield [*group]


async def run_group(
    group: Sequence[PendingCall],
    max_parallel: int,
    stopped: Callable[[], bool] | None = None,
    on_start: Callable[[Sequence[PendingCall]], Awaitable[None]] | None = None,
) -> AsyncGenerator[PendingCall, None]:
    """Run prepared calls at the same time; yield each when it has ended.

    Calls start in order, as soon as slots are free. Ended calls are yielded first, so the caller
    can record them before others start. No call starts after the run was stopped.

    A caller that does not read to the end must close the generator and call `cancel`.

    Args:
        group: The calls. Those that are not ready have ended already.
        max_parallel: The number of slots.
        stopped: Whether the run was stopped.
        on_start: Awaited with the calls that start now, directly before their first attempts. If it
            raises, they do not start.
    """
    ready, ended = deque[PendingCall](), asyncio.Queue[PendingCall]()
    for call in group:
        if call.phase == "ready":
            ready.append(call)
        else:
            ended.put_nowait(call)
    is_alone, running = len(ready) == 1, 0

    for _ in group:
        if ready and stopped is not None and stopped():
            for call in ready:
                call.skip()
                ended.put_nowait(call)
            ready.clear()
        if ended.empty():
            starting = [ready.popleft() for _ in range(min(len(ready), max_parallel - running))]
            if starting and on_start is not None:
                await on_start(starting)
            if starting and is_alone:  # it needs no task of its own
                await starting[0].run()
                ended.put_nowait(starting[0])
                starting.clear()
            for call in starting:
                call.run_in_task(ended)
            running += len(starting)
        call = await ended.get()
        running -= call.task is not None
        yield call


async def cancel(pending: Iterable[PendingCall]) -> None:
    """Cancel calls and wait until they have ended.

    Tools cannot delay that by more than the grace period. A cancellation of the caller is delivered
    at its next `await`.
    """
    tasks = [call.task for call in pending if call.task is not None]
    for task in tasks:
        task.cancel()
    cancelled = False
    while left := {task for task in tasks if not task.done()}:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        cancel_again()


_ACCEPTED = {
    "registry": Accepted("get", "a ToolRegistry, such as ToolRegistry(get_weather)", required=True),
    "call": Accepted(
        ToolCall, "a ToolCall('1', 'get_weather', '{\"city\": \"Rome\"}')", required=True
    ),
}


async def execute_tool_call(
    registry: ToolLookup,
    call: ToolCall,
    settings: ExecutionSettings | None = None,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - of each attempt, not of this function
) -> ToolResult:
    """Execute a call that a model wrote, as `execute_tool_calls` executes several.

    Args:
        registry: The tools.
        call: The call as the model wrote it.
        settings: How the call is executed; None has no approver and no cache.
        timeout: Seconds for one attempt, instead of the tool's own; None uses the tool's.

    Raises:
        TypeError: The registry or the call has the wrong type.
        ValueError: The timeout is not above 0.
        Exception: An approver raised.
    """
    check_arguments({"registry": registry, "call": call}, _ACCEPTED)
    settings = settings or ExecutionSettings()
    if timeout is not None:
        settings = replace(settings, timeout=timeout)
    return (await execute_tool_calls(registry, [call], settings))[0]


async def execute_tool_calls(
    registry: ToolLookup,
    calls: Sequence[ToolCall],
    settings: ExecutionSettings | None = None,
    *,
    max_parallel: int = MAX_PARALLEL,
) -> list[ToolResult]:
    """Run the calls of one reply without a loop.

    Args:
        registry: The tools.
        calls: The calls as the model wrote them; all of their values may be invalid.
        settings: How calls are executed; None has no approver and no cache.
        max_parallel: The maximum number of tools that run at the same time.

    Returns:
        One result for each call, in call order. Mistakes of the model and failures of tools are
        results, not exceptions.

    Raises:
        ValueError: `max_parallel` is below 1, or the timeout of the settings is not above 0.
        Exception: An approver raised.
    """
    if max_parallel < 1:
        raise ValueError(f"max_parallel is {max_parallel}; it must be at least 1.")
    settings = ExecutionSettings() if settings is None else settings
    if settings.timeout is not None and not settings.timeout > 0:
        raise ValueError(
            f"timeout is {settings.timeout!r}; it must be above 0 seconds, or None for the tool's."
        )
    pending = [PendingCall(call, registry, settings) for call in calls]
    try:
        for call in pending:
            await call.prepare()
        for group in groups(pending):
            async with aclosing(run_group(group, max_parallel, settings.stopped)) as ended:
                async for call in ended:
                    if call.error is not None:
                        raise call.error
        return [await call.review() for call in pending]
    except BaseException:
        await cancel(pending)
        raise
