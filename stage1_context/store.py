"""Where journals are kept.

A store keeps records in order and nothing more: it does not know what a window or a summary is.
Records are only appended. `MemoryStore` forgets everything when the process ends; `sqlite` and
`postgres` keep the same promises on disk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from stage1_context.errors import SessionConflict, SessionExists, SessionNotFound
from typing import TYPE_CHECKING
from stage1_context.journal import Record, record_to_json

T = TypeVar("T")
if TYPE_CHECKING:
    from stage1_context.history import MessageHistory


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A line in a list of sessions.

    Attributes:
        id: Its name.
        records: How many records its journal holds.
        created: When it began, in UTC.
        updated: When it was last written to, in UTC.
    """

    id: str
    records: int
    created: datetime
    updated: datetime


class SessionStore(Protocol):
    """A place for journals.

    Every method that is given an id raises SessionNotFound where there is no such session (`create`
    the opposite), and every method StoreFailed where the place cannot be reached. What is read is
    what was appended: a writer does not read its own records again.
    """

    async def create(self, session_id: str, *records: Record) -> None:
        """Begin a journal with these records, all or nothing.

        Raises:
            SessionExists: There is one.
            ValueError: The id cannot be one, or a record cannot be written.
        """

    async def append(self, session_id: str, *records: Record, expected: int | None = None) -> int:
        """Add records: all or none of them, one behind the other, whoever else writes.

        Args:
            session_id: Which journal.
            records: What to add.
            expected: How many records the writer has seen; None adds whatever is there.

        Returns:
            How many the journal now holds.

        Raises:
            SessionConflict: There are more than expected; nothing was added.
        """

    async def read(
        self,
        session_id: str,
        start: int = 0,
        end: int | None = None,
        *,
        kinds: Collection[str] | None = None,
    ) -> list[tuple[int, Record]]:
        """Records and their indices from `start` up to, not including, `end`, oldest first.

        Args:
            session_id: Which journal.
            start: The first index.
            end: The index to stop before; None reads on to the end.
            kinds: Only records of these kinds; None takes all.
        """

    async def info(self, session_id: str) -> SessionInfo:
        """How many records a journal holds, and since when it is there."""

    async def sessions(self) -> list[SessionInfo]:
        """All sessions, the one that was written to last first."""

    async def delete(self, session_id: str) -> None:
        """Remove a session and its journal; this cannot be taken back."""

    async def aclose(self) -> None:
        """Let go of files and connections; whoever goes on using the store opens them again."""


class MemoryStore:
    """Journals in this process's memory.

    Args:
        journals: Records to begin with, by session id; they are copied.
    """

    def __init__(self, journals: Mapping[str, Iterable[Record]] | None = None) -> None:
        now = datetime.now(UTC)
        self._journals = {
            session_id: list(records) for session_id, records in (journals or {}).items()
        }
        self._times = dict.fromkeys(self._journals, (now, now))

    async def create(self, session_id: str, *records: Record) -> None:
        """Begin a journal."""
        check_session_id(session_id)
        if session_id in self._journals:
            raise session_exists(session_id)
        for each in records:
            record_to_json(each)  # raises for a record that could not be written to a file
        now = datetime.now(UTC)
        self._journals[session_id] = list(records)
        self._times[session_id] = (now, now)

    async def append(self, session_id: str, *records: Record, expected: int | None = None) -> int:
        """Add records; returns how many the journal now holds."""
        journal = self._journal(session_id)
        check_expected(session_id, expected, len(journal))
        for each in records:
            record_to_json(each)
        journal.extend(records)
        # The last one written to stands last, so that the newest are found first.
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
        """Records and their indices."""
        found = enumerate(self._journal(session_id)[start:end], start)
        return [(index, record) for index, record in found if kinds is None or record.kind in kinds]

    def history(
        self, session_id: str
    ) -> "MessageHistory":  # until stage 3 uses Transcript.messages
        from stage1_context.view.projection import history_of

        return history_of([*enumerate(self._journal(session_id))])

    async def info(self, session_id: str) -> SessionInfo:
        """How many records a journal holds, and since when it is there."""
        return SessionInfo(session_id, len(self._journal(session_id)), *self._times[session_id])

    async def sessions(self) -> list[SessionInfo]:
        """All sessions, the one that was written to last first."""
        return [await self.info(session_id) for session_id in reversed(self._times)]

    async def delete(self, session_id: str) -> None:
        """Remove a session."""
        self._journal(session_id)
        del self._journals[session_id], self._times[session_id]

    async def aclose(self) -> None:
        """Nothing to let go of: the journals stay."""

    def _journal(self, session_id: str) -> list[Record]:
        if session_id not in self._journals:
            raise session_not_found(session_id, list(self._times)[-5:])
        return self._journals[session_id]


def check_session_id(session_id: str) -> None:
    """Refuse what some store could not keep as an id, so that all stores take the same ones."""
    if not findable(session_id):
        raise ValueError(
            f"A session's id is some text that can be written to a file, not {session_id!r}."
        )


def findable(session_id: str) -> str:
    """The id, or no text at all, which no session has, where a database could not even be asked for
    it.
    """
    if not isinstance(session_id, str):
        raise ValueError(f"A session's id is text, not {type(session_id).__name__}.")
    try:
        session_id.encode()
    except UnicodeEncodeError:  # half of a character pair
        return ""
    return "" if "\0" in session_id else session_id


def check_expected(session_id: str, expected: int | None, there: int) -> None:
    """Refuse to add to a journal that has grown behind the writer's back."""
    if expected is not None and expected != there:
        raise SessionConflict(
            f"The session {session_id!r} has {there} records, not the {expected} that this writer has seen: "
            "somebody else wrote to it. Read what is new, and decide again."
        )


def session_exists(session_id: str) -> SessionExists:
    """The error for an id that is taken."""
    return SessionExists(
        f"There is a session {session_id!r} already. Use it, or choose another id."
    )


def session_not_found(session_id: str, some: Iterable[str]) -> SessionNotFound:
    """The error for an unknown id, with some that are there."""
    named = ", ".join(map(repr, some)) or "none yet"
    return SessionNotFound(
        f"There is no session {session_id!r}. Sessions: {named}. Create one with create_session()."
    )


async def run_shielded(write: Callable[[], Awaitable[T]], *, repeat: bool = True) -> T:
    """Run a write to its end, even if the caller is cancelled.

    The write runs in a task of its own. A cancellation is delivered after the write, at the
    caller's next wait, so the caller can rely on the result.

    `asyncio.run` cancels every task when it ends, also the write's own. Then the write may be
    stored or not, so it runs again.

    Args:
        write: The write. A repeated call must not add records that were already stored.
        repeat: False raises CancelledError instead of repeating the write.
    """
    is_cancelled = False
    while True:
        task = asyncio.ensure_future(write())
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                is_cancelled = True
        # A write may also raise CancelledError itself; then nobody cancelled the task.
        if not (repeat and task.cancelled() and task.cancelling()):
            break
    if is_cancelled and (caller := asyncio.current_task()):
        caller.cancel()
        caller.uncancel()  # this cancellation was counted when it was requested
    return task.result()
