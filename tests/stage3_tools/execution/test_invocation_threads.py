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
from tests.tables import for_each

name = contextvars.ContextVar("name", default="unset")


class Value:
    """An object that supports weak references."""


def join_tool_threads():
    """Wait until the threads have ended. They refer to the call until shortly after its value."""
    for thread in threading.enumerate():
        if thread.name == "tool":
            thread.join(10)


def fail_with(exception):
    raise exception


async def test_the_thread_sees_the_context_variables_and_returns_the_value():
    name.set("Ada")
    assert await run_in_thread(lambda number: (number + 1, name.get()), 1) == (2, "Ada")


@for_each(
    "raised, arrives",
    [
        (ValueError("x"), ValueError),
        (StopAsyncIteration("x"), StopAsyncIteration),
        (SystemExit("x"), SystemExit),
        (GeneratorExit("x"), GeneratorExit),
        (asyncio.CancelledError("x"), asyncio.CancelledError),
    ],
)
async def test_an_exception_propagates_and_the_next_call_still_works(raised, arrives):
    with pytest.raises(arrives, match="x"):
        await run_in_thread(fail_with, raised)
    assert await run_in_thread(lambda: "next") == "next"


async def test_a_context_variable_set_in_a_thread_does_not_affect_the_caller_or_later_calls():
    await run_in_thread(name.set, "Eve")
    assert (name.get(), await run_in_thread(name.get)) == ("unset", "unset")


@for_each("fails", [False, True])
async def test_objects_of_a_finished_call_are_released(fails):
    def give(value):
        if fails:
            raise ValueError(value)
        return value

    async def call():
        value = Value()
        with contextlib.suppress(ValueError):
            await run_in_thread(give, value)
        return weakref.ref(value)

    gc.disable()  # release must not depend on the collector: an argument may have 100 MB
    try:
        reference = await call()
        join_tool_threads()
        await asyncio.sleep(0)  # the callback that continues this test refers to the outcome
        assert reference() is None
    finally:
        gc.enable()


async def test_blocked_functions_do_not_delay_the_next_call():
    release = threading.Event()
    hanging = [
        asyncio.ensure_future(run_in_thread(lambda _: release.wait(30), None)) for _ in range(100)
    ]
    assert await run_in_thread(lambda _: "done", None) == "done"
    release.set()
    assert await asyncio.gather(*hanging) == [True] * 100


async def test_a_cancelled_caller_does_not_receive_the_late_value():
    release = threading.Event()
    waiting = asyncio.ensure_future(run_in_thread(lambda _: release.wait(30), None))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    assert await run_in_thread(lambda _: "next", None) == "next"


def test_a_program_can_end_while_a_function_still_runs():
    release = threading.Event()

    async def give_up():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run_in_thread(lambda _: release.wait(30), None), 0.01)

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
def test_a_forked_process_has_its_own_threads_and_programs_end_without_warnings():
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


async def test_results_that_arrive_while_the_loop_is_blocked_are_all_delivered():
    ended = threading.Barrier(21)

    def work(number):
        ended.wait(30)
        return number

    waiting = [asyncio.ensure_future(run_in_thread(work, number)) for number in range(20)]
    await asyncio.sleep(0)
    ended.wait(30)  # this blocks the event loop
    assert await asyncio.gather(*waiting) == [*range(20)]


def test_a_closed_event_loop_is_not_referenced():
    async def main():
        await run_in_thread(len, ())
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(main())
    join_tool_threads()
    gc.collect()
    assert loop() is None


async def test_a_function_whose_caller_is_cancelled_before_it_begins_is_not_called():
    called, threads, paused, proceed = [], [], threading.Event(), threading.Event()

    def pause(frame, event, argument):
        if not proceed.is_set():
            threads.append(threading.current_thread())
            paused.set()
            proceed.wait(30)

    threading.setprofile(pause)  # called by a new thread before it runs any code
    try:
        waiting = asyncio.create_task(
            run_in_thread(called.append, 1, on_start=lambda: called.append("begin"))
        )
        await asyncio.sleep(0)
        paused.wait(30)
        waiting.cancel()
        await asyncio.wait({waiting})
    finally:
        threading.setprofile(None)
        proceed.set()
    threads[0].join(10)
    assert (called, waiting.cancelled()) == ([], True)


async def test_a_function_whose_caller_is_cancelled_while_it_begins_is_not_called():
    beginning, cancelled, called = threading.Event(), threading.Event(), []

    def begin():
        beginning.set()
        cancelled.wait(30)

    waiting = asyncio.create_task(run_in_thread(called.append, 1, on_start=begin))
    await asyncio.sleep(0)
    beginning.wait(30)
    waiting.cancel()
    await asyncio.wait({waiting})
    cancelled.set()
    join_tool_threads()
    assert called == []


async def test_an_exception_of_on_start_propagates_and_the_function_is_not_called():
    called = []
    with pytest.raises(ValueError, match="no"):
        await run_in_thread(called.append, 1, on_start=lambda: fail_with(ValueError("no")))
    assert called == []


async def test_the_coroutine_of_an_abandoned_call_is_closed():
    release, made = threading.Event(), []

    async def work():
        pass

    def give_coroutine():
        release.wait(30)
        made.append(work())
        return made[0]

    waiting = asyncio.create_task(run_in_thread(give_coroutine))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    release.set()
    join_tool_threads()
    await asyncio.sleep(0)  # the event loop receives the coroutine
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED
