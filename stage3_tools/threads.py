"""Run a plain function in a thread of its own, and wait for it without stopping the event loop.

A thread for each call, and not a pool: a tool that hangs then costs one thread, not the place of the next
tool, and not the program's end, which does not wait for it. Knows nothing of tools; used by `tool.py`.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


async def run_in_thread(function: Callable[[Any], Any], argument: Any) -> Any:
    """What the function returns; context variables are those of the caller.

    A thread cannot be stopped from outside: whoever stops waiting leaves the function running.

    Raises:
        BaseException: Whatever the function raises; a StopIteration as RuntimeError.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = context.run(function, argument)
        except StopIteration as stop:  # a future refuses to carry it
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, done, value, error)

    threading.Thread(target=work, name=getattr(function, "__name__", "tool"), daemon=True).start()
    return await done


def _settle(done: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(error)
