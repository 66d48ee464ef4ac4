"""SQLite only: the file, other processes, a full disk. See test_store.py for all stores."""

import asyncio
import os
import sqlite3
import weakref
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage1_context import (
    CallStartedRecord,
    ContextEngine,
    SessionConflict,
    SessionExists,
    SessionNotFound,
    SqliteStore,
    StoreFailed,
)
from tests.programs import Program, run_program
from tests.stage1_context.sessions import ONE, THREE, TWO, failure_of
from tests.stage1_context.stores.writer import user_record

WRITER = Path(__file__).with_name("writer.py")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.sqlite"


@pytest.fixture
async def store(path):
    opened = SqliteStore(path, timeout=0.01)
    yield opened
    await opened.aclose()


def test_the_repr_of_a_store_shows_its_file():
    assert repr(SqliteStore(Path("some") / "file.sqlite")) == "SqliteStore('some/file.sqlite')"


async def test_the_file_is_created_at_first_use_and_read_by_the_next_store(path, store):
    assert not path.exists()
    await store.create("s", ONE)
    await store.aclose()
    assert [*path.parent.iterdir()] == [path], "the data is in a single file"
    other = SqliteStore(str(path))
    assert await other.read("s") == [(0, ONE)]
    await other.aclose()


async def test_each_store_in_memory_is_separate_and_writes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store, other = SqliteStore(":memory:"), SqliteStore(":memory:")
    await store.create("s", ONE)
    assert await store.append("s", TWO) == 2
    assert await other.sessions() == []
    await asyncio.gather(store.aclose(), other.aclose())
    assert [*tmp_path.iterdir()] == []


# ---- damaged files

ADVICE = "It may be damaged: restore a backup, or recover its content with the command .recover of the sqlite3 shell."
CHANGES = {
    "a truncated record": (
        "UPDATE record SET body = substr(body, 1, 9)",
        "A journal record must be JSON text",
    ),
    "a number as a record": (
        "UPDATE record SET body = CAST(5 AS BLOB)",
        "A journal record is a JSON object",
    ),
    "a record of invalid UTF-8": (
        r"UPDATE record SET body = CAST(x'ff' AS TEXT)",
        "Could not decode to UTF-8",
    ),
    "a record of an unknown kind": (
        """UPDATE record SET body = '{"kind": "dream"}'""",
        "Unknown journal record",
    ),
    "a time out of range": ("UPDATE session SET updated = 1e300", "out of range"),
    "a text as a time": ("UPDATE session SET updated = 'noon'", "str"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
async def test_damaged_content_raises_store_failed_with_advice(change, reason, path, store):
    await store.create("s", ONE, TWO)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(change)
    with pytest.raises(StoreFailed) as caught:
        await asyncio.gather(store.read("s"), store.info("s"))
    assert str(caught.value).startswith(f"The SQLite file {str(path)!r} could not be used: ")
    assert reason in str(caught.value)
    assert str(caught.value).endswith(ADVICE)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a file with two sessions."""
    path = tmp_path_factory.mktemp("sound") / "sessions.sqlite"

    async def fill():
        store = SqliteStore(path)
        for session_id in ("s", "t"):
            await store.create(session_id, ONE, CallStartedRecord("c", "f"), TWO)
        await store.aclose()

    asyncio.run(fill())
    return path.read_bytes()


OPERATIONS = [
    lambda store: store.sessions(),
    lambda store: store.info("s"),
    lambda store: store.read("s"),
    lambda store: store.read("s", kinds=["call_started"]),
    lambda store: ContextEngine(store=store).messages_for_request("s"),
    lambda store: store.append("s", THREE),
    lambda store: store.append("s", THREE, expected=3),
    lambda store: store.create("new", ONE),
    lambda store: store.delete("t"),
]


async def try_all(path):
    store = SqliteStore(path, timeout=0.01)
    try:
        for operation in OPERATIONS:
            with suppress(StoreFailed, SessionNotFound, SessionConflict, SessionExists):
                await operation(store)
    finally:
        await store.aclose()


@pytest.mark.parametrize("examples", [20, pytest.param(200, marks=pytest.mark.long)])
def test_any_damaged_byte_is_harmless_or_raises_store_failed(examples, sound, path):
    written = [offset for offset, byte in enumerate(sound) if byte]
    changes = st.tuples(st.sampled_from(written), st.integers(0, 255))

    @settings(max_examples=examples)
    @given(st.lists(changes, min_size=1, max_size=5))
    def check(changes):
        damaged = bytearray(sound)
        for offset, byte in changes:
            damaged[offset] = byte
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        path.write_bytes(damaged)
        asyncio.run(try_all(path))

    check()


@pytest.mark.parametrize("table", [b"INDEX record_by_kind", b"TABLE session"])
async def test_a_schema_of_invalid_utf8_raises_store_failed(table, sound, path, store):
    path.write_bytes(sound.replace(table, table[:6] + b"\xe9\xff\xfe" + table[9:]))
    text = str(await failure_of(store))
    assert text.startswith(f"The SQLite file {str(path)!r} could not be used: ")
    assert text.endswith(ADVICE)


# ---- files that cannot be used


async def test_a_missing_folder_raises_an_error_and_can_be_created_later(path):
    folder = path.parent / "later"
    store = SqliteStore(folder / "s.sqlite")
    with pytest.raises(StoreFailed) as caught:
        await store.create("s", ONE)
    assert str(caught.value) == (
        f"The SQLite file {store.path!r} cannot be created: its folder {str(folder)!r} is missing."
    )
    assert not folder.exists()
    folder.mkdir()
    await store.create("s", ONE)
    await store.aclose()


async def test_a_folder_instead_of_a_file_raises_store_failed(tmp_path):
    text = f"The SQLite file {str(tmp_path)!r} could not be used: unable to open database file."
    assert str(await failure_of(SqliteStore(tmp_path))) == text


async def test_a_file_that_is_not_a_database_raises_store_failed_and_is_not_changed(path, store):
    content = "Dear diary, " * 1000
    path.write_text(content)
    text = f"The SQLite file {str(path)!r} could not be used: file is not a database. {ADVICE}"
    assert str(await failure_of(store)) == text
    assert {file: file.read_text() for file in path.parent.iterdir()} == {path: content}


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere"
)
async def test_a_read_only_file_can_be_read(path, store):
    await store.create("s", ONE)
    await store.aclose()
    path.chmod(0o400)
    assert await store.read("s") == [(0, ONE)]
    with pytest.raises(StoreFailed, match="attempt to write a readonly database"):
        await store.append("s", TWO)
    assert await store.read("s") == [(0, ONE)]


# ---- other processes


async def test_a_writer_waits_for_another_one_only_until_its_timeout(path, store):
    await store.create("s", ONE)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFailed) as caught:
        await store.append("s", TWO)
    assert (
        str(caught.value) == f"The SQLite file {str(path)!r} could not be used: database is locked."
    )
    assert await store.read("s") == [(0, ONE)], "a reader does not wait"
    other.execute("ROLLBACK")
    assert await store.append("s", THREE) == 2
    assert await store.read("s") == [(0, ONE), (1, THREE)]
    other.close()


async def test_two_processes_write_whole_appends_and_a_killed_one_loses_no_acknowledged_record(
    path, tmp_path
):
    store, pipe, errors = SqliteStore(path, timeout=60), tmp_path / "pipe", tmp_path / "errors"
    await store.create("s")
    os.mkfifo(pipe)
    other = Program([WRITER, "append_forever", path], stdout=pipe, stderr=errors, warnings="error")
    with pipe.open() as output:
        lengths = [output.readline()]  # from now on, both processes write
        for number in range(50):
            await store.append("s", user_record("this"), user_record(str(number)))
        lengths += [output.readline() for _ in range(10)]
        other.kill()
        lengths += output.readlines()
    assert errors.read_text() == ""
    texts = [record.message.text for _, record in await store.read("s")]
    pairs = [*zip(texts[::2], texts[1::2], strict=True)]
    others = [pair for pair in pairs if pair[0] == "other"]
    assert [pair for pair in pairs if pair[0] != "other"] == [("this", str(n)) for n in range(50)]
    assert others == [("other", str(n)) for n in range(len(others))]
    assert [pairs[int(length) // 2 - 1] for length in lengths] == others[: len(lengths)]
    assert len(others) - len(lengths) in (0, 1)
    assert await store.append("s", THREE) == len(texts) + 1
    await store.aclose()


async def test_a_full_disk_raises_an_error_and_loses_no_acknowledged_record(path, store):
    done = run_program([WRITER, "fill_the_disk", path], warnings="error")
    assert (done.returncode, done.stderr) == (0, "")
    *acknowledged, error, readable = done.stdout.split()
    assert error in ("SQLITE_FULL", "SQLITE_IOERR_WRITE")
    assert acknowledged == [str(length) for length in range(2, int(readable) + 1, 2)]
    assert len(acknowledged) > 10
    assert len(await store.read("s")) == (await store.info("s")).records == int(readable)
    assert await store.append("s", THREE) == int(readable) + 1


# ---- closing


async def test_a_store_that_is_not_closed_is_released_from_memory(path):
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    store = SqliteStore(path)
    await store.create("s", ONE)
    weakref.finalize(store, loop.call_soon_threadsafe, gone.set)
    del store
    # The thread releases its last job shortly after it has delivered the result.
    await gone.wait()


def test_a_program_that_does_not_close_its_store_ends_without_output(path):
    done = run_program([WRITER, "end_without_closing", path], warnings="error")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [*path.parent.iterdir()] == [path], "the data is in a single file"


async def test_a_write_before_the_store_is_closed_is_stored_and_a_later_one_raises(tmp_path):
    path = tmp_path / "a.db"
    for _ in range(5):
        store = SqliteStore(path)
        writing = [store.append("s", ONE, TWO) for _ in range(4)]
        with suppress(SessionExists):
            await store.create("s")
        *written, _, first, second, _ = await asyncio.gather(
            *writing[:2], store.aclose(), *writing[2:], store.aclose(), return_exceptions=True
        )
        results = (*written, first, second)
        assert [type(result) for result in results] == [int, int, *[StoreFailed] * 2]
    reader = SqliteStore(path)
    assert await reader.read("s") == [(index, (ONE, TWO)[index % 2]) for index in range(20)]
    await reader.aclose()
