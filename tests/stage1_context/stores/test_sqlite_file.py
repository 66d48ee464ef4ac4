"""Opening a SQLite file: created, recognized, or rejected without changes."""

import os
import sqlite3
import stat
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stage1_context.errors import StoreFailed
from stage1_context.stores.sqlite_file import VERSION, open_file, transaction


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "sessions.sqlite")


@contextmanager
def opened(path):
    with closing(open_file(path, 5.0)) as database:
        yield database


def version(path):
    with opened(path) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def run_sql(path, *statements):
    """Run statements as another program does."""
    database = sqlite3.connect(path, isolation_level=None)
    found = [database.execute(statement).fetchall() for statement in statements]
    database.close()
    return found


def open_error(path):
    with pytest.raises(StoreFailed) as caught:
        open_file(path, 0.0)
    return str(caught.value)


def test_a_missing_file_is_created_with_its_tables_and_settings(path):
    with opened(path) as database:
        found = database.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1"
        ).fetchall()
        assert found == [("record",), ("session",)]
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert version(path) == VERSION


def test_an_empty_file_gets_the_tables(path):
    open(path, "w").close()
    assert version(path) == VERSION


@pytest.mark.parametrize("other", [VERSION + 1, VERSION - 1])
def test_a_file_of_another_version_is_rejected_and_not_changed(path, other):
    with opened(path) as database:
        database.execute("INSERT INTO session (id, created, updated) VALUES ('s', 2.5, 3.5)")
        database.execute(f"PRAGMA user_version = {other}")
    assert open_error(path) == (
        f"The SQLite file {path!r} has version {other}; this program knows version {VERSION}. "
        "Use the program that wrote it, or another file."
    )
    assert run_sql(path, "PRAGMA user_version", "SELECT * FROM session") == [
        [(other,)],
        [(1, "s", 2.5, 3.5)],
    ]


FOREIGN = {
    "tables": ("CREATE TABLE mine (x)", "INSERT INTO mine VALUES ('precious')"),
    "tables with the same names": ("CREATE TABLE session (x)",),
    "a version": (f"PRAGMA user_version = {VERSION}",),
    "tables and a version": ("CREATE TABLE mine (x)", f"PRAGMA user_version = {VERSION}"),
    "tables and a newer version": ("CREATE TABLE mine (x)", f"PRAGMA user_version = {VERSION + 1}"),
}


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_another_program_is_rejected_and_not_changed(tmp_path, path, statements):
    run_sql(path, *statements)
    before = (tmp_path / "sessions.sqlite").read_bytes()
    assert (
        open_error(path)
        == f"The SQLite file {path!r} contains another program's tables. Choose another file."
    )
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "sessions.sqlite": before
    }
    assert run_sql(path, "PRAGMA journal_mode") == [[("delete",)]]


def test_concurrent_threads_create_a_new_file_once(path):
    thread_count, failed = 16, []
    together = threading.Barrier(thread_count)

    def use():
        together.wait()
        try:
            with opened(path) as database, transaction(database, writes=True):
                database.execute(
                    "INSERT INTO session (id, created, updated) VALUES (random(), 0, 0)"
                )
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=use) for _ in range(thread_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert run_sql(path, "SELECT count(*) FROM session") == [[(thread_count,)]]


def test_a_failed_transaction_is_rolled_back(path):
    class Stopped(BaseException):
        pass

    def fail(database):
        with transaction(database, writes=True):
            database.execute("INSERT INTO session (id, created, updated) VALUES ('s', 0, 0)")
            raise Stopped

    with opened(path) as database:
        with pytest.raises(Stopped):
            fail(database)
        assert not database.in_transaction
        assert database.execute("SELECT * FROM session").fetchall() == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs the modes of Unix")
def test_only_the_owner_may_read_new_files(path):
    before = os.umask(0o022)
    try:
        with opened(path) as database:
            with transaction(database, writes=True):
                database.execute("INSERT INTO session (id, created, updated) VALUES ('a', 0, 0)")
            files = [Path(path + suffix) for suffix in ("", "-wal", "-shm")]
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        os.chmod(path, 0o640)
        with opened(path):
            assert stat.S_IMODE(Path(path).stat().st_mode) == 0o640
    finally:
        os.umask(before)
