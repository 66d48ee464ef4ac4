"""PostgreSQL only: writers, connections, event loops, dsns and passwords. See test_store.py for all
stores."""

import asyncio
import importlib.util
import re
import socket
import sys
import traceback
from urllib.parse import quote

import pytest

from stage1_context import ContextError, PostgresStore, StoreFailed, VariableRecord
from tests.stage1_context.sessions import ONE, POSTGRES_TABLES, THREE, TWO, failure_of, tables_of
from tests.tables import for_each

PASSWORD = "pa:ss/wo?rd#@%"

real = pytest.mark.real
needs_asyncpg = pytest.mark.skipif(
    importlib.util.find_spec("asyncpg") is None, reason="asyncpg is not installed"
)


@real
async def test_a_record_is_stored_as_text_that_the_server_never_interprets(
    postgres_store, connection
):
    record = VariableRecord(
        {"b": 1.0, "a": [1e2, "\0", "'; DROP TABLE llm_stages_record; --", "$1"]}
    )
    await postgres_store.create("'; DROP TABLE llm_stages_session; --", record)
    assert await connection.fetchval("SELECT body FROM llm_stages_record") == (
        r'{"kind": "variable", "value": {"b": 1.0, "a": [100.0, "\u0000", '
        r""""'; DROP TABLE llm_stages_record; --", "$1"]}}"""
    )
    assert await tables_of(connection) == POSTGRES_TABLES


async def appending(store, times):
    await asyncio.gather(*(store.append("s", ONE, TWO) for _ in range(times)))


@real
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
async def test_writers_succeed_at_every_isolation_level_of_the_database(dsn, isolation):
    stores = [
        PostgresStore(f"{dsn}&default_transaction_isolation={quote(isolation)}") for _ in range(8)
    ]
    await asyncio.gather(*(store.sessions() for store in stores))
    await stores[0].create("s")
    await asyncio.gather(*(appending(store, 10) for store in stores))
    assert await stores[0].read("s") == [(index, (ONE, TWO)[index % 2]) for index in range(160)]
    await asyncio.gather(*(store.aclose() for store in stores))


@real
async def test_a_store_opens_at_most_the_given_number_of_connections(dsn, connection):
    store = PostgresStore(f"{dsn}&application_name=counted", connections=3)
    await store.create("s")
    await appending(store, 50)
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'"
    assert 1 <= await connection.fetchval(count) <= 3
    assert (await store.info("s")).records == 100
    await store.aclose()


@real
@pytest.mark.parametrize("prepared", [True, False])
async def test_prepared_statements_are_unnamed_if_prepared_is_false(postgres, dsn, prepared):
    logged = f"{dsn}&log_min_duration_statement=0&log_min_messages=log"
    log = postgres.folder / "log"
    before = len(log.read_text())
    store = PostgresStore(logged, prepared=prepared)
    await store.create("s", ONE)
    await store.append("s", TWO)
    assert await store.read("s") == [(0, ONE), (1, TWO)]
    await store.aclose()
    named = re.findall(r"execute (\S+):", log.read_text()[before:])
    assert len(named) >= 3
    assert {name == "<unnamed>" for name in named} == {not prepared}


@real
async def test_a_terminated_connection_is_replaced(postgres_store, connection):
    await postgres_store.create("s", ONE)
    others = (
        "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    assert await connection.fetch(f"SELECT pg_terminate_backend(pid, 5000) {others}")
    # The store may learn of the termination before or after the next statement.
    (length,) = await asyncio.gather(postgres_store.append("s", TWO), return_exceptions=True)
    if isinstance(length, StoreFailed):
        length = await postgres_store.append("s", TWO)
    assert length == 2
    assert await postgres_store.read("s") == [(0, ONE), (1, TWO)]


@real
async def test_two_event_loops_can_use_a_store_at_the_same_time(postgres_store):
    await postgres_store.create("s")
    await asyncio.gather(
        asyncio.to_thread(asyncio.run, appending(postgres_store, 20)), appending(postgres_store, 20)
    )
    assert await postgres_store.read("s") == [(index, (ONE, TWO)[index % 2]) for index in range(80)]


@real
async def test_a_writer_that_waits_too_long_for_a_lock_fails_and_writes_nothing(dsn, connection):
    store = PostgresStore(dsn, timeout=0.5)
    await store.create("s", ONE)
    async with connection.transaction():
        await connection.execute("SELECT FROM llm_stages_session FOR UPDATE")
        with pytest.raises(StoreFailed, match=r"no reply within 0\.5 seconds"):
            await store.append("s", TWO)
        assert await store.read("s") == [(0, ONE)]
    assert await store.append("s", THREE) == 2
    assert await store.read("s") == [(0, ONE), (1, THREE)]
    await store.aclose()


@real
async def test_a_writer_that_is_cancelled_while_it_waits_for_a_lock_writes_nothing(
    postgres_store, connection
):
    await postgres_store.create("s", ONE)
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    async with connection.transaction():
        await connection.execute("SELECT FROM llm_stages_session FOR UPDATE")
        writing = asyncio.create_task(postgres_store.append("s", TWO))
        while not await connection.fetchval(waits):
            await connection.execute("SELECT pg_stat_clear_snapshot()")
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    assert await postgres_store.append("s", THREE) == 2
    assert await postgres_store.read("s") == [(0, ONE), (1, THREE)]


@real
async def test_a_stopped_server_raises_an_error_and_a_restarted_one_is_used_again(postgres, dsn):
    store = PostgresStore(dsn)
    await store.create("s", ONE)
    postgres.stop("immediate")
    try:
        for _ in range(3):
            with pytest.raises(StoreFailed, match="Is the server running") as caught:
                await store.append("s", TWO)
            assert postgres.dsn().split("@")[0] not in "".join(
                traceback.format_exception(caught.value)
            )
    finally:
        postgres.start()
    assert await store.append("s", THREE) == 2
    assert await store.read("s") == [(0, ONE), (1, THREE)]
    await store.aclose()


def test_the_error_of_a_missing_library_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    text = "PostgresStore requires the asyncpg library: pip install 'llm-stages[postgres]'."
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
@for_each("dsn, shown", SHOWN.items())
def test_the_repr_of_a_store_shows_its_address_without_the_password(dsn, shown):
    assert repr(PostgresStore(dsn)) == f"PostgresStore({shown!r})"


@needs_asyncpg
@for_each(
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
        "postgresql://me:secret@host:port/app",
    ],
)
def test_an_invalid_dsn_is_rejected_with_an_error_that_does_not_contain_it(dsn):
    with pytest.raises(
        ValueError, match=r"^A dsn is postgresql://user:password@host:5432/database; escape"
    ) as caught:
        PostgresStore(dsn)
    assert not re.search(
        "sec|ret", "".join(traceback.format_exception(caught.value)).partition("Error: ")[2]
    )


@needs_asyncpg
def test_a_store_with_zero_connections_is_rejected():
    with pytest.raises(ValueError, match=r"^connections is 0; it must be at least 1\.$"):
        PostgresStore("postgresql://localhost/app", connections=0)


@needs_asyncpg
@for_each(
    "query, exception",
    [("?sslmode=secret", "ClientConfigurationError"), ("?secret", "ValueError")],
)
async def test_the_message_of_the_library_about_a_dsn_is_not_repeated(query, exception):
    error = await failure_of(PostgresStore(f"postgresql://me:secret@127.0.0.1/app{query}"))
    assert str(error) == (
        f"The PostgreSQL database 127.0.0.1/app could not be used: asyncpg cannot read the dsn ({exception})."
    )
    assert "secret" not in "".join(traceback.format_exception(error))


@needs_asyncpg
async def test_the_error_of_an_unreachable_server_names_its_address():
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = closing.getsockname()[1]
    error = await failure_of(PostgresStore(f"postgresql://me:secret@127.0.0.1:{port}/app"))
    assert re.fullmatch(
        rf"The PostgreSQL database 127\.0\.0\.1:{port}/app could not be used: .*Connect call failed "
        rf".*{port}.*\. Is the server running\? After a failed write, .*",
        str(error),
    )
    assert "secret" not in "".join(traceback.format_exception(error))


@needs_asyncpg
async def test_a_server_that_does_not_reply_raises_an_error_after_the_timeout():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = PostgresStore(
            f"postgresql://me:secret@127.0.0.1:{silent.getsockname()[1]}/app", timeout=0.05
        )
        error = await failure_of(store)
    assert "could not be used: no reply within 0.05 seconds. Is the server running?" in str(error)


@real
async def test_a_wrong_password_raises_an_error_that_does_not_contain_it(postgres, dsn):
    error = await failure_of(PostgresStore(postgres.dsn(password=PASSWORD)))
    assert str(error) == (
        f"The PostgreSQL database {postgres.folder}/postgres could not be used: password authentication failed "
        'for user "stages".'
    )
    shown = "".join(traceback.format_exception(error))
    assert PASSWORD not in shown
    assert quote(PASSWORD, safe="") not in shown


@real
async def test_the_error_of_an_unknown_database_names_it(postgres, dsn):
    error = await failure_of(PostgresStore(postgres.dsn("nowhere")))
    assert str(error) == (
        f'The PostgreSQL database {postgres.folder}/nowhere could not be used: database "nowhere" does not '
        "exist."
    )


@real
async def test_a_user_without_the_permission_to_create_tables_gets_advice(
    postgres, dsn, connection
):
    schema = await connection.fetchval("SELECT current_schema")
    await connection.execute(f"CREATE ROLE {schema} LOGIN PASSWORD '{PASSWORD}'")
    await connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {schema}")
    unprivileged = PostgresStore(
        f"{postgres.dsn(user=schema, password=PASSWORD)}&search_path={schema}"
    )
    assert str(await failure_of(unprivileged)).endswith(
        f"could not be used: permission denied for schema {schema}. "
        "The first use creates tables: grant CREATE on the schema to the user."
    )
    assert await tables_of(connection) == []
