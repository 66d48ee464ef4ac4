"""What a conversation needs of asyncio: locks that survive their event loop, writes that a cancellation does not cut.

Knows nothing of messages; used by `transcript` and `claims`.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(writing: Coroutine[Any, Any, T]) -> T:
    """Finish what was begun: a write goes on in its thread or server, whether somebody waits for it or not."""
    task, cancelled = asyncio.ensure_future(writing), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and (me := asyncio.current_task()):
        me.cancel()
        me.uncancel()  # it was counted already when it was asked for
    return task.result()


class Locks:
    """Of one event loop: one for whoever runs a turn, one for whoever reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.turn = asyncio.Lock()
        self.reading = asyncio.Lock()
