"""The tables in a PostgreSQL database, their creation, and the statements that use them.

The module knows neither records nor connections. The connection's `search_path` determines the
schema of the tables. `postgres` uses it.
"""

from typing import Any

from stage1_context.errors import StoreFailed

VERSION = 1
"""The version of the tables. Tables of another version are refused."""

_TABLES = f"""
-- A hash index accepts ids that are too long for a B-tree index.
CREATE TABLE llm_stages_session (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL,
    records integer NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    updated timestamptz NOT NULL DEFAULT now(),
    EXCLUDE USING hash (id WITH =)
);
-- The body is text: jsonb would refuse some strings and change some numbers.
CREATE TABLE llm_stages_record (
    session bigint NOT NULL REFERENCES llm_stages_session ON DELETE CASCADE,
    position integer NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (session, position)
);
CREATE INDEX llm_stages_record_by_kind ON llm_stages_record (session, kind, position);
CREATE INDEX llm_stages_session_by_update ON llm_stages_session (updated);
CREATE TABLE llm_stages_version (version integer NOT NULL);
INSERT INTO llm_stages_version VALUES ({VERSION})"""

CREATE = """
WITH made AS (
    INSERT INTO llm_stages_session (id, records) VALUES ($1, cardinality($2::text[]))
    ON CONFLICT DO NOTHING RETURNING key
), added AS (
    INSERT INTO llm_stages_record (session, position, kind, body)
    SELECT key, n - 1, kind, body
    FROM made, unnest($2::text[], $3::text[]) WITH ORDINALITY AS new (kind, body, n)
)
SELECT key FROM made"""

# Writers lock the row of the session, which holds the position of the next record.
APPEND = """
WITH grown AS (
    UPDATE llm_stages_session
    SET records = records + cardinality($2::text[]), updated = clock_timestamp()
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

SESSIONS = "SELECT id, records, created, updated FROM llm_stages_session"

# to_regclass is unsuitable: after waiting for the lock, it still reports the table as missing.
_IS_THERE = """
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class
    WHERE relname = 'llm_stages_version' AND pg_catalog.pg_table_is_visible(oid)
)"""

_CREATION_LOCK = int.from_bytes(b"llmstage")


async def create_tables(connection: Any, address: str) -> None:
    """Create the tables if they are missing.

    Args:
        connection: A connection of asyncpg, or of its pool.
        address: The name of the database in an error.

    Raises:
        StoreFailed: The tables have another version.
    """
    if await _has_tables(connection, address):
        return
    async with connection.transaction(isolation="read_committed"):
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _CREATION_LOCK)
        # Another client may have created them meanwhile.
        if not await _has_tables(connection, address):
            await connection.execute(_TABLES)


async def _has_tables(connection: Any, address: str) -> bool:
    if not await connection.fetchval(_IS_THERE):
        return False
    version = await connection.fetchval("SELECT version FROM llm_stages_version")
    if version != VERSION:
        raise StoreFailed(
            f"The tables in {address} have version {version}; this program knows version "
            f"{VERSION}. Use the program that created them, or another database."
        )
    return True
