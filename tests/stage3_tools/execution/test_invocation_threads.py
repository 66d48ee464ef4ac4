import asyncio
import contextlib
import contextvars
import gc
import inspect
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from stage3_tools.execution.invocation import run_in_thread

name = contextvars.ContextVar("name", default="nobody")


class Value:
    """Something that can be watched going away."""


def fail_with(exception):
    raise exception


async def test_the_value_comes_back_and_the_context_goes_along():
    name.set("Ada")
    assert await run_in_thread(lambda number: (number + 1, name.get()), 1) == (2, "Ada")


@pytest.mark.parametrize(
    ("raised", "arrives"),
    [
        (ValueError("x"), ValueError),
        (StopAsyncIteration("x"), StopAsyncIteration),
        (SystemExit("x"), SystemExit),
        (GeneratorExit("x"), GeneratorExit),
        (asyncio.CancelledError("x"), asyncio.CancelledError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_what_is_raised_comes_back_and_the_thread_lives_on(raised, arrives):
    with pytest.raises(arrives, match="x"):
        await run_in_thread(fail_with, raised)
    assert await run_in_thread(lambda: "next") == "next"


async def test_a_context_variable_that_a_call_sets_is_not_seen_by_the_caller_or_the_next_call():
    await run_in_thread(name.set, "Eve")
    assert (name.get(), await run_in_thread(name.get)) == ("nobody", "nobody")


@pytest.mark.parametrize("fails", [False, True], ids=["returned", "raised"])
async def test_nothing_of_a_call_is_kept_when_it_is_over(fails):
    def give(value):
        if fails:
            raise ValueError(value)
        return value

    async def call():
        value = Value()
        with contextlib.suppress(ValueError):
            await run_in_thread(give, value)
        return weakref.ref(value)

    gc.disable()  # nothing may wait for it: an argument may have 100 MB
    try:
        kept = await call()
        for _ in range(5_000):
            if kept() is None:
                return
            await asyncio.sleep(
                0.001
            )  # the thread lets go of it a moment after it has given the value
        pytest.fail("it is kept")
    finally:
        gc.enable()


async def test_functions_that_hang_take_no_place_from_the_next():
    release = threading.Event()
    hanging = [
        asyncio.ensure_future(run_in_thread(lambda _: release.wait(10), None)) for _ in range(100)
    ]
    assert await run_in_thread(lambda _: "done", None) == "done"
    release.set()
    assert await asyncio.gather(*hanging) == [True] * 100


async def test_whoever_stops_waiting_is_not_told_the_value_later():
    release = threading.Event()
    waiting = asyncio.ensure_future(run_in_thread(lambda _: release.wait(10), None))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    assert await run_in_thread(lambda _: "next", None) == "next"


def test_a_program_ends_while_a_function_still_runs():
    release = threading.Event()

    async def give_up():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run_in_thread(lambda _: release.wait(10), None), 0.01)

    asyncio.run(give_up())
    assert not release.is_set()
    release.set()


PROGRAM = """
import asyncio, os, threading
from stage3_tools.execution.invocation import run_in_thread

async def main():
    await asyncio.gather(*(run_in_thread(int) for _ in range(20)))
    hanging = asyncio.ensure_future(run_in_thread(threading.Event().wait))
    await asyncio.sleep(0)

asyncio.run(main())
if os.fork() == 0:
    print(asyncio.run(asyncio.wait_for(run_in_thread(str, "child"), 20)), flush=True)
    os._exit(0)
os.wait()
print(asyncio.run(run_in_thread(str, "parent")), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_has_threads_of_its_own_and_a_program_ends_without_a_word():
    root = str(Path(__file__).parents[3])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "child\nparent\n", "")


async def test_what_ends_while_the_loop_is_busy_is_handed_out_to_everybody():
    ended = threading.Barrier(21)

    def work(number):
        ended.wait(5)
        return number

    waiting = [asyncio.ensure_future(run_in_thread(work, number)) for number in range(20)]
    await asyncio.sleep(0)
    ended.wait(5)  # the loop stands still meanwhile
    assert await asyncio.gather(*waiting) == [*range(20)]


def test_a_loop_that_is_gone_is_not_kept():
    async def main():
        await run_in_thread(len, ())
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(main())
    gc.collect()
    assert loop() is None


async def test_a_function_whose_caller_is_cancelled_before_it_begins_is_never_called():
    called, threads, paused, go_on = [], [], threading.Event(), threading.Event()

    def pause(frame, event, argument):
        if not go_on.is_set():
            threads.append(threading.current_thread())
            paused.set()
            go_on.wait(10)

    threading.setprofile(pause)  # a new thread calls it before it does anything
    try:
        waiting = asyncio.create_task(
            run_in_thread(called.append, 1, on_start=lambda: called.append("begin"))
        )
        await asyncio.sleep(0)
        paused.wait(10)
        waiting.cancel()
        await asyncio.wait({waiting})
    finally:
        threading.setprofile(None)
        go_on.set()
    threads[0].join(10)
    assert (called, waiting.cancelled()) == ([], True)


async def test_a_function_whose_caller_is_cancelled_while_it_begins_is_never_called():
    beginning, cancelled, called = threading.Event(), threading.Event(), []

    def begin():
        beginning.set()
        cancelled.wait(10)

    waiting = asyncio.create_task(run_in_thread(called.append, 1, on_start=begin))
    await asyncio.sleep(0)
    beginning.wait(10)
    waiting.cancel()
    await asyncio.wait({waiting})
    cancelled.set()
    for thread in threading.enumerate():
        if thread.name == "tool":
            thread.join(10)
    assert called == []


async def test_an_error_before_the_function_begins_is_raised_and_the_function_is_not_called():
    called = []
    with pytest.raises(ValueError, match="no"):
        await run_in_thread(called.append, 1, on_start=lambda: fail_with(ValueError("no")))
    assert called == []


async def test_the_coroutine_of_an_abandoned_call_is_closed():
    release, made = threading.Event(), []

    async def work():
        pass

    def give_coroutine():
        release.wait(10)
        made.append(work())
        return made[0]

    waiting = asyncio.create_task(run_in_thread(give_coroutine))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    release.set()
    for _ in range(5_000):
        if made and inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED:
            return
        await asyncio.sleep(0.001)
    pytest.fail("it is not closed")
