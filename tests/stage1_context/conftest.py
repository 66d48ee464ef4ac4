"""Stores for the tests: in memory, in a file, and in a PostgreSQL database."""

import os

import pytest

from stage1_context import MemoryStore, PostgresStore, SqliteStore
from tests.real import locations

POSTGRES = pytest.param("postgres", marks=pytest.mark.real)

postgres = locations.postgres  # the fixture that starts the server, or skips


@pytest.fixture
async def dsn(postgres, monkeypatch):
    """The address of a fresh schema."""
    for name in [*os.environ]:
        if name.startswith("PG"):
            monkeypatch.delenv(name)
    return await locations.fresh_schema(postgres)


@pytest.fixture
async def connection(dsn):
    """A separate connection, to inspect the database behind a store."""
    import asyncpg

    opened = await asyncpg.connect(dsn)
    yield opened
    await opened.close()


@pytest.fixture
async def postgres_store(dsn):
    """A store in the schema."""
    opened = PostgresStore(dsn)
    yield opened
    await opened.aclose()


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
