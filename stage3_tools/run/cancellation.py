"""Stop a run from outside: by its `abort` event, or because its time is over.

Both are the same thing as cancelling its task, done from here: what the run waits for is cancelled,
a request as well as the tools, and on the way out every call gets its result. Whoever cancels the
task itself is obeyed, and sees his CancelledError. Knows nothing of runs; used by the loop.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeVar

from stage3_tools.run.abort import Abort, RunStopped

T = TypeVar("T")

Stop = Literal["aborted", "timeout"]


async def unless_stopped(
    body: Awaitable[T], abort: Abort | asyncio.Event | None, seconds: float | None
) -> T | Stop:
    """What the body returns; or what stopped it: the abort was set, or the time is over.

    Raises:
        BaseException: Whatever the body raises.
    """
    try:
        async with asyncio.timeout(seconds) as clock, _watching(abort, clock):
            others = _cancellations()
            try:
                return await body
            finally:
                if clock.expired():
                    await _too_late(others)
    except RunStopped as stop:
        return stop.status
    except TimeoutError:
        if not clock.expired():
            raise  # the body's own
        return "aborted" if abort is not None and abort.is_set() else "timeout"


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


async def _too_late(others: int) -> None:
    """The body ended before it saw that it was stopped: whoever comes after it must not see that
    instead.
    """
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if _cancellations() > others + 1:
            raise  # somebody else wants this task to end


@asynccontextmanager
async def _watching(
    abort: Abort | asyncio.Event | None, clock: asyncio.Timeout
) -> AsyncIterator[None]:
    """Let the time be over as soon as the event is set."""
    if abort is None:
        yield
        return

    def ended(task: asyncio.Task[object]) -> None:
        if not task.cancelled():
            with suppress(RuntimeError):  # the time is over already
                clock.reschedule(asyncio.get_running_loop().time())

    async def wait() -> None:
        await abort.wait()

    watching = asyncio.create_task(wait())
    watching.add_done_callback(ended)
    try:
        yield
    finally:
        if watching.done() and not watching.cancelled():
            watching.result()  # raises where the event belongs to another event loop
        watching.cancel()
