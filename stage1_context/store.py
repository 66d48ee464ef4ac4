"""`SessionStore`: stores the journals of sessions; `MemoryStore` is the simplest one.

A store appends and reads records. It does not know windows, summaries or messages. The rooms
`stores/sqlite` and `stores/postgres` make the same promises on disk.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from stage1_context.errors import (
    ContextError,
    SessionConflict,
    SessionExists,
    SessionNotFound,
    StoreFailed,
)
from stage1_context.journal import CallStartedRecord, MessageRecord, Record, record_to_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session in a list of sessions.

    Attributes:
        id: The session's id.
        records: The number of records in its journal.
        created: The time of its creation, in UTC.
        updated: The time of its last write, in UTC.
    """

    id: str
    records: int
    created: datetime
    updated: datetime


class SessionStore(Protocol):
    """Stores journals.

    `llm_stages.testing.StoreContract` tests these promises with any store:

    - A session id is non-empty text that UTF-8 can encode, without NUL. `check_session_id` refuses
      every other one in `create`; for the other methods, it is an unknown session. Two ids are the
      same session only if all of their characters are equal.
    - `read` returns records that are equal to the appended ones. `record_to_json` writes
      any record as text that UTF-8 can encode, and `record_from_json` reads it, also with half of
      a surrogate pair or an integer larger than 64 bits. The attribute `kind` of a record is the
      text to compare with `kinds`. The values of a record are never changed, so a store may return
      the same objects again.
    - Several stores, also of several processes, may use the same journals. The records of one
      append or create stay together, none is lost, and a reader sees all of them or none. There may
      be many thousands: an imported session is created with its whole journal.
    - A cancelled append stores all of its records or none, at the latest before the next operation
      of the same store.
    - A store never repeats a write whose result it does not know. Switch off the retries of a
      client library that repeats requests after a lost connection.
    - One store may be used from several event loops, one after another. A loop may end without
      `aclose`, which closes the store for all loops.

    Every method with a session id raises SessionNotFound for an unknown session, except `create`.
    Every method raises StoreFailed if the storage cannot be used, or contains a record that
    `record_from_json` refuses; a write may be stored or not then. If several errors apply, a store
    raises any of them.

    The engine reads the system, summary and repair records of a whole journal at the first use of a
    session, and otherwise ranges near its end. An index of kinds makes long journals fast.
    """

    async def create(self, session_id: str, *records: Record) -> None:
        """Create a journal with these records.

        Raises:
            SessionExists: The session exists already; its journal is unchanged.
            ValueError: The id is invalid, or JSON cannot hold a record; nothing was created.
        """

    async def append(self, session_id: str, *records: Record, expected: int | None = None) -> int:
        """Append records, all or none, without records of other writers between them.

        Args:
            session_id: The session.
            records: The records.
            expected: The exact number of records that the journal must have before the append; None
                does not compare.

        Returns:
            The number of records in the journal, with these.

        Raises:
            SessionConflict: The journal has another number of records; nothing was appended.
            ValueError: JSON cannot hold a record; nothing was appended.
        """

    async def read(
        self,
        session_id: str,
        start: int = 0,
        end: int | None = None,
        *,
        kinds: Collection[str] | None = None,
    ) -> list[tuple[int, Record]]:
        """Return records with their indices, oldest first.

        Args:
            session_id: The session.
            start: The first index, from 0. It may be an integer of any size, also one after the
                last record.
            end: The index after the last one to return, from 0, or an integer of any size; None
                reads to the end. An end at or before the start returns nothing.
            kinds: The kinds of records to return, such as "message"; None returns all, and an empty
                collection none.
        """

    async def info(self, session_id: str) -> SessionInfo:
        """Return the number of records and the times of a session."""

    async def sessions(self) -> list[SessionInfo]:
        """Return all sessions, the last written one first, also after writes in the same moment.

        An append without records is a write, a refused one is not. A session that is deleted at the
        same time is listed or not.
        """

    async def delete(self, session_id: str) -> None:
        """Delete a session and its journal. A new session with its id is empty."""

    async def aclose(self) -> None:
        """Close files and connections, also a second time. Later uses raise StoreFailed."""


class MemoryStore:
    """Journals in the memory of this process.

    Args:
        journals: Initial records by session id; they are copied.
    """

    def __init__(self, journals: Mapping[str, Iterable[Record]] | None = None) -> None:
        now = datetime.now(UTC)
        self._journals = {id: list(records) for id, records in (journals or {}).items()}
        self._is_closed = False
        # By the time of the last write, oldest first.
        self._times = dict.fromkeys(self._journals, (now, now))

    async def create(self, session_id: str, *records: Record) -> None:
        """Create a journal."""
        check_session_id(session_id)
        if self._is_closed:
            raise store_closed(self)
        if session_id in self._journals:
            raise SessionExists(session_id)
        _check_json(records)
        now = datetime.now(UTC)
        self._journals[session_id] = list(records)
        self._times[session_id] = (now, now)

    async def append(self, session_id: str, *records: Record, expected: int | None = None) -> int:
        """Append records; return the number of records in the journal."""
        journal = self._journal(session_id)
        check_expected(session_id, expected, len(journal))
        _check_json(records)
        journal.extend(records)
        created, _ = self._times.pop(session_id)
        self._times[session_id] = (created, datetime.now(UTC))
        return len(journal)

    async def read(
        self,
        session_id: str,
        start: int = 0,
        end: int | None = None,
        *,
        kinds: Collection[str] | None = None,
    ) -> list[tuple[int, Record]]:
        """Return records with their indices."""
        found = enumerate(self._journal(session_id)[start:end], start)
        return [entry for entry in found if kinds is None or entry[1].kind in kinds]

    async def info(self, session_id: str) -> SessionInfo:
        """Return the number of records and the times of a session."""
        return SessionInfo(session_id, len(self._journal(session_id)), *self._times[session_id])

    async def sessions(self) -> list[SessionInfo]:
        """Return all sessions, the last written one first."""
        if self._is_closed:
            raise store_closed(self)
        return [await self.info(session_id) for session_id in reversed(self._times)]

    async def delete(self, session_id: str) -> None:
        """Delete a session."""
        self._journal(session_id)
        del self._journals[session_id], self._times[session_id]

    async def aclose(self) -> None:
        """Remove all journals. Later uses raise StoreFailed."""
        self._is_closed = True
        self._journals, self._times = {}, {}

    def records(self, session_id: str) -> list[Record]:
        """Return all records of a session without waiting."""
        return list(self._journal(session_id))

    def _journal(self, session_id: str) -> list[Record]:
        if session_id not in self._journals:
            raise self._missing(session_id)
        return self._journals[session_id]

    def _missing(self, session_id: str) -> ContextError:
        if self._is_closed:
            return store_closed(self)
        searchable_id(session_id)  # raises if it is not a text
        return SessionNotFound(session_id, list(self._times)[-5:])


def _check_json(records: Iterable[Record]) -> None:
    """Refuse records that the other stores could not write as JSON."""
    for record in records:
        is_text = isinstance(record, CallStartedRecord) or (
            isinstance(record, MessageRecord)
            and record.details is None
            and isinstance(record.message.content, str)
            and not any(call.provider_data for call in record.message.tool_calls)
        )
        if not is_text:
            record_to_json(record)


class LoopLock:
    """A lock for each event loop, because a lock of a former loop may be held or bound to it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.Lock:
        """Return the lock of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock


async def run_shielded(write: Callable[[bool], Awaitable[T]], *, repeat: bool = True) -> T:
    """Run a write to its end, even if the caller is cancelled.

    The write runs in a task of its own. A cancellation is delivered after the write, at the
    caller's next wait, so the caller can rely on the result.

    `asyncio.run` cancels every task when it ends, also the write's own. Then the records may be
    stored or not, so the write runs again.

    Args:
        write: The write. Its argument states whether it is repeated. Then it must not append again
            what is stored already.
        repeat: False raises CancelledError instead of repeating the write.
    """
    is_cancelled = is_repeated = False
    while True:
        task = asyncio.ensure_future(write(is_repeated))
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                is_cancelled = True
        # A write may also raise CancelledError itself. Then its task was not cancelled.
        if not (repeat and task.cancelled() and task.cancelling()):
            break
        is_repeated = True
    if is_cancelled and (caller := asyncio.current_task()):
        caller.cancel()
        caller.uncancel()  # this cancellation was counted when it was requested
    return task.result()


def check_session_id(session_id: str) -> None:
    """Refuse an id that one of the stores could not hold.

    Raises:
        ValueError: The id is not text, is empty, contains NUL, or UTF-8 cannot encode it.
    """
    if not searchable_id(session_id):
        raise ValueError(
            "A session id is non-empty text that UTF-8 can encode, without NUL, "
            f"not {session_id!r}."
        )


def searchable_id(session_id: str) -> str:
    """Return the id, or an empty text, which no session has, if a database would refuse it."""
    if not isinstance(session_id, str):
        raise ValueError(_not_text(session_id))
    try:
        session_id.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return ""
    return "" if "\0" in session_id else session_id


def _not_text(value: object) -> str:
    hint = " Await it: id = await engine.create_session()." if inspect.isawaitable(value) else ""
    return f"A session id is text, not {type(value).__name__}.{hint}"


def check_expected(session_id: str, expected: int | None, records: int) -> None:
    """Refuse an append unless the journal has exactly the expected number of records."""
    if expected is not None and expected != records:
        raise SessionConflict(
            f"The session {session_id!r} has {records} records, not {expected}: another writer "
            "appended to it. Read the new records and decide again."
        )


def store_closed(store: object) -> StoreFailed:
    """Return the error for a store that is used after `aclose`."""
    return StoreFailed(
        f"This {type(store).__name__} was closed, by aclose() or at the end of an `async with` "
        "block. Use it inside of the block, or create another one."
    )
