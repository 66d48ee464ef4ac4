"""Where the tables in a PostgreSQL database are, how they are made and brought up to date."""

import pytest

from stage0_gateway import Message
from stage1_context.journal import MessageRecord
from stage1_context.postgres import PostgresStore
from stage1_context.postgres_schema import MIGRATIONS, bring_up_to_date

ONE, TWO, THREE = (MessageRecord(Message.user(text)) for text in ("one", "two", "three"))
TABLES = ["llm_stages_record", "llm_stages_session", "llm_stages_version"]

real = pytest.mark.real


@pytest.fixture
async def store(dsn):
    opened = PostgresStore(dsn)
    yield opened
    await opened.aclose()


@real
async def test_tables_are_made_at_first_use_and_not_before(store, server, tables):
    assert await tables() == []
    assert await store.sessions() == []
    assert await tables() == TABLES
    assert await server.fetchval("SELECT version FROM llm_stages_version") == len(MIGRATIONS)


@real
async def test_somebody_elses_tables_are_left_alone(store, server, tables, failure):
    await server.execute("CREATE TABLE llm_stages_record (mine text)")
    await server.execute("INSERT INTO llm_stages_record VALUES ('precious')")
    assert str(await failure(store)).endswith(
        'relation "llm_stages_record" already exists. '
        "Somebody else's tables have these names; choose another database or schema."
    )
    assert await tables() == ["llm_stages_record"]
    assert await server.fetchval("SELECT mine FROM llm_stages_record") == "precious"


@real
async def test_tables_of_a_newer_version_are_refused(postgres, store, server, failure):
    await store.create("s", ONE)
    await store.aclose()
    await server.execute("UPDATE llm_stages_version SET version = version + 1")
    newer, known = len(MIGRATIONS) + 1, len(MIGRATIONS)
    assert str(await failure(store)) == (
        f"The tables in {postgres.folder}/postgres have version {newer}; this program knows versions up to "
        f"{known}. Use the newer program that made them, or another database."
    )
    await server.execute("UPDATE llm_stages_version SET version = version - 1")
    assert await store.read("s") == [(0, ONE)]


@real
async def test_tables_are_brought_up_to_date_with_what_they_hold(store, server):
    await store.create("s", ONE, TWO)
    newer = [*MIGRATIONS, ("ALTER TABLE llm_stages_session ADD note text NOT NULL DEFAULT 'none'",)]
    await bring_up_to_date(server, "here", newer)
    await bring_up_to_date(server, "here", newer)
    assert await server.fetchval("SELECT version FROM llm_stages_version") == len(newer)
    assert await server.fetch("SELECT id, records, note FROM llm_stages_session") == [("s", 2, "none")]
    # Who opened the tables before goes on with them.
    assert await store.append("s", THREE) == 3
    assert await store.read("s") == [(0, ONE), (1, TWO), (2, THREE)]


@real
async def test_a_step_that_fails_leaves_the_tables_as_they_were(store, server):
    import asyncpg

    await store.create("s", ONE)
    broken = [
        *MIGRATIONS,
        ("ALTER TABLE llm_stages_session ADD note text", "ALTER TABLE nothing ADD note text"),
    ]
    with pytest.raises(asyncpg.UndefinedTableError):
        await bring_up_to_date(server, "here", broken)
    assert await server.fetchval("SELECT version FROM llm_stages_version") == len(MIGRATIONS)
    assert [*(await server.fetchrow("SELECT * FROM llm_stages_session")).keys()] == [
        "key", "id", "records", "created", "updated",
    ]  # fmt: skip
    assert await store.read("s") == [(0, ONE)]
