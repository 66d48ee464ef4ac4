"""Session stores for the benchmarks: memory, a SQLite file, a separate PostgreSQL database.

It reports the disk space and the transactions of a store, and is independent of what is measured.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stage1_context import MemoryStore, PostgresStore, SessionStore, SqliteStore
from tests.real import cluster


@dataclass(frozen=True, slots=True)
class Place:
    """A location where sessions can be stored.

    Attributes:
        store: Creates a store there.
        size: Returns its size in bytes on disk, while no store is open.
        commits: Returns its number of committed transactions; None if they are not counted.
        dsn: The URL of the database; "" for other stores.
    """

    store: Callable[[], SessionStore]
    size: Callable[[], int] = lambda: 0
    commits: Callable[[], int] | None = None
    dsn: str = ""


@contextmanager
def places(folder: Path) -> Iterator[dict[str, Place]]:
    """Return the stores that are available on this machine, by name; print the missing ones."""
    path = folder / "sessions.sqlite"
    found = {
        "memory": Place(MemoryStore),
        # A closed store leaves no log beside its file.
        "SQLite": Place(
            lambda: SqliteStore(path), lambda: path.stat().st_size if path.exists() else 0
        ),
    }
    driver = None if find_spec("asyncpg") else "asyncpg is not installed: pip install asyncpg"
    if missing := driver or cluster.missing():
        print(f"Without PostgreSQL: {missing}.")
        yield found
        return
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]
    with cluster.cluster() as server:
        _ask(server.dsn(), "CREATE DATABASE bench")
        yield found | {"PostgreSQL": _database(server.dsn(), server.dsn("bench"))}


def _database(outside: str, dsn: str) -> Place:
    """Return a database; its figures are queried over another one, so that the queries do not count."""
    inside = (
        "SELECT FROM pg_stat_activity WHERE datname = 'bench' AND backend_type = 'client backend'"
    )

    def figure(query: str) -> int:
        while _ask(outside, inside):  # a connection reports its statistics when it ends
            time.sleep(0.01)
        return int(_ask(outside, query)[0][0])

    return Place(
        lambda: PostgresStore(dsn),
        lambda: figure("SELECT pg_database_size('bench')"),
        lambda: figure("SELECT xact_commit FROM pg_stat_database WHERE datname = 'bench'"),
        dsn,
    )


def _ask(dsn: str, query: str) -> list[Any]:
    async def rows() -> list[Any]:
        import asyncpg

        connection = await asyncpg.connect(dsn)
        try:
            return list(await connection.fetch(query))
        finally:
            await connection.close()

    return asyncio.run(rows())
