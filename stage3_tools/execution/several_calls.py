"""Run several calls of one reply at the same time.

    prepare   a ─▶ b ─▶ c ─▶ d        look up, check and approve, one after the other
    run       a ┬ b                   at most `max_parallel` at the same time; c is exclusive, so
                c                     it waits for the calls before it, and those behind it wait
                d                     for c

A call starts when a slot is free. The recorder is notified directly before, so a call that waits
for a slot is never recorded as started. A failing call does not affect the others. This module does
not know the history or events: `run/recorder.py` appends starts and results. Used by the recorder
and by `execute_tool_calls`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import groupby

from stage0_gateway import Accepted, ToolCall, check_arguments
from stage3_tools.execution.invocation import cancel_again
from stage3_tools.execution.one_call import (
    RunningCall,
    approval_missing,
    prepare,
    review,
    run_cached,
    was_run,
)
from stage3_tools.execution.results import interrupted
from stage3_tools.execution.settings import ExecutionSettings, ReadyCall, ToolLookup
from stage3_tools.result import ToolResult

MAX_PARALLEL = 8
"""The default number of tools that run at the same time."""

_NOT_REVIEWED = "The tool was run, but the run was stopped before its result was approved."


@dataclass(eq=False, slots=True)
class PendingCall:
    """A call of a reply, and its state.

    Attributes:
        call: The call.
        ready: The checked call; None before `prepare`, and if it was rejected.
        result: The result, once the call has ended.
        reviewed: Whether the result is final: it was approved, or needs no approval.
        running: The attempts to run the tool; None before the first one.
        error: An exception that must end the run, such as KeyboardInterrupt.
        task: The task that runs the call; None if it runs alone.
    """

    call: ToolCall
    ready: ReadyCall | None = None
    result: ToolResult | None = None
    reviewed: bool = False
    running: RunningCall | None = None
    error: BaseException | None = None
    task: asyncio.Task[None] | None = None

    async def prepare(self, registry: ToolLookup, settings: ExecutionSettings) -> None:
        """Look up, check and approve the call, unless it has a result already."""
        if self.result is None:
            prepared = await prepare(registry, self.call, settings)
            if isinstance(prepared, ToolResult):
                self.result = prepared
            else:
                self.ready = prepared

    @property
    def is_waiting(self) -> bool:
        """Whether the call waits for approval."""
        return self.ready is not None and self.ready.waits

    def reject(self) -> None:
        """Reject a call that waits for approval, because there is no approver."""
        assert self.ready is not None
        self.result, self.ready = approval_missing(self.ready), None

    def skip(self) -> None:
        """End a call that has not started, because the run was stopped."""
        self.result, self.ready = interrupted(self.call, None), None

    async def run(self, settings: ExecutionSettings) -> None:
        """Run the tool. Everything but a cancellation is stored in `result` and `error`."""
        assert self.ready is not None
        self.running = running = RunningCall(self.ready, settings)
        try:
            if settings.cache is None:
                self.result = await running.run()
            else:
                self.result = await run_cached(settings.cache, running)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a KeyboardInterrupt in a task would end the event loop
            self.error = error
            self.result = interrupted(self.call, self.ready.tool)

    def run_in_task(self, settings: ExecutionSettings, ended: "asyncio.Queue[PendingCall]") -> None:
        """Run the tool in a task, and put the call into a queue when it has ended."""
        self.task = asyncio.create_task(self.run(settings))
        self.task.add_done_callback(lambda _: ended.put_nowait(self))

    async def review(self, settings: ExecutionSettings) -> ToolResult:
        """Let the second approver check the result of a call that has ended; return the result."""
        if self.result is None:
            assert self.ready is not None
            reason = f"{self.call.name} cancelled itself."
            self.result = interrupted(self.call, self.ready.tool, reason)
            self.result = replace(self.result, note=self.ready.note)
        elif settings.approve_result is not None and self.ready is not None and not self.reviewed:
            self.result = await review(settings.approve_result, self.ready, self.result, settings)
        self.reviewed = True
        return self.result

    def interrupt(self, settings: ExecutionSettings) -> ToolResult:
        """The result of a call that was cancelled, or whose result can no longer be reviewed."""
        tool = self.running.ready.tool if self.running and self.running.attempts else None
        result = self.result or interrupted(self.call, tool)
        if self.ready is None or self.reviewed:
            return result
        is_of_tool = self.result is not None and self.error is None and was_run(self.result)
        if settings.approve_result is not None and is_of_tool:
            result = interrupted(self.call, tool, _NOT_REVIEWED)
        return replace(result, note=self.ready.note)


def groups(pending: Iterable[PendingCall]) -> Iterator[list[PendingCall]]:
    """Calls that may run at the same time, in call order. An exclusive call is alone."""
    for is_exclusive, group in groupby(pending, _is_exclusive):
        if is_exclusive:
            yield from ([one] for one in group)
        else:
            yield [*group]


def _is_exclusive(one: PendingCall) -> bool:
    return one.ready is not None and one.ready.tool.exclusive


async def run_group(
    group: Sequence[PendingCall],
    settings: ExecutionSettings,
    max_parallel: int,
    on_start: Callable[[Sequence[PendingCall]], Awaitable[None]] | None = None,
) -> AsyncGenerator[PendingCall, None]:
    """Run prepared calls at the same time; yield each when it has ended.

    Calls start in order, as soon as slots are free. Ended calls are yielded first, so the caller
    can record them before others start. No call starts after the run was stopped.

    A caller that does not read to the end must close the generator and call `cancel`.

    Args:
        group: The calls. Those that are not ready have ended already.
        settings: How the calls are executed.
        max_parallel: The number of slots.
        on_start: Awaited with the calls that start now, directly before their first attempts. If it
            raises, they do not start.
    """
    ready, ended = deque[PendingCall](), asyncio.Queue[PendingCall]()
    for one in group:
        if one.ready is None:
            ended.put_nowait(one)
        else:
            ready.append(one)
    is_alone, running = len(ready) == 1, 0

    for _ in group:
        if ready and settings.stopped is not None and settings.stopped():
            for one in ready:
                one.skip()
                ended.put_nowait(one)
            ready.clear()
        if ended.empty():
            starting = [ready.popleft() for _ in range(min(len(ready), max_parallel - running))]
            if starting and on_start is not None:
                await on_start(starting)
            if starting and is_alone:  # it needs no task of its own
                await starting[0].run(settings)
                ended.put_nowait(starting[0])
                starting.clear()
            for one in starting:
                one.run_in_task(settings, ended)
            running += len(starting)
        one = await ended.get()
        running -= one.task is not None
        yield one


async def cancel(pending: Iterable[PendingCall]) -> None:
    """Cancel calls and wait until they have ended.

    Tools cannot delay that by more than the grace period. A cancellation of the caller is delivered
    at its next `await`.
    """
    tasks = [one.task for one in pending if one.task is not None]
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
    pending = [PendingCall(call) for call in calls]
    try:
        for one in pending:
            await one.prepare(registry, settings)
            if one.is_waiting:
                one.reject()
        for group in groups(pending):
            async with aclosing(run_group(group, settings, max_parallel)) as ended:
                async for one in ended:
                    if one.error is not None:
                        raise one.error
        return [await one.review(settings) for one in pending]
    except BaseException:
        await cancel(pending)
        raise
