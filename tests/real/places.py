"""Where the tests of this folder keep sessions, and the process that writes there for them.

Each place is a text that `writer.py` understands as well: the path of a SQLite file, or where a
PostgreSQL database is. Loaded by test_kill and test_writers.
"""

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from stage1_context import SessionStore, SqliteStore
from stage1_context.stores.postgres import PostgresStore

HERE = Path(__file__).parent


@contextmanager
def fresh_places(kind: str, folder: Path) -> Iterator[Callable[[], Awaitable[str]]]:
    """Yields what gives a place that nobody has written to."""
    numbers = count()
    if kind == "sqlite":

        async def fresh_file() -> str:
            return str(folder / f"{next(numbers)}.sqlite")

        yield fresh_file
        return
    asyncpg = pytest.importorskip(
        "asyncpg", reason="asyncpg is not installed: pip install 'llm-stages[postgres]'"
    )
    clusters = load("cluster")
    if reason := clusters.missing():
        pytest.skip(reason)

    async def fresh_schema() -> str:
        name = f"place_{next(numbers)}"
        connection = await asyncpg.connect(server.dsn())
        await connection.execute(f"CREATE SCHEMA {name}")
        await connection.close()
        return f"{server.dsn()}&search_path={name}"

    with clusters.cluster() as server:
        yield fresh_schema


def store_at(place: str) -> SessionStore:
    return PostgresStore(place, connections=2) if "://" in place else SqliteStore(place)


async def settled(place: str) -> None:
    """Wait until a database's server has noticed that `writer.py` is gone: until then it finishes
    what it was told."""
    if "://" not in place:
        return
    import asyncpg

    connection = await asyncpg.connect(place)
    there = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'writer'"
    while await connection.fetchval(there):
        pass
    await connection.close()


def damage(place: str) -> list[str]:
    """What is wrong with a file by SQLite's own judgement."""
    if "://" in place:
        return []
    with closing(sqlite3.connect(place)) as database:
        found = [text for (text,) in database.execute("PRAGMA integrity_check")]
        return found[found == ["ok"] :] + database.execute("PRAGMA foreign_key_check").fetchall()


@contextmanager
def writing_process() -> Iterator[Callable[..., object]]:
    """Yields `ask(job, …)`, which has `writer.py` do a job and gives its answer."""
    command = [sys.executable, HERE / "writer.py"]
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with subprocess.Popen(
        command, env=outer, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def ask(job: str, **arguments: object) -> object:
            print(json.dumps([job, arguments]), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            assert answer, "writer.py ended by itself; what it wrote to stderr says why"
            return json.loads(answer)

        yield ask


def load(name: str):
    """Another file of this folder, as a module."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
