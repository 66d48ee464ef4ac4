"""`SqliteStore`: journals in one SQLite file, for sessions that last on one machine.

The file is created at the first use, in write-ahead mode: readers never wait, and writers of
several processes take turns. SQLite blocks, so it runs in a thread of its own.

Covered: a killed process loses no acknowledged record · concurrent writers never mix their records
· a file with tables of another version is refused · damaged content raises StoreFailed.
Not covered: a power cut may lose the last moments, but the file stays valid · network file systems,
where SQLite's locks do not work · a store that is used on both sides of a fork.
"""

import asyncio
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from stage0_gateway import Accepted, check_arguments
from stage1_context.errors import ContextError, SessionExists, SessionNotFound, StoreFailed
from stage1_context.journal import Record, record_from_json, record_to_json
from stage1_context.store import (
    SessionInfo,
    check_expected,
    check_session_id,
    searchable_id,
    store_closed,
)
from stage1_context.stores.sqlite_file import open_file, transaction

T = TypeVar("T")

# Positions count from 0 without gaps, so the last position gives the number of records.
_LENGTH = "(SELECT coalesce(max(position) + 1, 0) FROM record WHERE session = key)"
_SESSIONS = f"SELECT id, {_LENGTH}, created, updated FROM session"


class SqliteStore:
    """Journals in a SQLite file.

    Args:
        path: The file; it is created at the first use. ":memory:" stores everything in memory until
            the store is closed.
        timeout: Seconds to wait for another process that writes.

    Raises:
        ValueError: The path is empty.
        StoreFailed: The file cannot be opened, read or written, is damaged, or belongs to another
            program or version. Methods raise it, from the first use.
    """

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        check_arguments(locals(), {"timeout": Accepted(int | float, "a number of seconds", 0)})
        self.path = os.fspath(path)
        if not self.path:
            raise ValueError("The path is empty. Use the path of a file, or ':memory:'.")
        self._timeout = timeout
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"SqliteStore({self.path!r})"

    async def create(self, session_id: str, *records: Record) -> None:
        """Create a journal."""
        check_session_id(session_id)
        rows = [(record.kind, record_to_json(record)) for record in records]

        def write(database: sqlite3.Connection) -> None:
            now = time.time()
            query = "INSERT INTO session (id, created, updated) VALUES (?, ?, ?)"
            try:
                made = database.execute(query, (session_id, now, now))
            except sqlite3.IntegrityError:
                raise SessionExists(session_id) from None
            _insert(database, made.lastrowid or 0, 0, rows)

        await self._in_thread(write, writes=True)

    async def append(self, session_id: str, *records: Record, expected: int | None = None) -> int:
        """Append records; return the number of records in the journal."""
        rows = [(record.kind, record_to_json(record)) for record in records]

        def write(database: sqlite3.Connection) -> int:
            key, length = _find(database, session_id)
            check_expected(session_id, expected, length)
            _insert(database, key, length, rows)
            database.execute("UPDATE session SET updated = ? WHERE key = ?", (time.time(), key))
            return length + len(rows)

        return await self._in_thread(write, writes=True)

    async def read(
        self,
        session_id: str,
        start: int = 0,
        end: int | None = None,
        *,
        kinds: Collection[str] | None = None,
    ) -> list[tuple[int, Record]]:
        """Return records with their indices."""
        # Without the hint SQLite would scan all messages to find a few other records.
        few = kinds is not None and "message" not in kinds
        records = "record INDEXED BY record_by_kind" if few else "record"
        query = f"SELECT position, body FROM {records} "
        query += "WHERE session = ? AND position >= ? AND position < ?"
        if kinds is not None:
            query += f" AND kind IN ({', '.join('?' * len(kinds))})"

        def fetch(database: sqlite3.Connection) -> list[tuple[int, Record]]:
            key, length = _find(database, session_id)
            # `start` and `end` may be larger than any number SQLite knows.
            limits = (min(start, length), length if end is None else min(end, length))
            found = database.execute(f"{query} ORDER BY position", (key, *limits, *(kinds or ())))
            return [(index, record_from_json(body)) for index, body in found]

        return await self._in_thread(fetch)

    async def info(self, session_id: str) -> SessionInfo:
        """Return the number of records and the times of a session."""

        def fetch(database: sqlite3.Connection) -> SessionInfo:
            key, _ = _find(database, session_id)
            return _info(*database.execute(f"{_SESSIONS} WHERE key = ?", (key,)).fetchone())

        return await self._in_thread(fetch)

    async def sessions(self) -> list[SessionInfo]:
        """Return all sessions, the last written one first."""
        query = f"{_SESSIONS} ORDER BY updated DESC, key DESC"
        return await self._in_thread(
            lambda database: [_info(*row) for row in database.execute(query)]
        )

    async def delete(self, session_id: str) -> None:
        """Delete a session."""

        def write(database: sqlite3.Connection) -> None:
            key, _ = _find(database, session_id)
            database.execute("DELETE FROM session WHERE key = ?", (key,))

        await self._in_thread(write, writes=True)

    async def aclose(self) -> None:
        """Close the file. Later uses raise StoreFailed."""
        self._is_closed = True
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection = None
            self._finalize()

    async def _in_thread(
        self, work: Callable[[sqlite3.Connection], T], *, writes: bool = False
    ) -> T:
        if self._is_closed:
            raise store_closed(self)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._do, work, writes)

    def _do(self, work: Callable[[sqlite3.Connection], T], writes: bool) -> T:
        try:
            if self._connection is None:
                self._connection = open_file(self.path, self._timeout)
                self._finalize = weakref.finalize(self, self._connection.close)  # without aclose()
            with transaction(self._connection, writes):
                return work(self._connection)
        except ContextError:
            raise
        # The content of a damaged file may have any type and value.
        except (sqlite3.Error, ValueError, TypeError, OverflowError, OSError) as error:
            raise StoreFailed(_failure(self.path, error)) from error


def _failure(path: str, error: Exception) -> str:
    """Return the text of a StoreFailed: the file, the reason, and the fix for a damaged file."""
    text = f"The SQLite file {path!r} could not be used: {str(error).rstrip('.')}."
    # An operational error with a code is not damage: the file is busy, read-only, or the disk full.
    if isinstance(error, sqlite3.OperationalError) and hasattr(error, "sqlite_errorcode"):
        return text
    return (
        f"{text} It may be damaged: restore a backup, or recover its content with the command "
        ".recover of the sqlite3 shell."
    )


def _find(database: sqlite3.Connection, session_id: str) -> tuple[int, int]:
    """Return the key of a session and the number of its records.

    Raises:
        SessionNotFound: There is no such session.
    """
    query = f"SELECT key, {_LENGTH} FROM session WHERE id = ?"
    found = database.execute(query, (searchable_id(session_id),)).fetchone()
    if found is None:
        newest = "SELECT id FROM session ORDER BY updated DESC, key DESC LIMIT 5"
        ids = [id for (id,) in database.execute(newest)]
        raise SessionNotFound(session_id, reversed(ids))
    return found[0], found[1]


def _info(session_id: str, length: int, created: float, updated: float) -> SessionInfo:
    times = (datetime.fromtimestamp(seconds, UTC) for seconds in (created, updated))
    return SessionInfo(session_id, length, *times)


def _insert(
    database: sqlite3.Connection, key: int, start: int, rows: Iterable[tuple[str, str]]
) -> None:
    database.executemany(
        "INSERT INTO record (session, position, kind, body) VALUES (?, ?, ?, ?)",
        ((key, position, kind, body) for position, (kind, body) in enumerate(rows, start)),
    )
