"""Locations of sessions for the tests of this folder, and the process that writes there.

A location is a text that `writer.py` also accepts: the path of a SQLite file, or the URL of a
PostgreSQL database.
"""

import json
import os
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from stage1_context import PostgresStore, SessionStore, SqliteStore
from tests.programs import ROOT
from tests.real.cluster import Cluster, cluster, missing


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A running PostgreSQL server, or a skip with the reason. Conftests use it as their fixture."""
    pytest.importorskip(
        "asyncpg", reason="asyncpg is not installed: pip install 'llm-stages[postgres]'"
    )
    if reason := missing():
        pytest.skip(reason)
    with cluster() as server:
        yield server


async def fresh_schema(server: Cluster) -> str:
    """Return the location of a new, empty schema."""
    import asyncpg

    name = f"test_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(server.dsn())
    await connection.execute(f"CREATE SCHEMA {name}")
    await connection.close()
    return f"{server.dsn()}&search_path={name}"


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
    command = [sys.executable, "-m", "tests.real.writer"]
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with subprocess.Popen(
        command, cwd=ROOT, env=outer, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def ask(job: str, **arguments: object) -> object:
            print(json.dumps([job, arguments]), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            assert answer, "writer.py ended unexpectedly; see its stderr"
            return json.loads(answer)

        yield ask
