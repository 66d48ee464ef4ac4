"""The tables in a PostgreSQL database, and how they are created."""

import pytest

from stage0_gateway import Message
from stage1_context.journal import MessageRecord
from stage1_context.stores.postgres import PostgresStore
from stage1_context.stores.postgres_schema import VERSION

ONE = MessageRecord(Message.user("one"))
TABLES = ["llm_stages_record", "llm_stages_session", "llm_stages_version"]

real = pytest.mark.real


@pytest.fixture
async def store(dsn):
    opened = PostgresStore(dsn)
    yield opened
    await opened.aclose()


@real
async def test_tables_are_created_at_first_use(store, server, tables):
    assert await tables() == []
    assert await store.sessions() == []
    assert await tables() == TABLES
    assert await server.fetchval("SELECT version FROM llm_stages_version") == VERSION


@real
async def test_tables_of_another_program_are_rejected_and_not_changed(
    store, server, tables, failure
):
    await server.execute("CREATE TABLE llm_stages_record (mine text)")
    await server.execute("INSERT INTO llm_stages_record VALUES ('precious')")
    assert str(await failure(store)).endswith(
        'relation "llm_stages_record" already exists. '
        "Another program's tables have these names. Choose another database or schema."
    )
    assert await tables() == ["llm_stages_record"]
    assert await server.fetchval("SELECT mine FROM llm_stages_record") == "precious"


@real
async def test_tables_of_another_version_are_rejected(postgres, dsn, store, server, failure):
    await store.create("s", ONE)
    await server.execute("UPDATE llm_stages_version SET version = version + 1")
    assert str(await failure(PostgresStore(dsn))) == (
        f"The tables in {postgres.folder}/postgres have version {VERSION + 1}; this program knows version {VERSION}. "
        "Use the program that created them, or another database."
    )
    await server.execute("UPDATE llm_stages_version SET version = version - 1")
    assert await store.read("s") == [(0, ONE)]
