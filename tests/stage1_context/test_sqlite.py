"""What is SQLite's own: the file, other processes, a disk that is full. See test_store.py for the rest."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from stage0_gateway import Message
from stage1_context.errors import SessionNotFound, StoreFailed
from stage1_context.journal import MessageRecord
from stage1_context.sqlite import SqliteStore

ONE, TWO, THREE = (MessageRecord(Message.user(text)) for text in ("one", "two", "three"))

BEGINNING = """
import asyncio, resource, sys
from stage0_gateway import Message
from stage1_context.errors import StoreFailed
from stage1_context.journal import MessageRecord
from stage1_context.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
said = lambda text: MessageRecord(Message.user(text))
"""


def program(code, *arguments, **options):
    """Another process, with a store on the file it is given."""
    command = [sys.executable, "-W", "error", "-c", BEGINNING + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def finished(process):
    said, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (0, "")
    return said.split()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.sqlite"


@pytest.fixture
async def store(path):
    opened = SqliteStore(path, patience=0.01)
    yield opened
    await opened.aclose()


async def failure(store):
    """What the store says when it cannot be used."""
    with pytest.raises(StoreFailed) as caught:
        await store.create("s", ONE)
    return str(caught.value)


def test_a_store_shows_its_file():
    assert repr(SqliteStore(Path("some") / "file.sqlite")) == "SqliteStore('some/file.sqlite')"


async def test_the_file_is_made_at_first_use_and_not_before(path, store):
    assert not path.exists()
    assert await store.sessions() == []
    assert path.exists()


async def test_what_was_written_is_there_for_the_next_store(path, store):
    await store.create("s", ONE)
    await store.aclose()
    assert [each.name for each in path.parent.iterdir()] == [path.name], "everything is in the one file"
    other = SqliteStore(str(path))
    assert await other.read("s") == [(0, ONE)]
    await other.aclose()


async def test_a_store_in_memory_is_gone_when_it_is_closed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store, other = SqliteStore(":memory:"), SqliteStore(":memory:")
    await store.create("s", ONE)
    assert await store.append("s", TWO) == 2
    assert await other.sessions() == []
    await store.aclose()
    with pytest.raises(SessionNotFound):
        await store.read("s")
    await asyncio.gather(store.aclose(), other.aclose())
    assert [*tmp_path.iterdir()] == []


# ---- files that cannot be used ---------------------------------------------------------------------------


async def test_a_missing_folder_is_said_and_may_be_made_later(path):
    store = SqliteStore(path.parent / "later" / "s.sqlite")
    assert await failure(store) == (
        f"The SQLite file {store.path!r} cannot be made: there is no folder {str(path.parent / 'later')!r}."
    )
    (path.parent / "later").mkdir()
    await store.create("s", ONE)
    await store.aclose()


async def test_a_folder_is_no_file(tmp_path):
    store = SqliteStore(tmp_path)
    text = f"The SQLite file {str(tmp_path)!r} could not be used: unable to open database file."
    assert await failure(store) == text
    await store.aclose()


async def test_a_file_that_is_no_database_is_said_to_be_none(path, store):
    path.write_text("Dear diary, " * 1000)
    assert await failure(store) == f"The SQLite file {str(path)!r} could not be used: file is not a database."


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere"
)
async def test_a_file_that_may_not_be_written_can_be_read(path, store):
    await store.create("s", ONE)
    await store.aclose()
    path.chmod(0o400)
    assert await store.read("s") == [(0, ONE)]
    with pytest.raises(StoreFailed, match="attempt to write a readonly database"):
        await store.append("s", TWO)
    assert await store.read("s") == [(0, ONE)]


# ---- other processes -------------------------------------------------------------------------------------


async def test_a_writer_does_not_wait_for_another_one_without_end(path, store):
    await store.create("s", ONE)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFailed) as caught:
        await store.append("s", TWO)
    assert str(caught.value) == f"The SQLite file {str(path)!r} could not be used: database is locked."
    assert await store.read("s") == [(0, ONE)], "who reads does not wait"
    other.execute("ROLLBACK")
    assert await store.append("s", THREE) == 2
    assert await store.read("s") == [(0, ONE), (1, THREE)]
    other.close()


async def test_processes_that_write_at_once_lose_nothing_and_never_mix(path, store):
    await store.create("s")
    writing = """
async def main():
    for n in range(100):
        await store.append("s", said(sys.argv[2]), said(str(n)))
asyncio.run(main())
"""
    names = ["a", "b", "c"]
    for each in [program(writing, path, name) for name in names]:
        assert finished(each) == []
    texts = [record.message.content for _, record in await store.read("s")]
    pairs = [*zip(texts[::2], texts[1::2], strict=True)]
    assert len(texts) == (await store.info("s")).records == 600
    for name in names:
        assert [number for writer, number in pairs if writer == name] == [str(n) for n in range(100)]


async def test_what_was_acknowledged_survives_a_process_that_is_killed(path, store):
    writing = """
async def main():
    await store.create("s")
    while True:
        print(await store.append("s", said("one"), said("two")), flush=True)
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
async def test_a_full_disk_is_said_and_costs_nothing_that_was_acknowledged(path, store):
    writing = """
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
async def main():
    await store.create("s")
    try:
        while True:
            print(await store.append("s", said("one"), said("two" * 1000)))
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


# ---- letting go ------------------------------------------------------------------------------------------


async def test_a_store_that_nobody_closes_is_not_kept_alive(path, collect):
    store = SqliteStore(path)
    await store.create("s", ONE)
    gone = weakref.ref(store)
    del store
    for _ in range(1000):  # the thread lets go of its last work a moment after it has handed over the answer
        collect()
        if gone() is None:
            break
    assert gone() is None


def test_a_program_that_closes_nothing_ends_quietly(path):
    assert finished(program('asyncio.run(store.create("s", said("one")))', path)) == []
    assert [each.name for each in path.parent.iterdir()] == [path.name], "everything is in the one file"


async def test_closing_while_others_write_loses_nothing(store):
    await store.create("s")
    for _ in range(20):
        writing = [store.append("s", ONE, TWO) for _ in range(4)]
        await asyncio.gather(*writing[:2], store.aclose(), *writing[2:], store.aclose())
    assert await store.read("s") == [(index, (ONE, TWO)[index % 2]) for index in range(160)]
