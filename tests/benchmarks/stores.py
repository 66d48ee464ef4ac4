"""Where the benchmarks keep sessions: in memory, in a SQLite file, in a PostgreSQL database of
their own.

Says how much of a place was used. Knows nothing of what is measured there.
"""

import asyncio
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stage1_context import MemoryStore, SessionStore, SqliteStore
from stage1_context.stores.postgres import PostgresStore


@dataclass(frozen=True, slots=True)
class Place:
    """Where sessions can be kept.

    Attributes:
        store: Makes a store there.
        size: How many bytes it takes on disk, while no store is open.
        commits: How many transactions were committed there; None where that is not counted.
        dsn: Where the database is; "" if it is none.
    """

    store: Callable[[], SessionStore]
    size: Callable[[], int] = lambda: 0
    commits: Callable[[], int] | None = None
    dsn: str = ""


@contextmanager
def places(folder: Path) -> Iterator[dict[str, Place]]:
    """All there are on this machine, by name; what is missing is printed."""
    path = folder / "sessions.sqlite"
    found = {
        "memory": Place(MemoryStore),
        # A store that is closed leaves no log beside its file.
        "SQLite": Place(
            lambda: SqliteStore(path), lambda: path.stat().st_size if path.exists() else 0
        ),
    }
    cluster = _cluster()
    driver = (
        None
        if importlib.util.find_spec("asyncpg")
        else "asyncpg is not installed: pip install asyncpg"
    )
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
    """A database; its figures are asked for outside of it, so that this does not count."""
    inside = (
        "SELECT FROM pg_stat_activity WHERE datname = 'bench' AND backend_type = 'client backend'"
    )

    def figure(query: str) -> int:
        while _ask(outside, inside):  # a connection tells what it did when it ends
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


def _cluster() -> Any:
    """The module that starts a server for the tests."""
    script = Path(__file__).parents[1] / "real" / "cluster.py"
    spec = importlib.util.spec_from_file_location("cluster", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
