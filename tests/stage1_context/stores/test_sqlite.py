"""SQLite only: the file, other processes, a full disk. See test_store.py for all stores."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import weakref
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stage0_gateway import Message
from stage1_context import (
    CallStartedRecord,
    ContextEngine,
    MessageRecord,
    SessionConflict,
    SessionExists,
    SessionNotFound,
    SqliteStore,
    StoreFailed,
)

ONE, TWO, THREE = (MessageRecord(Message.user(text)) for text in ("one", "two", "three"))

BEGINNING = """
import asyncio, resource, sys
from stage0_gateway import Message
from stage1_context.errors import StoreFailed
from stage1_context.journal import MessageRecord
from stage1_context.stores.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
user_record = lambda text: MessageRecord(Message.user(text))
"""


def program(code, *arguments, **options):
    """Start another process with a store on the given file."""
    command = [sys.executable, "-W", "error", "-c", BEGINNING + code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def finished(process):
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return output.split()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.sqlite"


@pytest.fixture
async def store(path):
    opened = SqliteStore(path, timeout=0.01)
    yield opened
    await opened.aclose()


async def failure(store):
    """Return the error message of a store that cannot be used."""
    with pytest.raises(StoreFailed) as caught:
        await store.create("s", ONE)
    return str(caught.value)


def test_the_repr_of_a_store_shows_its_file():
    assert repr(SqliteStore(Path("some") / "file.sqlite")) == "SqliteStore('some/file.sqlite')"


async def test_the_file_is_created_at_first_use(path, store):
    assert not path.exists()
    assert await store.sessions() == []
    assert path.exists()


async def test_written_records_are_read_by_the_next_store(path, store):
    await store.create("s", ONE)
    await store.aclose()
    assert [each.name for each in path.parent.iterdir()] == [path.name], (
        "the data is in a single file"
    )
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
# ---------------------------------------------------------------------------------------

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


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flips=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=5)
)
def test_any_damaged_byte_is_harmless_or_raises_store_failed(flips, sound, path):
    damaged, written = bytearray(sound), [offset for offset, byte in enumerate(sound) if byte]
    for number, byte in flips:
        damaged[written[number % len(written)]] = byte
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    path.write_bytes(damaged)
    asyncio.run(try_all(path))


@pytest.mark.parametrize("table", [b"INDEX record_by_kind", b"TABLE session"])
async def test_a_schema_of_invalid_utf8_raises_store_failed(table, sound, path, store):
    path.write_bytes(sound.replace(table, table[:6] + b"\xe9\xff\xfe" + table[9:]))
    text = await failure(store)
    assert text.startswith(f"The SQLite file {str(path)!r} could not be used: ")
    assert text.endswith(ADVICE)


# ---- files that cannot be used
# ---------------------------------------------------------------------------


async def test_a_missing_folder_raises_an_error_and_can_be_created_later(path):
    store = SqliteStore(path.parent / "later" / "s.sqlite")
    assert await failure(store) == (
        f"The SQLite file {store.path!r} cannot be created: its folder {str(path.parent / 'later')!r} is missing."
    )
    (path.parent / "later").mkdir()
    await store.create("s", ONE)
    await store.aclose()


async def test_a_folder_instead_of_a_file_raises_store_failed(tmp_path):
    store = SqliteStore(tmp_path)
    text = f"The SQLite file {str(tmp_path)!r} could not be used: unable to open database file."
    assert await failure(store) == text
    await store.aclose()


async def test_a_file_that_is_not_a_database_raises_store_failed(path, store):
    path.write_text("Dear diary, " * 1000)
    text = f"The SQLite file {str(path)!r} could not be used: file is not a database. {ADVICE}"
    assert await failure(store) == text


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
# -------------------------------------------------------------------------------------


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


async def test_concurrent_processes_lose_no_records_and_do_not_interleave_them(path, store):
    await store.create("s")
    writing = """
async def main():
    for n in range(100):
        await store.append("s", user_record(sys.argv[2]), user_record(str(n)))
asyncio.run(main())
"""
    names = ["a", "b", "c"]
    for each in [program(writing, path, name) for name in names]:
        assert finished(each) == []
    texts = [record.message.content for _, record in await store.read("s")]
    pairs = [*zip(texts[::2], texts[1::2], strict=True)]
    assert len(texts) == (await store.info("s")).records == 600
    for name in names:
        assert [number for writer, number in pairs if writer == name] == [
            str(n) for n in range(100)
        ]


async def test_acknowledged_records_survive_a_killed_process(path, store):
    writing = """
async def main():
    await store.create("s")
    while True:
        print(await store.append("s", user_record("one"), user_record("two")), flush=True)
asyncio.run(main())
"""
    with program(writing, path) as writer:
        seen = [writer.stdout.readline() for _ in range(50)]
        writer.kill()
        seen += writer.stdout.readlines()
        assert writer.stderr.read() == ""
    acknowledged = int([line for line in seen if line.endswith("\n")][-1])
    found = await store.read("s")
    assert found == [(index, (ONE, TWO)[index % 2]) for index in range(len(found))]
    assert len(found) - acknowledged in (0, 2)
    assert await store.append("s", THREE) == len(found) + 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
async def test_a_full_disk_raises_an_error_and_loses_no_acknowledged_record(path, store):
    writing = """
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
async def main():
    await store.create("s")
    try:
        while True:
            print(await store.append("s", user_record("one"), user_record("two" * 1000)))
    except StoreFailed as error:
        print(error.__cause__.sqlite_errorname)
    print(len(await store.read("s")))
    await store.aclose()
asyncio.run(main())
"""
    *acknowledged, why, readable = finished(program(writing, path))
    assert why in ("SQLITE_FULL", "SQLITE_IOERR_WRITE")
    assert len(acknowledged) > 10
    assert (
        int(acknowledged[-1])
        == int(readable)
        == (await store.info("s")).records
        == len(await store.read("s"))
    )
    assert await store.append("s", THREE) == int(readable) + 1


# ---- closing
# ------------------------------------------------------------------------------------------


async def test_a_store_that_is_not_closed_is_released_from_memory(path):
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    store = SqliteStore(path)
    await store.create("s", ONE)
    weakref.finalize(store, loop.call_soon_threadsafe, gone.set)
    del store
    # The thread releases its last job shortly after it has delivered the result.
    await gone.wait()


def test_a_program_that_does_not_close_its_store_ends_without_output(path):
    assert finished(program('asyncio.run(store.create("s", user_record("one")))', path)) == []
    assert [each.name for each in path.parent.iterdir()] == [path.name], (
        "the data is in a single file"
    )


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
        assert [type(each) for each in (*written, first, second)] == [int, int, *[StoreFailed] * 2]
    reader = SqliteStore(path)
    assert await reader.read("s") == [(index, (ONE, TWO)[index % 2]) for index in range(20)]
    await reader.aclose()
