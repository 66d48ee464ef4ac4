"""Write about a call only what nobody else has written: a call is begun once, and has one result.

Two processes may go on with the same session, such as one that is still at it and one that takes it for dead. Whoever
comes second is told, and neither runs the tool again nor adds a second result. Used by `transcript`.
"""

from collections.abc import Iterable
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


async def claim(
    store: SessionStore, session_id: str, write: Write, records: Iterable[ClaimRecord], seen: int, skip: bool
) -> int:
    """Add records, unless somebody else has written about their calls; returns how many there are then.

    Args:
        store: Where the journal is.
        session_id: Which journal.
        write: Adds records, if there are as many as expected.
        records: All or none of them are added.
        seen: How many records the writer knows.
        skip: Leave out what is about calls that somebody else has taken.

    Raises:
        SessionConflict: Somebody else has taken one of the calls; nothing was added.
    """
    left = list(records)
    while left:
        with suppress(SessionConflict):  # there is something new: look whether it is about these calls
            return await write(*left, expected=seen)
        news = await store.read(session_id, seen)
        taken = set().union(*(calls_of(record) for _, record in news))
        seen += len(news)
        free = [each for each in left if not calls_of(each) & taken]
        if len(free) < len(left) and not skip:
            raise SessionConflict(
                "Somebody else goes on with these calls: they were begun or answered elsewhere."
            )
        left = free
    return seen
