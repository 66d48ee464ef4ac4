"""Stop a run from outside: by its abort event, or by its time limit.

Both cancel whatever the run waits for, a request as well as tools, and every call gets its result
on the way out. If the task itself is cancelled, CancelledError is raised. Used by the loop and the
runner.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from stage3_tools.abort import Abort, RunStopped, Stop

T = TypeVar("T")


async def run_until_stopped(
    body: Awaitable[T], aborts: Sequence[Abort | asyncio.Event], seconds: float | None
) -> T | Stop:
    """Await the body; cancel it when an abort event is set or the time is over.

    Returns:
        The value of the body, or the reason why it was stopped.

    Raises:
        BaseException: The body raised.
    """
    try:
        async with asyncio.timeout(seconds) as timeout, _watch(aborts, timeout):
            cancellations = _cancellations()
            try:
                return await body
            finally:
                if timeout.expired():
                    await _consume_late_cancellation(cancellations)
    except RunStopped as stop:
        return stop.status
    except TimeoutError:
        if not timeout.expired():
            raise  # raised by the body
        return "aborted" if any(abort.is_set() for abort in aborts) else "timeout"


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


async def _consume_late_cancellation(before: int) -> None:
    """Receive the cancellation of the timeout here, if the body ended without receiving it."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if _cancellations() > before + 1:
            raise  # the task was cancelled as well


@asynccontextmanager
async def _watch(
    aborts: Sequence[Abort | asyncio.Event], clock: asyncio.Timeout
) -> AsyncIterator[None]:
    """Let the timeout expire as soon as an abort event is set."""

    def expire(task: asyncio.Task[object]) -> None:
        if not task.cancelled():
            with suppress(RuntimeError):  # it has expired already
                clock.reschedule(asyncio.get_running_loop().time())

    watchers: list[asyncio.Task[object]] = []
    for abort in aborts:
        watchers.append(asyncio.create_task(abort.wait()))
        watchers[-1].add_done_callback(expire)
    try:
        yield
    finally:
        for watcher in watchers:
            if watcher.done() and not watcher.cancelled():
                watcher.result()  # raises if the event belongs to another event loop
            watcher.cancel()
