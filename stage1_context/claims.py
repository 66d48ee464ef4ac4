"""Write about a call only what nobody else has written: a call is begun once, and has one result.

Two processes may go on with the same session, such as one that is still at it and one that takes it for dead. Whoever
comes second is told, and neither runs the tool again nor adds a second result. Used by `transcript`.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from stage1_context.errors import SessionConflict
from stage1_context.journal import CallStartedRecord, MessageRecord, Record, RepairRecord
from stage1_context.store import SessionStore

ClaimRecord = CallStartedRecord | MessageRecord
"""That a call begins, or its result."""


class Write(Protocol):
    """Add records to a journal, if it has as many as expected; else SessionConflict."""

    async def __call__(self, *records: Record, expected: int | None = None) -> int:
        """Returns how many there are then."""


def calls_of(record: Record) -> set[str]:
    """The calls that a record begins, answers or closes."""
    match record:
        case CallStartedRecord(call_id):
            return {call_id}
        case MessageRecord(message) if message.tool_call_id:
            return {message.tool_call_id}
        case RepairRecord(inserted):
            return {message.tool_call_id for _, message in inserted if message.tool_call_id}
    return set()


class Claims:
    """What one run writes about the calls of a message.

    Args:
        store: Where the journal is.
        session_id: Which journal.
        write: Adds records, if there are as many as expected.
        seen: How many records there were when the calls were nobody's yet.
    """

    def __init__(self, store: SessionStore, session_id: str, write: Write, seen: int) -> None:
        self._store, self._session_id, self._write = store, session_id, write
        self._seen = seen
        self._taken = set[str]()
        self._one_at_a_time = asyncio.Lock()  # so that whatever is new was written by somebody else

    async def add(self, *records: ClaimRecord, skip: bool = False) -> None:
        """Add that calls begin, or their results: all, or none where somebody else has taken one of the calls.

        Args:
            records: What to add.
            skip: Leave out what is about calls that are taken, instead.

        Raises:
            SessionConflict: A call is taken; nothing was added.
        """
        async with self._one_at_a_time:
            while left := self._free(records, skip):
                with suppress(SessionConflict):
                    self._seen = await self._write(*left, expected=self._seen)
                    return
                await self._look()

    async def _look(self) -> None:
        news = await self._store.read(self._session_id, self._seen)
        self._taken.update(*(calls_of(record) for _, record in news))
        self._seen += len(news)

    def _free(self, records: Sequence[ClaimRecord], skip: bool) -> list[ClaimRecord]:
        free = [each for each in records if not calls_of(each) & self._taken]
        if len(free) < len(records) and not skip:
            raise SessionConflict(
                "Somebody else goes on with these calls: they were begun or answered elsewhere."
            )
        return free
