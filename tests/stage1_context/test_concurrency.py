import asyncio

import pytest

from stage1_context.concurrency import Locks, to_its_end


async def written(steps, go):
    await go.wait()
    steps.append("written")
    return "value"


async def test_what_was_begun_is_finished_and_its_value_comes_back():
    steps, go = [], asyncio.Event()
    go.set()
    assert await to_its_end(written(steps, go)) == "value"


async def test_a_cancellation_comes_when_it_is_written_however_often_it_is_asked_for():
    steps, go = [], asyncio.Event()

    async def work():
        steps.append(await to_its_end(written(steps, go)))
        await asyncio.sleep(0)
        steps.append("never")

    task = asyncio.create_task(work())
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert steps == []
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["written", "value"]


async def test_what_fails_is_raised():
    async def failing():
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await to_its_end(failing())


def test_locks_belong_to_one_event_loop():
    async def make():
        return Locks(asyncio.get_running_loop())

    first, second = asyncio.run(make()), asyncio.run(make())
    assert first.loop is not second.loop
    assert first.turn is not first.reading
