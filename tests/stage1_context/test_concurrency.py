import asyncio

import pytest

from stage1_context import MemoryStore, SqliteStore
from stage1_context.concurrency import Locks, uninterrupted

STORE = SqliteStore("never opened.db")


async def written(steps, go):
    await go.wait()
    steps.append("written")
    return "value"


async def test_a_write_returns_its_value():
    steps, go = [], asyncio.Event()
    go.set()
    assert await uninterrupted(STORE, lambda: written(steps, go)) == "value"


async def test_a_cancellation_is_delivered_after_the_write():
    steps, go = [], asyncio.Event()

    async def work():
        steps.append(await uninterrupted(STORE, lambda: written(steps, go)))
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


async def test_an_error_of_the_write_is_raised():
    async def failing():
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await uninterrupted(STORE, failing)


@pytest.mark.parametrize("times", [1, 3])
async def test_a_write_whose_own_task_is_cancelled_runs_again(times):
    steps, go = [], asyncio.Event()
    before = asyncio.all_tasks()
    work = asyncio.create_task(uninterrupted(STORE, lambda: written(steps, go)))
    for _ in range(times):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - before - {work}:
            task.cancel()
    await asyncio.sleep(0)
    go.set()
    assert (await work, steps) == ("value", ["written"])


async def test_a_write_that_raises_a_cancellation_by_itself_is_not_repeated():
    tries = []

    async def closed():
        tries.append(1)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await uninterrupted(STORE, closed)
    assert tries == [1]


async def test_memory_is_written_without_a_task():
    async def tasks():
        return asyncio.all_tasks()

    assert await uninterrupted(MemoryStore(), tasks) == asyncio.all_tasks()


def test_locks_belong_to_one_event_loop():
    async def make():
        return Locks(asyncio.get_running_loop())

    first, second = asyncio.run(make()), asyncio.run(make())
    assert first.loop is not second.loop
    assert first.turn is not first.reading
