"""Append to a journal that others write to: each record once, each call begun once and answered
once.

Two processes may continue the same session, for example when one takes the other for dead:

    A  begins call 1 ──────────────────── its result is refused: a SessionConflict, A begins nothing
    more B                 reads: 1 is begun ─ answers 1 ("may have happened"), begins 2, answers 2

The second writer gets a SessionConflict. It neither runs a tool again nor adds a second result.

An append that is cancelled may have been written or not. Every append here states how many records
the journal has, so the next one is refused if the first was written; then the journal is read. Used
by `transcript`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from stage1_context.errors import SessionConflict
from stage1_context.journal import (
    CallFinishedRecord,
    CallStartedRecord,
    MessageRecord,
    Record,
    RepairRecord,
)
from stage1_context.store import MemoryStore, SessionStore, run_shielded

ClaimRecord = CallStartedRecord | CallFinishedRecord | MessageRecord
"""The beginning of a call, its outcome, or its result."""


Append = Callable[..., Awaitable[int]]
"""`append(*records, expected=n)` adds records to a journal of n records, else raises
SessionConflict.

It returns how many records there are then.
"""


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


class Claims:
    """What one run writes: its replies, and what becomes of the calls of a message.

    Args:
        store: Where the journal is.
        session_id: Which journal.
        append: Adds records, if there are as many as expected.
        seen: How many records the journal had when the conversation was read.

    Attributes:
        lost: Whether another run was met. This one then begins no further call, or both might give
            up.
    """

    def __init__(self, store: SessionStore, session_id: str, append: Append, seen: int) -> None:
        self._store, self._session_id, self._append = store, session_id, append
        self._seen = seen
        self.lost = False
        self._taken = set[str]()  # calls that another run has begun or answered
        self._others_replied = False
        self._written = set[
            tuple[type, str]
        ]()  # what this run has written: the kind of record and the call
        self._unsure: list[
            list[Record]
        ] = []  # interrupted attempts, of which one may have been stored
        self._one_at_a_time = (
            asyncio.Lock()
        )  # so that all new records are of other runs, or of `_unsure`

    async def reply(self, *records: MessageRecord) -> int:
        """Add messages, all together. User messages that others add meanwhile are no conflict.

        Returns:
            How many records the journal held right after them.

        Raises:
            SessionConflict: Another writer has replied; nothing was added.
        """
        return int(await self._run(lambda: self._reply([*records])))

    async def add(self, *records: ClaimRecord, skip: bool = False) -> None:
        """Add that calls begin, or their results: all, or none where another run has taken one of
        the calls.

        What this run has added before is not added again, so a call never has two results.

        Args:
            records: What to add.
            skip: Leave out records of calls that are taken, instead.

        Raises:
            SessionConflict: A call is taken; nothing was added.
        """
        await self._run(lambda: self._add(records, skip))

    async def _run(self, write: Any) -> Any:
        return await (
            write() if type(self._store) is MemoryStore else run_shielded(lambda _: write())
        )

    async def _reply(self, records: list[Record]) -> int:
        while not self._others_replied:
            begin = self._seen
            if stored := await self._append_or_read(records):
                return begin + len(stored)
        raise SessionConflict(
            f"Somebody else goes on with the session {self._session_id!r}: a reply was added to it elsewhere. "
            "Read what is new, and decide again."
        )

    async def _add(self, records: Sequence[ClaimRecord], skip: bool) -> None:
        async with self._one_at_a_time:
            while left := self._left(records, skip):
                self._written.update(map(_key, await self._append_or_read(left)))

    async def _append_or_read(self, records: list[Record]) -> list[Record]:
        """Append the records, or read what was appended before them.

        Returns:
            Those records of this run that are known to be stored now.
        """
        try:
            self._seen = await self._append(*records, expected=self._seen)
        except SessionConflict:
            news = [record for _, record in await self._store.read(self._session_id, self._seen)]
            if not news:
                raise  # the session was deleted, and begun anew
        except BaseException:
            self._unsure.append(records)
            raise
        else:
            self._unsure.clear()  # those were refused, or else this would have been
            return records
        own = next((attempt for attempt in self._unsure if attempt == news[: len(attempt)]), [])
        for record in news[len(own) :]:
            self._taken |= calls_of(record)
            self._others_replied |= isinstance(record, MessageRecord) and record.message.role in (
                "assistant",
                "tool",
            )
        self._seen += len(news)
        self._unsure.clear()
        return own

    def _left(self, records: Sequence[ClaimRecord], skip: bool) -> list[Record]:
        """Return the records that are still to be added."""
        left = [each for each in records if _key(each) not in self._written]
        free: list[Record] = [each for each in left if not calls_of(each) & self._taken]
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
