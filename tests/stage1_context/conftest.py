"""Stores for the tests: in memory, in a file, and in a PostgreSQL database."""

import importlib.util
import os
import uuid
from pathlib import Path

import pytest

from stage1_context.errors import StoreFailed
from stage1_context.store import MemoryStore
from stage1_context.stores.postgres import PostgresStore
from stage1_context.stores.sqlite import SqliteStore

POSTGRES = pytest.param("postgres", marks=pytest.mark.real)


@pytest.fixture(scope="session")
def postgres():
    """A running server; see tests/real/cluster.py."""
    pytest.importorskip(
        "asyncpg", reason="asyncpg is not installed: pip install 'llm-stages[postgres]'"
    )
    spec = importlib.util.spec_from_file_location(
        "cluster", Path(__file__).parents[1] / "real/cluster.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if reason := module.missing():
        pytest.skip(reason)
    with module.cluster() as server:
        yield server


@pytest.fixture
async def dsn(postgres, monkeypatch):
    """The address of a fresh schema."""
    import asyncpg

    for name in [*os.environ]:
        if name.startswith("PG"):
            monkeypatch.delenv(name)
    schema = f"test_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(postgres.dsn())
    await connection.execute(f"CREATE SCHEMA {schema}")
    await connection.close()
    return f"{postgres.dsn()}&search_path={schema}"


@pytest.fixture
async def server(dsn):
    """A separate connection, to inspect the database behind a store."""
    import asyncpg

    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@pytest.fixture
def tables(server):
    """`await tables()` returns the names of the existing tables."""

    async def existing():
        query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema ORDER BY 1"
        return [name for (name,) in await server.fetch(query)]

    return existing


@pytest.fixture
def failure():
    """`await failure(store)` returns the error of a store that cannot be used."""

    async def raised(store):
        with pytest.raises(StoreFailed) as caught:
            await store.sessions()
        await store.aclose()
        return caught.value

    return raised


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def kind(request):
    return request.param


@pytest.fixture
def open_store(kind, request):
    """`open_store()` returns a new store; all of them share the same journals."""
    if kind == "memory":
        shared = MemoryStore()
        return lambda: shared
    if kind == "sqlite":
        path = request.getfixturevalue("tmp_path") / "sessions.sqlite"
        return lambda: SqliteStore(path)
    address = request.getfixturevalue("dsn")
    return lambda: PostgresStore(address, connections=4)


@pytest.fixture
async def store(open_store):
    opened = open_store()
    yield opened
    await opened.aclose()
