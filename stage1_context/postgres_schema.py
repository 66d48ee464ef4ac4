"""The tables in a PostgreSQL database, how they are brought up to date, and what is asked of them.

Used by `PostgresStore` only. Knows the tables, and nothing of records or connections. The tables are made
wherever the connection's `search_path` leads.
"""

from collections.abc import Sequence
from typing import Any

from stage1_context.errors import StoreFailed

MIGRATIONS: Sequence[tuple[str, ...]] = (
    (
        # Any length of id: a hash index takes what is too long for an ordinary one.
        """CREATE TABLE llm_stages_session (
            key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text NOT NULL,
            records integer NOT NULL,
            created timestamptz NOT NULL DEFAULT now(),
            updated timestamptz NOT NULL DEFAULT now(),
            EXCLUDE USING hash (id WITH =)
        )""",
        # The body is text: jsonb would refuse some strings, and change some numbers.
        """CREATE TABLE llm_stages_record (
            session bigint NOT NULL REFERENCES llm_stages_session ON DELETE CASCADE,
            position integer NOT NULL,
            kind text NOT NULL,
            body text NOT NULL,
            PRIMARY KEY (session, position)
        )""",
        "CREATE INDEX llm_stages_record_by_kind ON llm_stages_record (session, kind, position)",
        "CREATE INDEX llm_stages_session_by_update ON llm_stages_session (updated)",
    ),
)
"""How tables of version n become those of version n + 1. A published step is never edited, only followed."""

CREATE = """
WITH made AS (
    INSERT INTO llm_stages_session (id, records) VALUES ($1, cardinality($2::text[]))
    ON CONFLICT DO NOTHING RETURNING key
), added AS (
    INSERT INTO llm_stages_record (session, position, kind, body)
    SELECT key, n - 1, kind, body FROM made, unnest($2::text[], $3::text[]) WITH ORDINALITY AS new (kind, body, n)
)
SELECT key FROM made"""

# The row of the session is what writers take turns at: it says where the next record belongs.
APPEND = """
WITH grown AS (
    UPDATE llm_stages_session SET records = records + cardinality($2::text[]), updated = clock_timestamp()
    WHERE id = $1 AND ($4::integer IS NULL OR records = $4) RETURNING key, records
), added AS (
    INSERT INTO llm_stages_record (session, position, kind, body)
    SELECT key, records - cardinality($2::text[]) + n - 1, kind, body
    FROM grown, unnest($2::text[], $3::text[]) WITH ORDINALITY AS new (kind, body, n)
)
SELECT records FROM grown"""

READ = """
SELECT position, body FROM llm_stages_session JOIN llm_stages_record ON session = key
WHERE id = $1 AND position >= $2 AND position < $3 {}ORDER BY position"""

# Looked up in the catalogue: to_regclass remembers, while it waits for the lock, that there was nothing.
_IS_THERE = """
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class
    WHERE relname = 'llm_stages_version' AND pg_catalog.pg_table_is_visible(oid)
)"""

_ONE_AT_A_TIME = int.from_bytes(b"llmstage")  # the number of the lock under which tables are changed


async def bring_up_to_date(
    connection: Any, address: str, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Make the tables where there are none, and take the steps that they have not taken yet.

    Args:
        connection: One of asyncpg's, or of a pool of it.
        address: What to call the database in an error.
        migrations: The steps from nothing to the newest version.

    Raises:
        StoreFailed: A newer version made the tables.
    """
    if not _missing(await _version(connection), address, migrations):
        return
    async with connection.transaction(isolation="read_committed"):
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _ONE_AT_A_TIME)
        # Somebody else may have done it while this one waited.
        version = await _version(connection)
        for step in _missing(version, address, migrations):
            for statement in step:
                await connection.execute(statement)
        if version == 0:
            await connection.execute("CREATE TABLE llm_stages_version (version integer NOT NULL)")
            await connection.execute("INSERT INTO llm_stages_version VALUES (0)")
        await connection.execute("UPDATE llm_stages_version SET version = $1", len(migrations))


async def _version(connection: Any) -> int:
    """The version of the tables; 0 where there are none."""
    if not await connection.fetchval(_IS_THERE):
        return 0
    return int(await connection.fetchval("SELECT version FROM llm_stages_version"))


def _missing(version: int, address: str, migrations: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    if version > len(migrations):
        raise StoreFailed(
            f"The tables in {address} have version {version}; this program knows versions up to "
            f"{len(migrations)}. Use the newer program that made them, or another database."
        )
    return migrations[version:]
