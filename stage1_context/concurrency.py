"""Locks that survive their event loop, and writes that cancellation does not interrupt.

Used by `claims` and `transcript`. Knows nothing of messages.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stage1_context.store import MemoryStore, SessionStore

T = TypeVar("T")


async def uninterrupted(
    store: SessionStore, write: Callable[[], Coroutine[Any, Any, T]], *, repeat: bool = True
) -> T:
    """Run a write to its end, even if the caller is cancelled meanwhile.

    The write runs in a task of its own. A cancellation of the caller is delivered at its next wait,
    after the write, so the caller can rely on what is returned or raised here.

    `asyncio.run` cancels every task when it ends, the write's own included. Whether the store has
    then written something is unknown, so the write runs again in a new task.

    Args:
        store: Where it writes. A `MemoryStore` writes without waiting, so it needs no task.
        write: The write. When it is called again, it must add only what the cancelled call has not
            added.
        repeat: False raises CancelledError instead of calling `write` again.
    """
    if type(store) is MemoryStore:
        return await write()
    cancelled = False
    while True:
        task = asyncio.ensure_future(write())
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                cancelled = True
        interrupted = (
            task.cancelled() and task.cancelling()
        )  # it may also raise a CancelledError of its own
        if not (interrupted and repeat):
            break
    if cancelled and (caller := asyncio.current_task()):
        caller.cancel()
        caller.uncancel()  # this cancellation was counted when it was requested
    return task.result()


class Locks:
    """The locks of one event loop: one for the run of a turn, one for reading."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.turn = asyncio.Lock()
        self.reading = asyncio.Lock()
