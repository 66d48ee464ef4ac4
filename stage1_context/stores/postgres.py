"""`PostgresStore`: journals in a PostgreSQL database, shared by several machines.

The store requires the `asyncpg` library: the extra `[postgres]`. It creates its tables,
`llm_stages_…`, at the first use. Every method is one statement and therefore atomic. Writers to one
session take turns; readers never wait. Errors never contain the password.

Covered: acknowledged records are on the server's disk · concurrent writers never mix their records
· several event loops, each with its own connections · tables of another version are refused ·
poolers such as PgBouncer.
Not covered: after a connection breaks during a write, the records may be stored or not. Read before
writing again.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn
from urllib.parse import parse_qs
from weakref import WeakSet

from stage1_context.errors import ContextError, SessionExists, SessionNotFound, StoreFailed
from stage1_context.journal import KINDS, Record, record_from_json, record_to_json
from stage1_context.store import (
    SessionInfo,
    check_expected,
    check_session_id,
    searchable_id,
    store_closed,
)
from stage1_context.stores.postgres_schema import APPEND, CREATE, READ, SESSIONS, create_tables

_LARGEST_INTEGER = 2**31 - 1  # of a PostgreSQL column of type integer
_MOST_ATTEMPTS = 100
_CLOSING_TIMEOUT = 10.0  # seconds

_CHECK_SERVER = (
    "Is the server running? After a failed write, check whether it is stored before repeating it."
)
_ADVICE = {
    "08": _CHECK_SERVER,
    "26": "Behind a pooler, create the store with prepared=False.",
    "42501": "The first use creates tables: grant CREATE on the schema to the user.",
    "42P05": "Behind a pooler, create the store with prepared=False.",
    "42P07": "Another program's tables have these names. Choose another database or schema.",
    "57": _CHECK_SERVER,
}
"""The fix, by the beginning of the server's error code."""

_HOST = r"(?:[^:,@/?#\[\]]*|\[[^@/?#\]]*\])(?::\d*)?"
_DSN = re.compile(
    rf"postgres(?:ql)?://(?:[^@/?#]*@)?({_HOST}(?:,{_HOST})*)(/[^@?#]*)?(?:\?([^@#]*))?"
)


class PostgresStore:
    """Journals in a PostgreSQL database.

    Args:
        dsn: `postgresql://user:password@host:5432/database`; the password is never shown.
        connections: The most connections in each event loop.
        timeout: Seconds to wait for a reply of the server.
        prepared: Let the server keep prepared statements, which saves a round trip. Use False
            behind a pooler that assigns connections per transaction and does not support them.

    Raises:
        ContextError: asyncpg is not installed.
        ValueError: The dsn is invalid, or `connections` is less than 1.
    """

    def __init__(
        self, dsn: str, *, connections: int = 10, timeout: float = 30.0, prepared: bool = True
    ) -> None:
        _asyncpg()
        if connections < 1:
            raise ValueError(f"connections is {connections}; it must be at least 1.")
        self._address = _address(dsn)
        self._timeout = timeout
        self._options: dict[str, Any] = {
            "dsn": dsn,
            "min_size": 0,
            "max_size": connections,
            "timeout": timeout,
            "command_timeout": timeout,
            "statement_cache_size": 100 if prepared else 0,
            "init": self._prepare,
            "reset": _keep_settings,
        }
        self._closed_loops = WeakSet[asyncio.AbstractEventLoop]()
        self._pools: dict[asyncio.AbstractEventLoop, AsyncGenerator[Any, None]] = {}

    def __repr__(self) -> str:
        return f"PostgresStore({self._address!r})"

    async def create(self, session_id: str, *records: Record) -> None:
        """Create a journal."""
        check_session_id(session_id)
        if not await self._fetch(CREATE, session_id, *_columns(records)):
            raise SessionExists(session_id)

    async def append(self, session_id: str, *records: Record, expected: int | None = None) -> int:
        """Append records; return the number of records in the journal."""
        length = None if expected is None else min(expected, _LARGEST_INTEGER)
        columns = _columns(records)
        # Without a row, the session is unknown or has another length, so the next line raises. If
        # another writer has just changed that back, the append is repeated.
        while not (grown := await self._fetch(APPEND, searchable_id(session_id), *columns, length)):
            check_expected(session_id, expected, (await self.info(session_id)).records)
        return int(grown[0][0])

    async def read(
        self,
        session_id: str,
        start: int = 0,
        end: int | None = None,
        *,
        kinds: Collection[str] | None = None,
    ) -> list[tuple[int, Record]]:
        """Return records with their indices."""
        stop = _LARGEST_INTEGER if end is None else min(end, _LARGEST_INTEGER)
        found = await self._fetch(
            READ.format(_only(kinds)), searchable_id(session_id), min(start, _LARGEST_INTEGER), stop
        )
        if not found:
            await self.info(session_id)  # raises for an unknown session
        return [(index, record_from_json(body)) for index, body in found]

    async def info(self, session_id: str) -> SessionInfo:
        """Return the number of records and the times of a session."""
        found = await self._fetch(f"{SESSIONS} WHERE id = $1", searchable_id(session_id))
        return SessionInfo(*found[0]) if found else await self._not_found(session_id)

    async def sessions(self) -> list[SessionInfo]:
        """Return all sessions, the last written one first."""
        query = f"{SESSIONS} ORDER BY updated DESC, key DESC"
        return [SessionInfo(*row) for row in await self._fetch(query)]

    async def delete(self, session_id: str) -> None:
        """Delete a session."""
        query = "DELETE FROM llm_stages_session WHERE id = $1 RETURNING key"
        if not await self._fetch(query, searchable_id(session_id)):
            await self._not_found(session_id)

    async def aclose(self) -> None:
        """Close this event loop's connections. Later uses in it raise StoreFailed.

        Other event loops close their connections when they end.
        """
        self._closed_loops.add(asyncio.get_running_loop())
        if pools := self._pools.pop(asyncio.get_running_loop(), None):
            await pools.aclose()

    async def _not_found(self, session_id: str) -> NoReturn:
        query = "SELECT id FROM llm_stages_session ORDER BY updated DESC, key DESC LIMIT 5"
        raise SessionNotFound(session_id, [id for (id,) in reversed(await self._fetch(query))])

    async def _fetch(self, query: str, *arguments: object) -> list[Any]:
        """Return the rows of one statement, which is repeated after a conflict with another one.

        Raises:
            StoreFailed: The database cannot be reached or refuses the statement.
        """
        pg = _asyncpg()
        try:
            for _ in range(_MOST_ATTEMPTS):
                with suppress(pg.SerializationError, pg.DeadlockDetectedError):
                    return list(await (await self._pool()).fetch(query, *arguments))
                await asyncio.sleep(random.uniform(0, 0.05))
        except (
            pg.PostgresError,
            pg.InterfaceError,
            pg.InternalClientError,
            OSError,
            ValueError,
        ) as error:
            raise self._failure(error) from None  # its text may contain parts of the dsn
        raise StoreFailed(f"Too many concurrent writes to {self._address}. Retry later.")

    async def _pool(self) -> Any:
        """Return the running event loop's connection pool."""
        loop = asyncio.get_running_loop()
        if loop in self._closed_loops:
            raise store_closed(self)
        if loop not in self._pools:
            for closed in [other for other in [*self._pools] if other.is_closed()]:
                self._pools.pop(closed, None)
            self._pools[loop] = self._open_pools()
        return await anext(self._pools[loop])

    async def _open_pools(self) -> AsyncGenerator[Any, None]:
        """Yield one connection pool repeatedly, and close it at the end.

        An ending event loop closes its asynchronous generators, and so the connections.
        """
        pool = _asyncpg().create_pool(**self._options)
        await pool
        try:
            while True:
                yield pool
        finally:
            with suppress(Exception):  # the server may be unreachable
                async with asyncio.timeout(_CLOSING_TIMEOUT):
                    await pool.close()

    async def _prepare(self, connection: Any) -> None:
        await create_tables(connection, self._address)

    def _failure(self, error: Exception) -> StoreFailed:
        state = getattr(error, "sqlstate", None) or "08"  # without a code: the connection
        advice = next((text for start, text in _ADVICE.items() if state.startswith(start)), "")
        reason = str(error).rstrip(".")
        if isinstance(error, TimeoutError):
            reason = f"no reply within {self._timeout:g} seconds"
        if isinstance(error, ValueError):
            reason, advice = f"asyncpg cannot read the dsn ({type(error).__name__})", ""
        text = f"The PostgreSQL database {self._address} could not be used: {reason}. {advice}"
        return StoreFailed(text.rstrip())


def _only(kinds: Collection[str] | None) -> str:
    """Return the condition for kinds, with literal names, so that the server can plan for them."""
    if kinds is None:
        return ""
    known = ", ".join(f"'{kind}'" for kind in KINDS if kind in kinds)
    return f"AND kind IN ({known}) " if known else "AND false "


def _columns(records: Iterable[Record]) -> tuple[list[str], list[str]]:
    """Return the kinds and the bodies of the records."""
    return [record.kind for record in records], [record_to_json(record) for record in records]


async def _keep_settings(connection: Any) -> None:
    """Skip the reset, a round trip: no method changes a connection's settings."""


def _address(dsn: str) -> str:
    """Return the host and database of a dsn, without the user and the password.

    An unescaped character in a password moves the start of the host, so such a dsn is refused.
    """
    found = _DSN.fullmatch(dsn)
    if found is None:
        raise ValueError(
            "A dsn is postgresql://user:password@host:5432/database; escape characters such as "
            "@ : / ? # in the password with urllib.parse.quote(password, safe='')."
        )
    host = found[1] or parse_qs(found[3] or "").get("host", ["localhost"])[-1]
    return host + (found[2] or "")


def _asyncpg() -> ModuleType:
    try:
        return import_module("asyncpg")
    except ImportError:
        raise ContextError(
            "PostgresStore requires the asyncpg library: pip install 'llm-stages[postgres]'."
        ) from None
