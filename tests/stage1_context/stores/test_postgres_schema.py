"""The tables in a PostgreSQL database, and how they are created."""

import pytest

from stage1_context import PostgresStore
from stage1_context.stores.postgres_schema import VERSION
from tests.stage1_context.sessions import ONE, POSTGRES_TABLES, failure_of, tables_of

pytestmark = pytest.mark.real


async def test_tables_are_created_at_first_use(postgres_store, connection):
    assert await tables_of(connection) == []
    assert await postgres_store.sessions() == []
    assert await tables_of(connection) == POSTGRES_TABLES
    assert await connection.fetchval("SELECT version FROM llm_stages_version") == VERSION


async def test_tables_of_another_program_are_rejected_and_not_changed(postgres_store, connection):
    await connection.execute("CREATE TABLE llm_stages_record (mine text)")
    await connection.execute("INSERT INTO llm_stages_record VALUES ('precious')")
    assert str(await failure_of(postgres_store)).endswith(
        'relation "llm_stages_record" already exists. '
        "Another program's tables have these names. Choose another database or schema."
    )
    assert await tables_of(connection) == ["llm_stages_record"]
    assert await connection.fetchval("SELECT mine FROM llm_stages_record") == "precious"


async def test_tables_of_another_version_are_rejected(postgres, dsn, postgres_store, connection):
    await postgres_store.create("s", ONE)
    await connection.execute("UPDATE llm_stages_version SET version = version + 1")
    assert str(await failure_of(PostgresStore(dsn))) == (
        f"The tables in {postgres.folder}/postgres have version {VERSION + 1}; this program knows version {VERSION}. "
        "Use the program that created them, or another database."
    )
    await connection.execute("UPDATE llm_stages_version SET version = version - 1")
    assert await postgres_store.read("s") == [(0, ONE)]
