"""Run a plain function in a thread of its own, and wait for it without stopping the event loop.

As many threads as there are calls, and not a pool with places: a tool that hangs then costs one thread, not the
place of the next tool, and not the program's end, which does not wait for it. A thread that is done waits a
moment for the next function, because to start one costs more than most tools. Knows nothing of tools.
"""

import asyncio
import contextvars
import inspect
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


async def run_in_thread(
    function: Callable[..., Any], *arguments: Any, begin: Callable[[], None] | None = None
) -> Any:
    """Run a function in a thread and return its value; context variables are those of the caller.

    A function that has begun cannot be stopped: it continues after the caller was cancelled. One that has not begun
    by then is never called.

    Args:
        function: A plain function.
        *arguments: Its arguments.
        begin: Called in the thread immediately before the function. If it raises, the function is not called.

    Raises:
        BaseException: What the function or `begin` raises; a StopIteration as RuntimeError.
    """
    loop = asyncio.get_running_loop()
    call = partial(contextvars.copy_context().run, function, *arguments)
    job = _Job(call, begin, loop.create_future(), _outcomes.setdefault(loop, _Outcomes()))
    _a_worker().jobs.put(job)
    try:
        return await job.done
    except asyncio.CancelledError:
        job.withdraw()
        raise
    finally:
        del job  # or an exception, whose traceback knows this frame, would hold itself and the arguments


class _Job:
    """A function for a thread, which may be withdrawn until it begins."""

    def __init__(
        self,
        call: Callable[[], Any],
        begin: Callable[[], None] | None,
        done: "asyncio.Future[Any]",
        outcomes: "_Outcomes",
    ) -> None:
        self.call, self.done, self.outcomes = call, done, outcomes
        self._on_begin = begin
        self._beginning = threading.Lock()  # held while it is decided whether the function begins
        self._is_withdrawn = False

    def withdraw(self) -> None:
        """Prevent the function from beginning; has no effect if it has begun."""
        with self._beginning:
            self._is_withdrawn = True

    def begin(self) -> bool:
        """Whether the function is to be called now; then it can no longer be withdrawn."""
        with self._beginning:
            if self._is_withdrawn or self.done.cancelled():
                return False
            if self._on_begin is not None:
                self._on_begin()
            return True


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
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self.process = os.getpid()
        threading.Thread(target=self._work, name="tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                try:
                    _idle.remove(self)
                except ValueError:  # somebody has just taken it, and is about to give it a function
                    continue
                return
            self._run(job)
            del job  # what it returned should not be kept until the next one comes

    def _run(self, job: _Job) -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = job.call() if job.begin() else None
        except StopIteration as stop:  # a future refuses to carry it
            error = RuntimeError(f"StopIteration: {words_of(stop)}")
            error.__cause__ = stop
        except BaseException as raised:
            error = raised
        _idle.append(self)
        job.outcomes.put(job.done, value, error)
        del job, error  # whose traceback knows this frame


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
        if inspect.iscoroutine(value):
            value.close()  # nothing will await it
    elif error is None:
        done.set_result(value)
    else:
        done.set_exception(error)
