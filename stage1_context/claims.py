"""Append to a journal that others write to: each record once, each call begun once and answered once.

Two processes may continue the same session, for example when one takes the other for dead:

    A  begins call 1 ──────────────────── its result is refused: a SessionConflict, A begins nothing more
    B                 reads: 1 is begun ─ answers 1 ("may have happened"), begins 2, answers 2

The second writer gets a SessionConflict. It neither runs a tool again nor adds a second result.

An append that is cancelled may have been written or not. Every append here states how many records the journal has,
so the next one is refused if the first was written; then the journal is read. Used by `transcript`.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from stage1_context.concurrency import uninterrupted
from stage1_context.errors import SessionConflict
from stage1_context.journal import (
    TALK,
    CallFinishedRecord,
    CallStartedRecord,
    MessageRecord,
    Record,
    RepairRecord,
)
from stage1_context.store import SessionStore

ClaimRecord = CallStartedRecord | CallFinishedRecord | MessageRecord
"""The beginning of a call, its outcome, or its result."""


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


class Reply:
    """A reply or a question to add, unless another writer has replied: two replies at once would mix their calls.

    Args:
        store: Where the journal is.
        session_id: Which journal.
        append: Adds records, if there are as many as expected.
        seen: How many records the journal had when the conversation was read.
        records: What to add, all together.
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        append: Append,
        seen: int,
        records: Sequence[MessageRecord],
    ) -> None:
        self._store, self._session_id, self._append = store, session_id, append
        self._seen, self._records = seen, records
        self._unsure = False  # whether an attempt was interrupted, so that the records may be there

    async def add(self) -> int:
        """Add the records, unless an interrupted attempt has added them.

        Returns:
            How many records the journal held right after them.

        Raises:
            SessionConflict: Another writer has replied; nothing was added. Messages of people are no conflict.
        """
        while True:
            try:
                return await self._append(*self._records, expected=self._seen)
            except SessionConflict:
                if self._unsure and await self._is_written():
                    return self._seen + len(self._records)
                await self._look()
            except BaseException:
                self._unsure = True
                raise

    async def _is_written(self) -> bool:
        wanted = [*enumerate(self._records, self._seen)]
        return wanted == await self._store.read(self._session_id, self._seen, self._seen + len(wanted))

    async def _look(self) -> None:
        """Read what others have added."""
        length = (await self._store.info(self._session_id)).records
        news = await self._store.read(self._session_id, self._seen, length, kinds=TALK)
        if any(isinstance(each, MessageRecord) and each.message.role != "user" for _, each in news):
            raise SessionConflict(
                f"Somebody else goes on with the session {self._session_id!r}: a reply was added to it elsewhere. "
                "Read what is new, and decide again."
            )
        self._seen, self._unsure = length, False


class Claims:
    """What one run writes about the calls of a message.

    Args:
        store: Where the journal is.
        session_id: Which journal.
        append: Adds records, if there are as many as expected.
        seen: How many records there were when no run had begun the calls.
    """

    def __init__(self, store: SessionStore, session_id: str, append: Append, seen: int) -> None:
        self._store, self._session_id, self._append = store, session_id, append
        self._seen = seen
        self._taken = set[str]()  # calls that another run has begun or answered
        self.lost = False
        """Whether another run was met. This one then begins no further call, or both might give up."""
        self._written = set[tuple[type, str]]()  # what this run has written: the kind of record and the call
        self._unsure: list[ClaimRecord] = []  # what it may have written: the attempt was interrupted
        self._one_at_a_time = asyncio.Lock()  # so that all news was written by other runs, or is unsure

    async def add(self, *records: ClaimRecord, skip: bool = False) -> None:
        """Add that calls begin, or their results: all, or none where another run has taken one of the calls.

        What this run has added before is not added again, so a call never has two results.

        Args:
            records: What to add.
            skip: Leave out what is about calls that are taken, instead.

        Raises:
            SessionConflict: A call is taken; nothing was added.
        """
        await uninterrupted(self._store, lambda: self._add(records, skip))

    async def _add(self, records: Sequence[ClaimRecord], skip: bool) -> None:
        async with self._one_at_a_time:
            while left := self._left(records, skip):
                try:
                    self._seen = await self._append(*left, expected=self._seen)
                except SessionConflict:
                    await self._look()
                except BaseException:
                    self._unsure += left
                    raise
                else:
                    self._written.update(map(_key, left))
                    self._unsure.clear()  # those were refused, or else this would have been

    async def _look(self) -> None:
        """Find out whose the records are that were added since."""
        news = await self._store.read(self._session_id, self._seen)
        for _, record in news:
            if record in self._unsure:
                self._written.add(_key(record))
            else:
                self._taken.update(calls_of(record))
        self._seen += len(news)
        self._unsure.clear()

    def _left(self, records: Sequence[ClaimRecord], skip: bool) -> list[ClaimRecord]:
        """What is still to be added."""
        left = [each for each in records if _key(each) not in self._written]
        free = [each for each in left if not calls_of(each) & self._taken]
        if left and not skip and (self.lost or len(free) < len(left)):
            self.lost = True
            raise SessionConflict(
                "Somebody else goes on with these calls: they were begun or answered elsewhere."
            )
        return free


def _key(record: Record) -> tuple[type, str]:
    """What a run writes once: a call begins once, ends once, and has one result."""
    (call_id,) = calls_of(record)
    return type(record), call_id
