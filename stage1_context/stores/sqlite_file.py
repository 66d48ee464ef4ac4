"""Open a SQLite file, create its tables, and run a transaction in it.

The module knows the tables but not the records. The file's header identifies the program and the
version of the tables (`application_id`, `user_version`). `sqlite` uses it.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stage0_gateway import private_opener
from stage1_context.errors import StoreFailed

VERSION = 2
"""The version of the tables. A file of another version is refused."""

_TABLES = (
    """CREATE TABLE session (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        created REAL NOT NULL,
        updated REAL NOT NULL
    )""",
    # Without a rowid, the records of one session are stored next to each other.
    """CREATE TABLE record (
        session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
        position INTEGER NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, position)
    ) WITHOUT ROWID""",
    "CREATE INDEX record_by_kind ON record (session, kind, position)",
    "CREATE INDEX session_by_update ON session (updated)",
)

_APPLICATION_ID = int.from_bytes(b"llms")


def open_file(path: str, timeout: float) -> sqlite3.Connection:
    """Open a file. Create it and its tables if they are missing.

    Args:
        path: The file.
        timeout: Seconds to wait for another process that writes.

    Raises:
        StoreFailed: The file belongs to another program or version, or its folder is missing.
        sqlite3.Error: The file cannot be opened.
    """
    if not (folder := Path(path).parent).is_dir():
        raise StoreFailed(
            f"The SQLite file {path!r} cannot be created: its folder {str(folder)!r} is missing."
        )
    if path != ":memory:":
        _create_private(path)
    # One thread at a time uses the connection, but not always the one that created it.
    database = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA foreign_keys = ON")
        with transaction(database, writes=False):
            has_tables = _has_tables(database, path)
        if not has_tables:
            _write_ahead(database, timeout)
            with transaction(database, writes=True):
                _create_tables(database, path)
        # A killed process loses nothing; a power cut may.
        database.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        database.close()
        raise
    return database


def _create_private(path: str) -> None:
    """Create a missing file for its owner only; SQLite gives its other files the same mode.

    An existing file is not opened, because closing it would end the locks of this process on it.
    """
    with suppress(OSError):  # it exists, or SQLite reports the problem
        open(os.path.realpath(path), "xb", opener=private_opener).close()


def _has_tables(database: sqlite3.Connection, path: str) -> bool:
    """Return whether the file has this program's tables; False for an empty file."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (owner,) = database.execute("PRAGMA application_id").fetchone()
    if owner != _APPLICATION_ID:
        if version or database.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise StoreFailed(
                f"The SQLite file {path!r} contains another program's tables. Choose another file."
            )
        return False
    if version != VERSION:
        raise StoreFailed(
            f"The SQLite file {path!r} has version {version}; this program knows version "
            f"{VERSION}. Use the program that wrote it, or another file."
        )
    return True


def _create_tables(database: sqlite3.Connection, path: str) -> None:
    if _has_tables(database, path):  # another process has created them meanwhile
        return
    for statement in _TABLES:
        database.execute(statement)
    database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    database.execute(f"PRAGMA user_version = {VERSION}")


def _write_ahead(database: sqlite3.Connection, timeout: float) -> None:
    """Switch to write-ahead mode. SQLite itself does not wait for another process here."""
    until = time.monotonic() + timeout
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.005)
        else:
            return


@contextmanager
def transaction(database: sqlite3.Connection, writes: bool) -> Iterator[None]:
    """Run a transaction, which is rolled back after an exception."""
    database.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
