"""`Notifier`: call listeners, plain or async, in the order of their events.

Where nothing can be awaited, such as inside of a tool's progress report, an async listener runs in
a task of its own. The next call waits for that task, so no listener overtakes another one. Used by
`RunState`, the runner and the chain.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Listener = Callable[..., Any]
"""A plain or async function; its return value is not used."""


async def call_listener(listener: Listener | None, *arguments: Any) -> None:
    """Call a listener, if there is one, and await what it returns."""
    if listener is not None:
        returned = listener(*arguments)
        if inspect.isawaitable(returned):
            await returned


@dataclass(eq=False)
class Notifier:
    """Calls the listeners of one run.

    Attributes:
        error: What a listener raised where nothing may fail; the next `call` raises it.
    """

    error: Exception | None = None
    _unfinished: asyncio.Task[None] | None = None

    async def call(self, listener: Listener | None, *arguments: Any) -> None:
        """Call a listener after all earlier calls have ended.

        Raises:
            Exception: This listener, or an earlier one called by `call_soon`, raised.
        """
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            await unfinished
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        await call_listener(listener, *arguments)

    def call_soon(self, listener: Listener, *arguments: Any) -> None:
        """Call a listener where nothing can be awaited; the next `call` raises its exception."""
        try:
            returned = listener(*arguments)
        except Exception as error:
            self.error = error
            return
        if inspect.isawaitable(returned):
            self._unfinished = asyncio.create_task(_in_order(self._unfinished, returned))


async def _in_order(before: asyncio.Task[None] | None, awaitable: Awaitable[Any]) -> None:
    try:
        if before is not None:
            await before
    finally:
        await awaitable
