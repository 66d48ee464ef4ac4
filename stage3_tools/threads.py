"""Run a plain function in a thread of its own, and wait for it without stopping the event loop.

As many threads as there are calls, and not a pool with places: a tool that hangs then costs one thread, not the
place of the next tool, and not the program's end, which does not wait for it. A thread that is done waits a
moment for the next function, because to start one costs more than most tools. Knows nothing of tools.
"""

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

_IDLE_SECONDS = 2.0

_idle: deque["_Worker"] = deque()
"""Threads that have nothing to do, the one that was busy last at the end."""


async def run_in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns; context variables are those of the caller.

    A thread cannot be stopped from outside: whoever stops waiting leaves the function running.

    Raises:
        BaseException: Whatever the function raises; a StopIteration as RuntimeError.
    """
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    call = partial(contextvars.copy_context().run, function, *arguments)
    _a_worker().jobs.put((call, done))
    try:
        return await done
    finally:
        del done  # or an exception, whose traceback knows this frame, would hold itself and the arguments


def _a_worker() -> "_Worker":
    while True:
        try:
            worker = _idle.pop()
        except IndexError:
            return _Worker()
        if worker.process == os.getpid():  # a forked process has the list, but not the threads
            return worker


class _Worker:
    """A thread that runs one function after the other, and ends when nobody has had one for a while."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]]] = SimpleQueue()
        self.process = os.getpid()
        threading.Thread(target=self._work, name="tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                call, done = self.jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                try:
                    _idle.remove(self)
                except ValueError:  # somebody has just taken it, and is about to give it a function
                    continue
                return
            self._run(call, done)
            del call, done  # what it returned should not be kept until the next one comes

    def _run(self, call: Callable[[], Any], done: "asyncio.Future[Any]") -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = call()
        except StopIteration as stop:  # a future refuses to carry it
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:
            error = raised
        _idle.append(self)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            done.get_loop().call_soon_threadsafe(_settle, done, value, error)
        del done, error  # whose traceback knows this frame


def _settle(done: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(error)
