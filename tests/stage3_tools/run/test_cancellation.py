import asyncio
from contextlib import nullcontext, suppress

import pytest

from stage3_tools.run.cancellation import run_until_stopped
from tests.stage3_tools.clock import now, without_waiting
from tests.tables import for_each


async def forever():
    await asyncio.Event().wait()


async def test_a_finished_body_returns_its_value_and_leaves_no_task():
    assert await run_until_stopped(asyncio.sleep(0, "done"), [asyncio.Event()], 60) == "done"
    assert len(asyncio.all_tasks()) <= 2  # this task, and one that is being cancelled
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


async def test_the_event_aborts_the_body():
    abort = asyncio.Event()
    asyncio.get_running_loop().call_soon(abort.set)
    assert await run_until_stopped(forever(), [abort], None) == "aborted"


@without_waiting
async def test_the_time_limit_stops_the_body():
    assert await run_until_stopped(forever(), [asyncio.Event()], 60) == "timeout"
    assert await run_until_stopped(forever(), [], 60) == "timeout"
    assert now() == 120


async def test_an_event_that_is_already_set_aborts_the_body_at_its_first_await():
    abort, steps = asyncio.Event(), []
    abort.set()

    async def body():
        steps.append(1)
        await asyncio.sleep(0)
        await asyncio.sleep(60)
        steps.append(2)

    assert await run_until_stopped(body(), [abort], None) == "aborted"
    assert steps == [1]


async def test_the_cleanup_of_the_body_is_awaited():
    abort, steps = asyncio.Event(), []

    async def body():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    asyncio.get_running_loop().call_soon(abort.set)
    assert await run_until_stopped(body(), [abort], None) == "aborted"
    assert steps == ["cleaned up"]


@for_each("error", [ValueError, TimeoutError])
async def test_an_exception_of_the_body_propagates(error):
    async def body():
        raise error("own")

    with pytest.raises(error, match="own"):
        await run_until_stopped(body(), [asyncio.Event()], 60)


async def test_cancelling_the_task_raises_cancelled_error():
    task = asyncio.create_task(run_until_stopped(forever(), [asyncio.Event()], 60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@for_each("also_cancelled", [False, True])
async def test_a_body_that_ends_before_it_receives_the_time_limit_is_only_cancelled_by_others(
    also_cancelled,
):
    async def body():
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        task = asyncio.current_task()
        task.cancel()  # delivered at the next wait, as after a write that was not interrupted
        if not also_cancelled:
            task.uncancel()
        return "done"

    task = asyncio.create_task(run_until_stopped(body(), [], 0.001))
    with pytest.raises(asyncio.CancelledError) if also_cancelled else nullcontext():
        assert await task == "done"


def test_an_event_of_another_event_loop_raises_a_runtime_error():
    abort = asyncio.Event()

    async def main():
        return await run_until_stopped(forever(), [abort], 60)

    async def use_it_here():
        asyncio.get_running_loop().call_soon(abort.set)
        await abort.wait()
        abort.clear()

    asyncio.run(use_it_here())
    with pytest.raises(RuntimeError, match="different event loop"):
        asyncio.run(main())
