"""Write about a call only what nobody else has written: a call is begun once, and has one result.

Two processes may go on with the same session, such as one that is still at it and one that takes it for dead:

    A  begins call 1 ──────────────────── its result is refused: a SessionConflict, A begins nothing more
    B                 reads: 1 is begun ─ answers 1 ("may have happened"), begins 2, answers 2

Whoever comes second is told, and neither runs a tool again nor adds a second result. A result may be left out where
another one is there; a beginning may not, because the tool would follow. Used by `transcript`.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from stage1_context.concurrency import to_its_end
from stage1_context.errors import SessionConflict
from stage1_context.journal import (
    TALK,
    CallFinishedRecord,
    CallStartedRecord,
    MessageRecord,
    Record,
    RepairRecord,
)
from stage1_context.store import MemoryStore, SessionStore

ClaimRecord = CallStartedRecord | CallFinishedRecord | MessageRecord
"""That a call begins, what came of it, or its result."""


class Append(Protocol):
    """Add records to a journal, if it has as many as expected; else SessionConflict."""

    async def __call__(self, *records: Record, expected: int | None = None) -> int:
        """Returns how many there are then."""


def calls_of(record: Record) -> set[str]:
    """The calls that a record begins, answers or closes."""
    match record:
        case CallStartedRecord(call_id) | CallFinishedRecord(call_id):
            return {call_id}
        case MessageRecord(message) if message.tool_call_id:
            return {message.tool_call_id}
        case RepairRecord(inserted):
            return {message.tool_call_id for _, message in inserted if message.tool_call_id}
    return set()


async def append_reply(
    store: SessionStore, session_id: str, append: Append, seen: int, *records: MessageRecord
) -> int:
    """Add a reply, or a question, if nobody else has replied since: two who go on at once would mix their calls.

    Args:
        store: Where the journal is.
        session_id: Which journal.
        append: Adds records, if there are as many as expected.
        seen: How many records there were when the conversation was looked at.
        records: What to add.

    Returns:
        How many records there are then.

    Raises:
        SessionConflict: Somebody else has; nothing was added. What people say meanwhile is no conflict.
    """
    while True:
        try:
            return await append(*records, expected=seen)
        except SessionConflict:
            seen, before = (await store.info(session_id)).records, seen
            news = await store.read(session_id, before, seen, kinds=TALK)
        if any(isinstance(each, MessageRecord) and each.message.role != "user" for _, each in news):
            raise SessionConflict(
                f"Somebody else goes on with the session {session_id!r}: a reply was added to it elsewhere. Read "
                "what is new, and decide again."
            )


class Claims:
    """What one run writes about the calls of a message.

    Args:
        store: Where the journal is.
        session_id: Which journal.
        append: Adds records, if there are as many as expected.
        seen: How many records there were when the calls were nobody's yet.
    """

    def __init__(self, store: SessionStore, session_id: str, append: Append, seen: int) -> None:
        self._store, self._session_id, self._append = store, session_id, append
        self._seen = seen
        self._taken = set[str]()
        self.lost = False
        """Whether somebody else was met: whoever was begins nothing more, or both might give up."""
        self._unsure: list[Record] = []  # perhaps written: the store failed
        self._one_at_a_time = asyncio.Lock()  # so that whatever is new was written by somebody else

    async def add(self, *records: ClaimRecord, skip: bool = False) -> None:
        """Add that calls begin, or their results: all, or none where somebody else has taken one of the calls.

        Args:
            records: What to add.
            skip: Leave out what is about calls that are taken, instead.

        Raises:
            SessionConflict: A call is taken; nothing was added.
        """
        if type(self._store) is MemoryStore:
            await self._add(records, skip)
        else:  # what was begun is ended also where a rival is looked at
            await to_its_end(self._add(records, skip))

    async def _add(self, records: Sequence[ClaimRecord], skip: bool) -> None:
        async with self._one_at_a_time:
            while left := self._free(records, skip):
                try:
                    self._seen = await self._append(*left, expected=self._seen)
                    return
                except SessionConflict:
                    pass
                except Exception:  # it may be there all the same
                    self._unsure += left
                    raise
                await self._look()

    async def _look(self) -> None:
        news = await self._store.read(self._session_id, self._seen)
        for _, record in news:
            if record in self._unsure:
                self._unsure.remove(record)
                if isinstance(record, CallStartedRecord):
                    continue  # our own, whose answer was lost
            self._taken.update(calls_of(record))
        self._seen += len(news)

    def _free(self, records: Sequence[ClaimRecord], skip: bool) -> list[ClaimRecord]:
        free = [each for each in records if not calls_of(each) & self._taken]
        if not skip and (self.lost or len(free) < len(records)):
            self.lost = True
            raise SessionConflict(
                "Somebody else goes on with these calls: they were begun or answered elsewhere."
            )
        return free
