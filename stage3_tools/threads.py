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
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary

from stage3_tools.kinds import words_of

_IDLE_SECONDS = 2.0

_idle: deque["_Worker"] = deque()
"""Threads that have nothing to do, the one that was busy last at the end."""


async def run_in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns; context variables are those of the caller.

    A thread cannot be stopped from outside: whoever stops waiting leaves the function running.

    Raises:
        BaseException: Whatever the function raises; a StopIteration as RuntimeError.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    call = partial(contextvars.copy_context().run, function, *arguments)
    _a_worker().jobs.put((call, done, _outcomes.setdefault(loop, _Outcomes())))
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
        self.jobs: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any], _Outcomes]] = SimpleQueue()
        self.process = os.getpid()
        threading.Thread(target=self._work, name="tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                call, done, outcomes = self.jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                try:
                    _idle.remove(self)
                except ValueError:  # somebody has just taken it, and is about to give it a function
                    continue
                return
            self._run(call, done, outcomes)
            del call, done, outcomes  # what it returned should not be kept until the next one comes

    def _run(self, call: Callable[[], Any], done: "asyncio.Future[Any]", outcomes: "_Outcomes") -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = call()
        except StopIteration as stop:  # a future refuses to carry it
            error = RuntimeError(f"StopIteration: {words_of(stop)}")
            error.__cause__ = stop
        except BaseException as raised:
            error = raised
        _idle.append(self)
        outcomes.put(done, value, error)
        del done, error  # whose traceback knows this frame


class _Outcomes:
    """What the threads have for one event loop, which they wake once for all of it.

    To wake it is a system call, at which a thread loses its turn: a hundred that end together would go round and
    round among themselves.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._woken = False

    def put(self, done: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
        """A function has ended; said from its thread."""
        self._waiting.append((done, value, error))
        if self._woken:
            return
        self._woken = True
        try:
            done.get_loop().call_soon_threadsafe(self._hand_out)
        except RuntimeError:  # the loop is closed: nobody waits any more
            self._waiting.clear()

    def _hand_out(self) -> None:
        self._woken = False  # first of all: what comes from here on wakes the loop again
        while self._waiting:
            _settle(*self._waiting.popleft())


_outcomes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Outcomes] = WeakKeyDictionary()


def _settle(done: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(error)
