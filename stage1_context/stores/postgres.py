"""`PostgresStore`: journals in a PostgreSQL database, shared by several machines.

The store needs the `asyncpg` library: the extra `[postgres]`. It creates its tables,
`llm_stages_…`, at first use. Every method is one statement, so it happens wholly or not at all.
Writers to one session take turns; readers never wait. No error shows the password.

Covered: acknowledged records are on the server's disk · two writers never mix their records ·
several event
    loops, each with its own connections · tables of another version are refused · poolers such as
    PgBouncer.
Not covered: if a connection breaks during a write, the records may be stored or not; read before
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
from urllib.parse import parse_qs, urlsplit

from stage1_context.errors import ContextError, StoreFailed
from stage1_context.journal import KINDS, Record, record_from_json, record_to_json
from stage1_context.store import (
    SessionInfo,
    check_expected,
    check_session_id,
    searchable_id,
    session_exists,
    session_not_found,
)
from stage1_context.stores.postgres_schema import APPEND, CREATE, READ, SESSIONS, create_tables

_LARGEST_INTEGER = 2**31 - 1  # of a PostgreSQL column of type integer
_MOST_ATTEMPTS = 100
_CLOSING_TIMEOUT = 10.0  # seconds

_CHECK_SERVER = "Is the server running? If something was being written, look whether it is there before writing it again."
_ADVICE = {
    "08": _CHECK_SERVER,
    "26": "Behind a pooler, make the store with prepared=False.",
    "28": "Check the user and the password in the dsn.",
    "3D": "Create the database, or name another one in the dsn.",
    "42501": "At first use the user makes tables: grant CREATE on the schema.",
    "42P05": "Behind a pooler, make the store with prepared=False.",
    "42P07": "Somebody else's tables have these names; choose another database or schema.",
    "53": "The server has no room left; ask for fewer connections, or see what fills its disk.",
    "57": _CHECK_SERVER,
}
"""What to do, by the beginning of the server's error code."""

_HOST = r"([^:,\[\]]*|\[[^\]]*\])(:\d*)?"
_HOSTS = re.compile(f"{_HOST}(,{_HOST})*")


class PostgresStore:
    """Journals in a PostgreSQL database.

    Args:
        dsn: `postgresql://user:password@host:5432/database`; the password is never shown.
        connections: How many to open at most, in each event loop.
        patience: How many seconds to wait for an answer.
        prepared: Let the server remember statements, which saves a round trip each time. Say False
            behind a pooler that hands out connections by the transaction and does not know
            statements by name.

    Raises:
        ContextError: asyncpg is not installed.
        ValueError: The dsn is invalid, or `connections` is less than 1.
    """

    def __init__(
        self, dsn: str, *, connections: int = 10, patience: float = 30.0, prepared: bool = True
    ) -> None:
        _asyncpg()
        if connections < 1:
            raise ValueError(f"A store needs a connection, not {connections}.")
        self._address = _address(dsn)
        self._patience = patience
        self._options: dict[str, Any] = {
            "dsn": dsn,
            "min_size": 0,
            "max_size": connections,
            "timeout": patience,
            "command_timeout": patience,
            "statement_cache_size": 100 if prepared else 0,
            "init": self._prepare,
            "reset": _keep_settings,
        }
        self._pools: dict[asyncio.AbstractEventLoop, AsyncGenerator[Any, None]] = {}

    def __repr__(self) -> str:
        return f"PostgresStore({self._address!r})"

    async def create(self, session_id: str, *records: Record) -> None:
        """Begin a journal."""
        check_session_id(session_id)
        if not await self._fetch(CREATE, session_id, *_columns(records)):
            raise session_exists(session_id)

    async def append(self, session_id: str, *records: Record, expected: int | None = None) -> int:
        """Add records; returns how many the journal now holds."""
        seen = None if expected is None else min(expected, _LARGEST_INTEGER)
        columns = _columns(records)
        # Nothing grew: there is no such session, or it is longer than expected; both are said by
        # what is raised. If neither is true any more, somebody changed it back in between, and the
        # writer tries again.
        while not (grown := await self._fetch(APPEND, searchable_id(session_id), *columns, seen)):
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
        """Records and their indices."""
        stop = _LARGEST_INTEGER if end is None else min(end, _LARGEST_INTEGER)
        found = await self._fetch(
            READ.format(_only(kinds)), searchable_id(session_id), min(start, _LARGEST_INTEGER), stop
        )
        if not found:
            await self.info(session_id)  # which raises if there is no such session
        return [(index, record_from_json(body)) for index, body in found]

    async def info(self, session_id: str) -> SessionInfo:
        """How many records a journal holds, and since when it is there."""
        found = await self._fetch(f"{SESSIONS} WHERE id = $1", searchable_id(session_id))
        return SessionInfo(*found[0]) if found else await self._not_found(session_id)

    async def sessions(self) -> list[SessionInfo]:
        """All sessions, the one that was written to last first."""
        query = f"{SESSIONS} ORDER BY updated DESC, key DESC"
        return [SessionInfo(*row) for row in await self._fetch(query)]

    async def delete(self, session_id: str) -> None:
        """Remove a session."""
        query = "DELETE FROM llm_stages_session WHERE id = $1 RETURNING key"
        if not await self._fetch(query, searchable_id(session_id)):
            await self._not_found(session_id)

    async def aclose(self) -> None:
        """Close this event loop's connections; they are opened again when the store is used
        again.
        """
        if pools := self._pools.pop(asyncio.get_running_loop(), None):
            await pools.aclose()

    async def _not_found(self, session_id: str) -> NoReturn:
        query = "SELECT id FROM llm_stages_session ORDER BY updated DESC, key DESC LIMIT 5"
        raise session_not_found(session_id, [id for (id,) in reversed(await self._fetch(query))])

    async def _fetch(self, query: str, *arguments: object) -> list[Any]:
        """Return the rows of one statement. A statement that conflicts with another one is
        repeated.

        Raises:
            StoreFailed: The database cannot be reached, or refuses.
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
            raise self._failure(error) from None  # the error's own text may hold parts of the dsn
        raise StoreFailed(f"Too many others write to {self._address} at once. Try again later.")

    async def _pool(self) -> Any:
        """Return the running event loop's connection pool."""
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            for closed in [each for each in [*self._pools] if each.is_closed()]:
                self._pools.pop(closed, None)
            self._pools[loop] = self._open_pools()
        return await anext(self._pools[loop])

    async def _open_pools(self) -> AsyncGenerator[Any, None]:
        """Yield one connection pool again and again, and close it at the end.

        An event loop that ends closes its asynchronous generators, and thereby the connections.
        """
        pool = _asyncpg().create_pool(**self._options)
        await pool
        try:
            while True:
                yield pool
        finally:
            with suppress(
                Exception
            ):  # the server may be gone; connections that do not close in time are dropped
                async with asyncio.timeout(_CLOSING_TIMEOUT):
                    await pool.close()

    async def _prepare(self, connection: Any) -> None:
        await create_tables(connection, self._address)

    def _failure(self, error: Exception) -> StoreFailed:
        state = (
            getattr(error, "sqlstate", None) or "08"
        )  # an error without a code concerns the connection
        advice = next((text for start, text in _ADVICE.items() if state.startswith(start)), "")
        reason = str(error).rstrip(".")
        if isinstance(error, TimeoutError):
            reason = f"no answer within {self._patience:g} seconds"
        if isinstance(error, ValueError):
            reason, advice = f"asyncpg cannot read the dsn ({type(error).__name__})", ""
        return StoreFailed(
            f"The PostgreSQL database {self._address} could not be used: {reason}. {advice}".rstrip()
        )


def _only(kinds: Collection[str] | None) -> str:
    """The condition for some kinds. They are named in the statement, so that the server's plan is
    made for them.
    """
    if kinds is None:
        return ""
    known = ", ".join(f"'{kind}'" for kind in KINDS if kind in kinds)
    return f"AND kind IN ({known}) " if known else "AND false "


def _columns(records: Iterable[Record]) -> tuple[list[str], list[str]]:
    """The kinds and the bodies, which the server makes rows of."""
    return [each.kind for each in records], [record_to_json(each) for each in records]


async def _keep_settings(connection: Any) -> None:
    """Reset nothing: no method changes a connection's settings, and a reset costs a round trip."""


def _address(dsn: str) -> str:
    """Return the host and database of a dsn, without the user and the password.

    An unescaped sign in a password moves where the host begins, so a dsn that may contain one is
    refused.
    """
    try:
        parts = urlsplit(dsn)
        host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[-1]
        one_place = dsn.count("@") == parts.netloc.count("@") <= 1
        readable = (
            one_place and parts.scheme in ("postgresql", "postgres") and _HOSTS.fullmatch(host)
        )
    except ValueError:
        readable = None
    if not readable:
        raise ValueError(
            "A dsn is postgresql://user:password@host:5432/database; signs such as @ : / ? # in the password "
            "are written as urllib.parse.quote(password, safe='') writes them."
        )
    return f"{host or 'localhost'}{parts.path}"


def _asyncpg() -> ModuleType:
    try:
        return import_module("asyncpg")
    except ImportError:
        raise ContextError(
            "PostgresStore needs the asyncpg library: pip install 'llm-stages[postgres]'."
        ) from None
