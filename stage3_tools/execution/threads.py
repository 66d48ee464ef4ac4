"""Run a plain function in a daemon thread without blocking the event loop.

Each call has a thread of its own, and there is no pool: a function that hangs delays neither other
calls nor the end of the program. Knows nothing of tools; used by `tool`.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from stage3_tools.execution.error_kinds import words_of


async def run_in_thread(
    function: Callable[..., Any], *arguments: Any, begin: Callable[[], None] | None = None
) -> Any:
    """Run a function in a thread and return its value; context variables are those of the caller.

    If the caller is cancelled, a function that has not begun is never called. One that has begun
    continues, and its outcome is dropped.

    Args:
        function: A plain function.
        *arguments: Its arguments.
        begin: Called in the thread immediately before the function. If it raises, the function is
            not called.

    Raises:
        BaseException: What the function or `begin` raises; a StopIteration as RuntimeError.
    """
    call = _ThreadCall(partial(contextvars.copy_context().run, function, *arguments), begin)
    threading.Thread(target=call.run, name="tool", daemon=True).start()
    try:
        return await call.outcome
    except asyncio.CancelledError:
        call.withdraw()
        raise
    finally:
        del (
            call
        )  # the traceback of its exception refers to this frame, which must not refer back to it


class _ThreadCall:
    """A call of a function in a thread, which can be withdrawn until it begins."""

    def __init__(self, function: Callable[[], Any], begin: Callable[[], None] | None) -> None:
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._function, self._begin = function, begin
        self._is_withdrawn = False
        self._beginning = threading.Lock()  # so that the call is either withdrawn or begun

    def withdraw(self) -> None:
        """Prevent the function from beginning; has no effect if it has begun."""
        with self._beginning:
            self._is_withdrawn = True

    def run(self) -> None:
        """Call the function and hand its outcome to the event loop."""
        value: Any = None
        error: BaseException | None = None
        try:
            with self._beginning:
                if self._is_withdrawn:
                    return
                if self._begin is not None:
                    self._begin()
            value = self._function()
        except StopIteration as stop:  # a future does not accept it
            error = RuntimeError(f"StopIteration: {words_of(stop)}")
            error.__cause__ = stop
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the event loop is closed
            self.outcome.get_loop().call_soon_threadsafe(_settle, self.outcome, value, error)
        del self, error  # the traceback refers to this frame, which must not refer back to it


def _settle(outcome: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if outcome.done():
        if inspect.iscoroutine(value):
            value.close()  # it will never be awaited
    elif error is None:
        outcome.set_result(value)
    else:
        outcome.set_exception(error)
