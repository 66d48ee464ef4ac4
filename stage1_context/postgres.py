"""`PostgresStore`: journals in a PostgreSQL database, where several machines share them.

Needs the `asyncpg` library: the extra `[postgres]`. The tables, `llm_stages_…`, are made at first use. Every
method is one statement, so it happens wholly or not at all; those who write to one session take turns, those
who read never wait.

Covered: what was acknowledged is on the server's disk · two writers never mix their records · several event
    loops, each with connections of its own · tables of an older version are brought up to date, those of a
    newer version are refused · poolers such as PgBouncer.
Not covered: a connection that breaks while something is written leaves open whether it was; read what is there.
"""

from collections.abc import Collection, Iterable
from typing import NoReturn

from stage1_context.journal import KINDS, Record, record_from_json, record_to_json
from stage1_context.postgres_connection import Database
from stage1_context.postgres_schema import APPEND, CREATE, READ
from stage1_context.store import (
    SessionInfo,
    check_expected,
    check_session_id,
    findable,
    session_exists,
    session_not_found,
)

_MOST = 2**31 - 1  # what an integer column holds


class PostgresStore:
    """Journals in a PostgreSQL database.

    Args:
        dsn: `postgresql://user:password@host:5432/database`; the password is never shown.
        connections: How many to open at most, in each event loop.
        patience: How many seconds to wait for an answer.
        prepared: Let the server remember statements, which saves a round trip each time. Say False behind a
            pooler that hands out connections by the transaction and does not know statements by name.

    Raises:
        ContextError: asyncpg is not installed.
        ValueError: The dsn cannot be read, or there would be no connection.
    """

    def __init__(
        self, dsn: str, *, connections: int = 10, patience: float = 30.0, prepared: bool = True
    ) -> None:
        self._database = Database(dsn, connections, patience, prepared)

    def __repr__(self) -> str:
        return f"PostgresStore({self._database.address!r})"

    async def create(self, session_id: str, *records: Record) -> None:
        """Begin a journal."""
        check_session_id(session_id)
        if not await self._database.fetch(CREATE, session_id, *_columns(records)):
            raise session_exists(session_id)

    async def append(self, session_id: str, *records: Record, expected: int | None = None) -> int:
        """Add records; returns how many the journal now holds."""
        seen = None if expected is None else min(expected, _MOST)
        columns = _columns(records)
        # Nothing grew: there is no such session, or it is longer than expected; both are said by what is raised. If
        # neither is true any more, somebody changed it back in between, and the writer tries again.
        while not (grown := await self._database.fetch(APPEND, findable(session_id), *columns, seen)):
            check_expected(session_id, expected, (await self.info(session_id)).records)
        return int(grown[0][0])

    async def read(
        self, session_id: str, start: int = 0, end: int | None = None, *, kinds: Collection[str] | None = None
    ) -> list[tuple[int, Record]]:
        """Records and their indices."""
        stop = _MOST if end is None else min(end, _MOST)
        found = await self._database.fetch(
            READ.format(_only(kinds)), findable(session_id), min(start, _MOST), stop
        )
        if not found:
            await self.info(session_id)  # which raises if there is no such session
        return [(index, record_from_json(body)) for index, body in found]

    async def info(self, session_id: str) -> SessionInfo:
        """How many records a journal holds, and since when it is there."""
        query = "SELECT id, records, created, updated FROM llm_stages_session WHERE id = $1"
        found = await self._database.fetch(query, findable(session_id))
        return SessionInfo(*found[0]) if found else await self._not_found(session_id)

    async def sessions(self) -> list[SessionInfo]:
        """All sessions, the one that was written to last first."""
        query = "SELECT id, records, created, updated FROM llm_stages_session ORDER BY updated DESC, key DESC"
        return [SessionInfo(*row) for row in await self._database.fetch(query)]

    async def delete(self, session_id: str) -> None:
        """Remove a session."""
        query = "DELETE FROM llm_stages_session WHERE id = $1 RETURNING key"
        if not await self._database.fetch(query, findable(session_id)):
            await self._not_found(session_id)

    async def aclose(self) -> None:
        """Close this event loop's connections; they are opened again when the store is used again."""
        await self._database.aclose()

    async def _not_found(self, session_id: str) -> NoReturn:
        query = "SELECT id FROM llm_stages_session ORDER BY updated DESC, key DESC LIMIT 5"
        raise session_not_found(session_id, [id for (id,) in reversed(await self._database.fetch(query))])


def _only(kinds: Collection[str] | None) -> str:
    """The condition for some kinds. They are named in the statement, so that the server's plan is made for them."""
    if kinds is None:
        return ""
    known = ", ".join(f"'{kind}'" for kind in KINDS if kind in kinds)
    return f"AND kind IN ({known}) " if known else "AND false "


def _columns(records: Iterable[Record]) -> tuple[list[str], list[str]]:
    """The kinds and the bodies, which the server makes rows of."""
    return [each.kind for each in records], [record_to_json(each) for each in records]
