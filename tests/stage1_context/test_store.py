"""The stores of this stage make the promises of `SessionStore`, and their errors state the fix."""

import asyncio
import pickle

import pytest

from llm_stages.testing import StoreContract
from llm_stages.testing.stores import INVALID_IDS, ONE, TWO
from stage1_context import (
    MemoryStore,
    PostgresStore,
    SessionConflict,
    SessionExists,
    SessionNotFound,
    SqliteStore,
    StoreFailed,
)
from stage1_context.store import run_shielded
from tests.tables import for_each


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def open_store(self):
        shared = MemoryStore()
        return lambda: shared


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda: SqliteStore(tmp_path / "sessions.sqlite")


@pytest.mark.real
class TestPostgresStore(StoreContract):
    @pytest.fixture
    def open_store(self, dsn):
        return lambda: PostgresStore(dsn, connections=4)


# ---- errors


async def test_an_id_that_one_kind_of_store_cannot_hold_is_rejected_by_all_stores(store):
    for id in INVALID_IDS.values():
        with pytest.raises(
            ValueError,
            match="A session id is non-empty text that UTF-8 can encode, without NUL, not",
        ):
            await store.create(id, ONE)
        for ask in (store.read(id), store.append(id, ONE), store.info(id), store.delete(id)):
            with pytest.raises(SessionNotFound):
                await ask


async def test_an_existing_session_id_raises_an_error_with_the_fix(store):
    await store.create("s", ONE)
    with pytest.raises(
        SessionExists,
        match=r"^The session 's' exists already\. Choose another id, or continue it with "
        r"create_session\('s', exist_ok=True\)\.$",
    ):
        await store.create("s", TWO)


async def test_an_unknown_session_raises_an_error_that_lists_the_most_recent_sessions(store):
    for created, names in (
        ("", "none yet"),
        ("ba", "'b', 'a'"),
        ("fedc", "'a', 'f', 'e', 'd', 'c'"),
    ):
        for id in created:
            await store.create(id)
        text = f"Unknown session 'x'. Sessions: {names}. Create one with create_session()."
        for use in (store.read("x"), store.append("x", ONE), store.info("x"), store.delete("x")):
            with pytest.raises(SessionNotFound) as caught:
                await use
            assert str(caught.value) == text


async def test_an_append_to_another_length_than_expected_raises_an_error_with_both_lengths(store):
    await store.create("s", ONE, TWO)
    with pytest.raises(
        SessionConflict,
        match=r"^The session 's' has 2 records, not 7: another writer appended to it",
    ):
        await store.append("s", expected=7)


async def test_every_use_of_a_closed_store_raises_an_error_with_the_fix(store):
    await store.aclose()
    with pytest.raises(StoreFailed, match=r"was closed, by aclose\(\) or at the end of"):
        await store.read("s")


@for_each("error", [SessionNotFound("x", ["a", "b"]), SessionExists("s")])
def test_an_error_about_a_session_keeps_its_text_and_its_id_when_it_is_pickled(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.session_id) == (str(error), error.session_id)


# ---- stores that are not closed


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.real)], indirect=True
)
def test_a_store_that_is_not_closed_causes_no_warnings(open_store, collect):
    async def use():
        await open_store().create("s", ONE)
        collect()
        found = await open_store().read("s")
        collect()
        return found

    assert asyncio.run(use()) == [(0, ONE)]
    collect()


# ---- memory store only


async def test_a_memory_store_copies_its_initial_records():
    given = [ONE]
    store = MemoryStore({"s": given})
    given.append(TWO)
    assert await store.read("s") == [(0, ONE)]


# ---- writes that cancellation does not interrupt


async def written(steps, go):
    await go.wait()
    steps.append("written")
    return "value"


async def test_a_cancellation_is_delivered_after_a_shielded_write():
    steps, go = [], asyncio.Event()

    async def work():
        steps.append(await run_shielded(lambda _: written(steps, go)))
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


async def test_an_error_of_a_shielded_write_is_raised():
    async def failing(_):
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await run_shielded(failing)


@for_each("times", [1, 3])
async def test_a_shielded_write_whose_own_task_is_cancelled_runs_again(times):
    steps, go = [], asyncio.Event()
    before = asyncio.all_tasks()
    repeated = []

    def write(is_repeated):
        repeated.append(is_repeated)
        return written(steps, go)

    work = asyncio.create_task(run_shielded(write))
    for _ in range(times):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - before - {work}:
            task.cancel()
    await asyncio.sleep(0)
    go.set()
    assert (await work, steps) == ("value", ["written"])
    assert (repeated[0], set(repeated[1:])) == (False, {True})


async def test_a_shielded_write_that_raises_a_cancellation_itself_is_not_repeated():
    tries = []

    async def closed(_):
        tries.append(1)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run_shielded(closed)
    assert tries == [1]
