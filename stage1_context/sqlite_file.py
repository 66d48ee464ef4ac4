"""Opening a SQLite file and bringing it up to date; a transaction in it. Used by `SqliteStore` only.

Knows the tables, and nothing of records. Whose a file is, and its
version, stand in its own header (`application_id`, `user_version`).
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stage1_context.errors import StoreFailed

MIGRATIONS: Sequence[tuple[str, ...]] = (
    (
        """CREATE TABLE session (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            records INTEGER NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL
        )""",
        # Without a rowid the records of a session lie side by side, whoever wrote in between.
        """CREATE TABLE record (
            session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
            position INTEGER NOT NULL,
            kind TEXT NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (session, position)
        ) WITHOUT ROWID""",
        "CREATE INDEX record_by_kind ON record (session, kind, position)",
        "CREATE INDEX session_by_update ON session (updated)",
    ),
)
"""How a file of version n becomes one of version n + 1. A published step is never edited, only followed."""

_OURS = int.from_bytes(b"llms")  # how a file says whose it is


def open_file(
    path: str, patience: float, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> sqlite3.Connection:
    """Open a file, making it where there is none, and bring its tables up to date.

    Raises:
        StoreFailed: A newer version wrote it, it is somebody else's database, or its folder is missing.
        sqlite3.Error: It cannot be opened.
    """
    if not (folder := Path(path).parent).is_dir():
        raise StoreFailed(f"The SQLite file {path!r} cannot be made: there is no folder {str(folder)!r}.")
    # The connection is used by one thread at a time, not always by the one that made it.
    database = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA foreign_keys = ON")
        with transaction(database, writes=False):
            missing = _missing(database, path, migrations)
        if missing:
            _write_ahead(database, patience)
            with transaction(database, writes=True):
                _migrate(database, _missing(database, path, migrations), len(migrations))
        database.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; a power cut may
    except BaseException:
        database.close()
        raise
    return database


def _write_ahead(database: sqlite3.Connection, patience: float) -> None:
    """Change to write-ahead mode. SQLite does not wait here, if another process is making the same file."""
    until = time.monotonic() + patience
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
    """Everything inside happens or nothing does; one that writes waits for its turn first."""
    database.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _missing(
    database: sqlite3.Connection, path: str, migrations: Sequence[Sequence[str]]
) -> Sequence[Sequence[str]]:
    """The steps that a file has not taken yet."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (owner,) = database.execute("PRAGMA application_id").fetchone()
    if owner != _OURS and (version or database.execute("SELECT 1 FROM sqlite_schema").fetchone()):
        raise StoreFailed(f"The SQLite file {path!r} holds somebody else's tables. Choose another file.")
    if version > len(migrations):
        raise StoreFailed(
            f"The SQLite file {path!r} has version {version}; this program knows versions up to "
            f"{len(migrations)}. Use the newer program that wrote it, or another file."
        )
    return migrations[version:]


def _migrate(database: sqlite3.Connection, steps: Sequence[Sequence[str]], version: int) -> None:
    for step in steps:
        for statement in step:
            database.execute(statement)
    database.execute(f"PRAGMA application_id = {_OURS}")
    database.execute(f"PRAGMA user_version = {version}")
