"""`Abort`: stop a run from a callback, a tool, another task or another thread.

Setting it prevents every further request and tool call of the runs that received it. The loop
checks it before each request and call, and `run/cancellation.py` waits for it. Used through the
options of the loop, the runner and the chain, which also accept an `asyncio.Event`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import RLock
from typing import Literal


class Abort:
    """An event that stops every run that received it. It cannot be reset.

    `set` may be called from any thread.

    Attributes:
        reason: The reason of the first `set`; None if it gave none.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._is_set = False
        self._waiting: dict[object, Callable[[], object]] = {}
        self._lock = RLock()  # a signal handler may interrupt the thread that holds it

    def set(self, reason: str | None = None) -> None:
        """Stop the runs.

        Args:
            reason: Shown in `status_reason`; the first reason counts.
        """
        with self._lock:
            if self._is_set:
                return
            self._is_set, self.reason = True, reason
            waiting = [*self._waiting.values()]
        for wake in waiting:
            wake()

    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._is_set

    async def wait(self) -> None:
        """Return as soon as `set` was called, in any thread."""
        loop, woken, key = asyncio.get_running_loop(), asyncio.Event(), object()

        def wake() -> None:
            with suppress(RuntimeError):  # the event loop was closed
                loop.call_soon_threadsafe(woken.set)

        with self._lock:
            if self._is_set:
                return
            self._waiting[key] = wake
        try:
            await woken.wait()
        finally:
            with self._lock:
                del self._waiting[key]

    def __repr__(self) -> str:
        return f"Abort(is_set={self._is_set}, reason={self.reason!r})"


Stop = Literal["aborted", "timeout", "limit"]
"""Why a run was stopped, as the status of its result."""


class RunStopped(Exception):
    """A run was aborted, or it may use no more time, tokens or money. The loop returns the status.

    Args:
        status: The status of the run.
    """

    def __init__(self, status: Stop) -> None:
        super().__init__(f"The run was stopped: {status}.")
        self.status = status
