"""An event loop whose clock jumps to the next timer, so that tests of time limits do not wait.

    @without_waiting
    async def test_a_long_sleep_ends():
        await asyncio.sleep(3600)
        assert now() == 3600

`time.perf_counter` advances with this clock, because the time limit of a run uses it. A thread needs
real time, so `jump_after` names an event that the thread sets.
"""

import asyncio
import functools
import inspect
import selectors
import threading
import time

import pytest

from tests.stage3_tools.tasks import run_and_check_tasks

SLOWEST = 30  # seconds that a thread may need to set its event


class _Selector(selectors.DefaultSelector):
    """A selector that advances its clock instead of waiting."""

    def __init__(self):
        super().__init__()
        self.now, self.events = 0.0, []

    def select(self, timeout=None):
        ready = super().select(0 if timeout else timeout)
        if timeout and not ready:
            for event in self.events:
                assert event.wait(SLOWEST)
            self.now += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self):
        self.selector = _Selector()
        super().__init__(self.selector)

    def time(self):
        return self.selector.now


def now():
    """Return the seconds since the test began."""
    return round(asyncio.get_running_loop().time(), 6)


def jump_after(event: threading.Event):
    """Do not advance the clock before a thread has set this event."""
    asyncio.get_running_loop().selector.events.append(event)


def without_waiting(test):
    """Run an async test in an event loop whose clock jumps to the next timer."""

    @functools.wraps(test)
    def run(*args, **fixtures):
        loop, real = _Loop(), time.perf_counter
        with pytest.MonkeyPatch.context() as changes:
            changes.setattr(time, "perf_counter", lambda: real() + loop.time())
            run_and_check_tasks(test(*args, **fixtures), lambda: loop)

    del run.__wrapped__  # pytest calls this function, not the coroutine function in it
    run.__signature__ = inspect.signature(test)
    return run
