"""Calls that have no result yet: asked about, begun, or neither.

What a run needs to know that goes on where another one stopped: after somebody consented, or after
a crash. Pure; used by `transcript`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stage0_gateway import Message, ToolCall
from stage1_context.journal import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    Record,
)


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """The calls of one message that have no result.

    Attributes:
        message: The message that holds them.
        calls: The calls without a result, in order.
        started: Ids of those that were begun; such a one may have done its work.
        pending: Ids of those that wait for consent and were not begun.
        finished: What came of those that have ended, by id: only their place in the history was not
            there yet.
        records: How many records the journal had then: whoever goes on with the calls claims them
            from there.
    """

    message: Message
    calls: tuple[ToolCall, ...]
    started: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    finished: Mapping[str, CallFinishedRecord] = field(default_factory=dict, hash=False)
    records: int = field(default=0, compare=False)


def open_calls(exchange: Sequence[Message], notes: Iterable[Record], records: int = 0) -> OpenCalls:
    """Return the open calls of an exchange.

    Args:
        exchange: A message with calls, and the results behind it.
        notes: What was recorded since that message, oldest first.
        records: How many records there were.
    """
    answered = {each.tool_call_id for each in exchange[1:]}
    calls = tuple(call for call in exchange[0].tool_calls if call.id not in answered)
    ids = {call.id for call in calls}
    started, pending, finished = set[str](), set[str](), dict[str, CallFinishedRecord]()
    for note in notes:
        if isinstance(note, CallStartedRecord):
            started.add(note.call_id)
        elif isinstance(note, ApprovalPendingRecord):
            pending.add(note.call_id)
        elif (
            isinstance(note, CallFinishedRecord)
            and note.call_id in ids
            and note.message is not None
        ):
            finished[note.call_id] = note
    waiting = pending & ids - started
    return OpenCalls(
        exchange[0], calls, frozenset(started & ids), frozenset(waiting), finished, records
    )
