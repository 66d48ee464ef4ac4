import asyncio
import contextvars
import threading

import pytest

from stage3_tools.threads import run_in_thread

name = contextvars.ContextVar("name", default="nobody")


async def test_the_value_comes_back_and_the_context_goes_along():
    name.set("Ada")
    assert await run_in_thread(lambda number: (number + 1, name.get()), 1) == (2, "Ada")


@pytest.mark.parametrize(
    ("raised", "arrives"),
    [(ValueError("x"), ValueError), (StopIteration("x"), RuntimeError)],
    ids=["any", "stop"],
)
async def test_what_is_raised_comes_back(raised, arrives):
    def fail(argument):
        raise raised

    with pytest.raises(arrives, match="x"):
        await run_in_thread(fail, None)


async def test_functions_that_hang_take_no_place_from_the_next():
    release = threading.Event()
    hanging = [asyncio.ensure_future(run_in_thread(lambda _: release.wait(10), None)) for _ in range(100)]
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
