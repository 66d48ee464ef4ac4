"""Run an async function under a time limit that holds even if the function ignores cancellation.

The function runs in a task of its own:

    in time             its value or exception is passed on
    too late            it is cancelled and has `GRACE` seconds to end; whatever it does then, the
    time was over caller cancelled    it is cancelled and has `GRACE` seconds to end; a value or
    exception of its own is passed on,
                        and otherwise the caller's CancelledError

A task that is still running after the grace period is abandoned: nothing waits for it, and its
outcome is dropped. A cancellation of the caller during the grace period ends the grace period.
Knows nothing of tools; used by `tool`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from stage3_tools.execution.error_kinds import words_of

GRACE = 1.0
"""Seconds that a cancelled function has to end before it is abandoned."""

_stopped: set[asyncio.Task[Any]] = set()
"""Cancelled tasks that have not ended. The event loop itself keeps only weak references to its
tasks."""


class DeadlineExceeded(Exception):
    """The function did not end in time.

    Attributes:
        is_abandoned: Whether it ignored its cancellation and is still running.
    """

    def __init__(self, *, is_abandoned: bool) -> None:
        super().__init__()
        self.is_abandoned = is_abandoned


class SelfCancelled(Exception):
    """The function raised CancelledError, although nothing had cancelled it."""


async def run_with_deadline(
    function: Callable[[], Awaitable[Any]], seconds: float, on_stop: Callable[[], None]
) -> Any:
    """Await a function for a limited time and return its value.

    Args:
        function: What to await.
        seconds: The time limit.
        on_stop: Called before the function is cancelled.

    Raises:
        DeadlineExceeded: The time was over.
        SelfCancelled: The function cancelled itself.
        BaseException: What the function raises; a GeneratorExit as RuntimeError.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    task = loop.create_task(_outcome(function, waiter))
    timer = loop.call_later(seconds, _wake, waiter)
    try:
        await waiter
    except asyncio.CancelledError:
        if not task.done():
            on_stop()
            await _stop(task)
        if not task.done() or task.cancelled():
            raise
        _cancel_again()  # the function returned a result in spite of its cancellation
    finally:
        timer.cancel()
    if not task.done():
        on_stop()
        await _stop(task)
        raise DeadlineExceeded(is_abandoned=not task.done())
    if task.cancelled():
        raise SelfCancelled
    value, error = task.result()
    if error is None:
        return value
    try:
        raise error
    finally:
        del (
            task,
            error,
        )  # a traceback that refers to itself would keep everything alive that its frames know


async def _outcome(
    function: Callable[[], Awaitable[Any]], waiter: asyncio.Future[None]
) -> tuple[Any, BaseException | None]:
    """Return what the function returned or raised: an unread exception of a task would be
    logged.
    """
    try:
        if waiter.cancelled():
            raise asyncio.CancelledError  # the caller was cancelled before the function began
        return await function(), None
    except asyncio.CancelledError:
        raise
    except GeneratorExit as error:
        return None, _as_runtime_error(error)
    except (
        BaseException
    ) as error:  # out of a task, SystemExit and KeyboardInterrupt would end the event loop
        return None, error
    finally:
        _wake(
            waiter
        )  # a done callback of the task would come one iteration of the event loop later


def _as_runtime_error(error: GeneratorExit) -> RuntimeError:
    """Replace an exception that would mean further up that the caller's own coroutine is being
    closed.
    """
    replacement = RuntimeError(f"GeneratorExit: {words_of(error)}".removesuffix(": "))
    replacement.__cause__ = error
    return replacement


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def _stop(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended, but no longer than the grace period."""
    _stopped.add(task)
    task.add_done_callback(_stopped.discard)
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)


def _cancel_again() -> None:
    """Deliver a caught cancellation once more, at the caller's next `await`."""
    if (task := asyncio.current_task()) is not None:
        task.cancel()
        task.uncancel()  # it was counted when it was requested
