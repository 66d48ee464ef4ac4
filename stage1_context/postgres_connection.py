"""Reaching a PostgreSQL database: one statement at a time, on connections of the running event loop.

Used by `PostgresStore` only. Knows the `asyncpg` library and its errors, none of which ever show a password,
and nothing of records.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from stage1_context.errors import ContextError, StoreFailed
from stage1_context.postgres_schema import bring_up_to_date

_TRIES = 100
_PARTING = 10.0  # seconds until connections that do not close are dropped
_HOST = r"([^:,\[\]]*|\[[^\]]*\])(:\d*)?"
_HOSTS = re.compile(f"{_HOST}(,{_HOST})*")

_UNSURE = (
    "Is the server running? If something was being written, look whether it is there before writing it again."
)
_ADVICE = {
    "08": _UNSURE,
    "26": "Behind a pooler, make the store with prepared=False.",
    "28": "Check the user and the password in the dsn.",
    "3D": "Create the database, or name another one in the dsn.",
    "42501": "At first use the user makes tables: grant CREATE on the schema.",
    "42P05": "Behind a pooler, make the store with prepared=False.",
    "42P07": "Somebody else's tables have these names; choose another database or schema.",
    "53": "The server has no room left; ask for fewer connections, or see what fills its disk.",
    "57": _UNSURE,
}
"""What to do, by the beginning of the server's error code."""


class Database:
    """A PostgreSQL database, reached from any event loop.

    Args:
        dsn: `postgresql://user:password@host:5432/database`.
        connections: How many to open at most, in each event loop.
        patience: How many seconds to wait for an answer.
        prepared: Whether the server may remember statements.

    Raises:
        ContextError: asyncpg is not installed.
        ValueError: The dsn cannot be read, or there would be no connection.
    """

    def __init__(self, dsn: str, connections: int, patience: float, prepared: bool) -> None:
        _asyncpg()
        if connections < 1:
            raise ValueError(f"A store needs a connection, not {connections}.")
        self.address = _address(dsn)
        self._patience = patience
        self._options: dict[str, Any] = {
            "dsn": dsn,
            "max_size": connections,
            "timeout": patience,
            "command_timeout": patience,
            "statement_cache_size": 100 if prepared else 0,
        }
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}

    async def fetch(self, query: str, *arguments: object) -> list[Any]:
        """The rows of one statement, which is repeated if another one got in its way.

        Raises:
            StoreFailed: The database cannot be reached, or refuses.
        """
        pg = _asyncpg()
        try:
            for _ in range(_TRIES):
                with suppress(pg.SerializationError, pg.DeadlockDetectedError):
                    return await self._pool().fetch(query, *arguments)
                await asyncio.sleep(random.uniform(0, 0.05))
        except (pg.PostgresError, pg.InterfaceError, pg.InternalClientError, OSError, ValueError) as error:
            raise self._failed(error) from None  # its own text may hold parts of the dsn
        raise StoreFailed(f"Too many others write to {self.address} at once. Try again later.")

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        if pool := self._pools.pop(asyncio.get_running_loop(), None):
            await pool.aclose()

    def _pool(self) -> "_Pool":
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            for ended in [each for each in [*self._pools] if each.is_closed()]:
                self._pools.pop(ended, None)
            self._pools[loop] = _Pool(self.address, self._options)
        return self._pools[loop]

    def _failed(self, error: Exception) -> StoreFailed:
        state = getattr(error, "sqlstate", None) or "08"  # what has no code is trouble with the connection
        advice = next((text for start, text in _ADVICE.items() if state.startswith(start)), "")
        said = str(error).rstrip(".")
        if isinstance(error, TimeoutError):
            said = f"no answer within {self._patience:g} seconds"
        if isinstance(error, ValueError):
            said, advice = f"asyncpg cannot read the dsn ({type(error).__name__})", ""
        return StoreFailed(
            f"The PostgreSQL database {self.address} could not be used: {said}. {advice}".rstrip()
        )


class _Pool:
    """The connections of one event loop, which closes them in the end if nobody did so before.

    An event loop ends the asynchronous generators that were begun in it before it closes, so the connections
    are kept by one. It lives as long as they do: asyncpg's pool holds `_prepare`, which holds this object.
    """

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self._address = address
        self._options = options
        self._keeper = self._keep()
        self._pool: Any = None

    async def fetch(self, query: str, *arguments: object) -> list[Any]:
        if self._pool is None:
            self._pool = await anext(self._keeper)  # which waits for nothing, so nobody gets in between
        return list(await self._pool.fetch(query, *arguments))

    async def aclose(self) -> None:
        await self._keeper.aclose()

    async def _keep(self) -> AsyncGenerator[Any, None]:
        pool = _asyncpg().create_pool(min_size=0, init=self._prepare, reset=_leave, **self._options)
        await pool
        try:
            yield pool
        finally:
            with suppress(Exception):  # the server may be gone; what does not close in time is dropped
                async with asyncio.timeout(_PARTING):
                    await pool.close()

    async def _prepare(self, connection: Any) -> None:
        await bring_up_to_date(connection, self._address)


async def _leave(connection: Any) -> None:
    """Nothing was changed about the connection, so nothing is put back; that would be another round trip."""


def _address(dsn: str) -> str:
    """Where a dsn leads, without the user and the password.

    A password with an unescaped sign ends in the wrong place, so a dsn that may hold one is not used at all.
    """
    try:
        parts = urlsplit(dsn)
        host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[-1]
        one_place = dsn.count("@") == parts.netloc.count("@") <= 1
        readable = one_place and parts.scheme in ("postgresql", "postgres") and _HOSTS.fullmatch(host)
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
