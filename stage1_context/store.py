"""Where journals are kept.

A store keeps records in order and nothing more: it does not know what a window or a summary is. Records
are only appended. `MemoryStore` forgets everything when the process ends.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from stage1_context.errors import SessionExists, SessionNotFound
from stage1_context.journal import Record


class SessionStore(Protocol):
    """A place for journals."""

    async def create(self, session_id: str) -> None:
        """Begin an empty journal; raises SessionExists if there is one."""

    async def append(self, session_id: str, *records: Record) -> int:
        """Add records, all or none; returns how many the journal now holds. Raises SessionNotFound."""

    async def read(self, session_id: str, start: int = 0) -> list[Record]:
        """The records from an index on, oldest first. Raises SessionNotFound."""


class MemoryStore:
    """Journals in this process's memory.

    Args:
        journals: Records to begin with, by session id; they are copied.
    """

    def __init__(self, journals: Mapping[str, Iterable[Record]] | None = None) -> None:
        self._journals = {session_id: list(records) for session_id, records in (journals or {}).items()}

    async def create(self, session_id: str) -> None:
        """Begin an empty journal."""
        if session_id in self._journals:
            raise SessionExists(f"There is a session {session_id!r} already. Use it, or choose another id.")
        self._journals[session_id] = []

    async def append(self, session_id: str, *records: Record) -> int:
        """Add records; returns how many the journal now holds."""
        journal = self._journal(session_id)
        journal.extend(records)
        return len(journal)

    async def read(self, session_id: str, start: int = 0) -> list[Record]:
        """The records from an index on."""
        return self._journal(session_id)[start:]

    def _journal(self, session_id: str) -> list[Record]:
        if session_id not in self._journals:
            some = ", ".join(repr(each) for each in list(self._journals)[-5:]) or "none yet"
            raise SessionNotFound(
                f"There is no session {session_id!r}. Sessions: {some}. Create one with create_session()."
            )
        return self._journals[session_id]
