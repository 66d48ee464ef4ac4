"""Reaching a PostgreSQL database: dsns, passwords, servers that are not there or go away."""

import importlib
import importlib.util
import re
import socket
import sys
import traceback
from urllib.parse import quote

import pytest

from stage0_gateway import Message
from stage1_context.errors import ContextError
from stage1_context.journal import MessageRecord
from stage1_context.postgres import PostgresStore

ONE, TWO, THREE = (MessageRecord(Message.user(text)) for text in ("one", "two", "three"))
PASSWORD = "pa:ss/wo?rd#@%"

real = pytest.mark.real
needs_asyncpg = pytest.mark.skipif(
    importlib.util.find_spec("asyncpg") is None, reason="asyncpg is not installed"
)


@pytest.fixture
async def store(dsn):
    opened = PostgresStore(dsn)
    yield opened
    await opened.aclose()


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    text = "PostgresStore needs the asyncpg library: pip install 'llm-stages[postgres]'."
    with pytest.raises(ContextError, match=f"^{re.escape(text)}$"):
        PostgresStore("postgresql://localhost/app")


SHOWN = {
    f"postgresql://me:{quote(PASSWORD, safe='')}@db.example.com:5433/app": "db.example.com:5433/app",
    f"postgres://me:{quote(PASSWORD, safe='')}@db/app?sslmode=require": "db/app",
    "postgresql://me:secret@[::1]:5432/app": "[::1]:5432/app",
    "postgresql://me:secret@one:5432,two:5432/app": "one:5432,two:5432/app",
    "postgresql://me@/app?host=/run/postgresql&password=secret": "/run/postgresql/app",
    "postgresql:///app?user=me&password=secret": "localhost/app",
    "postgresql://": "localhost",
}


@needs_asyncpg
@pytest.mark.parametrize(("dsn", "shown"), SHOWN.items(), ids=SHOWN.values())
def test_a_store_shows_where_it_leads_and_no_password(dsn, shown):
    assert repr(PostgresStore(dsn)) == f"PostgresStore({shown!r})"


@needs_asyncpg
@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "app",
        "host=localhost dbname=app password=secret",
        "mysql://me:secret@host/app",
        "postgresql://me:secret",
        "postgresql://me:sec/ret@host/app",
        "postgresql://me:sec?ret@host/app",
        "postgresql://me:sec#ret@host/app",
        "postgresql://me:sec@ret@host/app",
        "postgresql://me:secret[@host/app",
        "postgresql://me:secret\u2100@host/app",
        "postgresql://me:secret@host:port/app",
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_without_being_shown(dsn):
    with pytest.raises(
        ValueError, match=r"^A dsn is postgresql://user:password@host:5432/database; signs"
    ) as caught:
        PostgresStore(dsn)
    assert not re.search("sec|ret", "".join(traceback.format_exception(caught.value)).partition("Error: ")[2])


@needs_asyncpg
def test_a_store_without_connections_is_refused():
    with pytest.raises(ValueError, match=r"^A store needs a connection, not 0\.$"):
        PostgresStore("postgresql://localhost/app", connections=0)


@needs_asyncpg
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?sslmode=secret", "ClientConfigurationError"),
        ("?secret", "ValueError"),
    ],
)
async def test_what_the_library_says_of_a_dsn_is_not_repeated(query, said, failure):
    error = await failure(PostgresStore(f"postgresql://me:secret@127.0.0.1/app{query}"))
    assert str(error) == (
        f"The PostgreSQL database 127.0.0.1/app could not be used: asyncpg cannot read the dsn ({said})."
    )
    assert "secret" not in "".join(traceback.format_exception(error))


@needs_asyncpg
async def test_a_server_that_is_not_there_is_named(failure):
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = closing.getsockname()[1]
    error = await failure(PostgresStore(f"postgresql://me:secret@127.0.0.1:{port}/app"))
    assert re.fullmatch(
        rf"The PostgreSQL database 127\.0\.0\.1:{port}/app could not be used: .*Connect call failed "
        rf".*{port}.*\. Is the server running\? If something was being written, .*",
        str(error),
    )
    assert "secret" not in "".join(traceback.format_exception(error))


@needs_asyncpg
async def test_a_server_that_never_answers_is_not_waited_for_without_end(failure):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = PostgresStore(
            f"postgresql://me:secret@127.0.0.1:{silent.getsockname()[1]}/app", patience=0.05
        )
        error = await failure(store)
    assert "could not be used: no answer within 0.05 seconds. Is the server running?" in str(error)


@real
async def test_a_wrong_password_is_said_and_not_shown(postgres, dsn, failure):
    error = await failure(PostgresStore(postgres.dsn(password=PASSWORD)))
    assert str(error) == (
        f"The PostgreSQL database {postgres.folder}/postgres could not be used: password authentication failed "
        'for user "stages". Check the user and the password in the dsn.'
    )
    shown = "".join(traceback.format_exception(error))
    assert PASSWORD not in shown
    assert quote(PASSWORD, safe="") not in shown


@real
async def test_an_unknown_database_is_named(postgres, dsn, failure):
    error = await failure(PostgresStore(postgres.dsn("nowhere")))
    assert str(error) == (
        f'The PostgreSQL database {postgres.folder}/nowhere could not be used: database "nowhere" does not '
        "exist. Create the database, or name another one in the dsn."
    )


@real
async def test_a_user_who_may_not_make_tables_is_told_so(postgres, dsn, server, tables, failure):
    schema = await server.fetchval("SELECT current_schema")
    await server.execute(f"CREATE ROLE {schema} LOGIN PASSWORD '{PASSWORD}'")
    await server.execute(f"GRANT USAGE ON SCHEMA {schema} TO {schema}")
    poor = PostgresStore(f"{postgres.dsn(user=schema, password=PASSWORD)}&search_path={schema}")
    assert str(await failure(poor)).endswith(
        f"could not be used: permission denied for schema {schema}. "
        "At first use the user makes tables: grant CREATE on the schema."
    )
    assert await tables() == []
