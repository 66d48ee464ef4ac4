"""Locations of sessions for the tests of this folder, and the process that writes there.

A location is a text that `writer.py` also accepts: the path of a SQLite file, or the URL of a
PostgreSQL database. Loaded by test_kill and test_writers.
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
def fresh_locations(kind: str, folder: Path) -> Iterator[Callable[[], Awaitable[str]]]:
    """Yield a function that returns a new, empty location."""
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
        name = f"location_{next(numbers)}"
        connection = await asyncpg.connect(server.dsn())
        await connection.execute(f"CREATE SCHEMA {name}")
        await connection.close()
        return f"{server.dsn()}&search_path={name}"

    with clusters.cluster() as server:
        yield fresh_schema


def store_at(location: str) -> SessionStore:
    return PostgresStore(location, connections=2) if "://" in location else SqliteStore(location)


async def settled(location: str) -> None:
    """Wait until the database server has noticed the end of `writer.py`, and has finished its work."""
    if "://" not in location:
        return
    import asyncpg

    connection = await asyncpg.connect(location)
    there = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'writer'"
    while await connection.fetchval(there):
        pass
    await connection.close()


def damage(location: str) -> list[str]:
    """Return the errors that SQLite's integrity check reports for a file."""
    if "://" in location:
        return []
    with closing(sqlite3.connect(location)) as database:
        found = [text for (text,) in database.execute("PRAGMA integrity_check")]
        return found[found == ["ok"] :] + database.execute("PRAGMA foreign_key_check").fetchall()


@contextmanager
def writing_process() -> Iterator[Callable[..., object]]:
    """Yield `ask(job, …)`, which runs a job in `writer.py` and returns its answer."""
    command = [sys.executable, HERE / "writer.py"]
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with subprocess.Popen(
        command, env=outer, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def ask(job: str, **arguments: object) -> object:
            print(json.dumps([job, arguments]), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            assert answer, "writer.py ended unexpectedly; see its stderr"
            return json.loads(answer)

        yield ask


def load(name: str):
    """Load another file of this folder as a module."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
