"""`OpenCalls`: the calls of a message that have no result yet, and their progress.

A run needs them to resume: after an approval, or after a crash. Pure; used by `transcript`.
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
    """The calls of one message without a result.

    Attributes:
        message: The message with the calls.
        calls: The calls without a result, in order.
        started: The ids of those that were started. Such a tool may have done its work.
        pending: The ids of those that wait for approval and were not started.
        finished: The outcomes, by id, of those that ended before a call in front of them.
        records: The number of records in the journal when the calls were read.
    """

    message: Message
    calls: tuple[ToolCall, ...]
    started: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    finished: Mapping[str, CallFinishedRecord] = field(default_factory=dict, hash=False)
    records: int = field(default=0, compare=False)


def open_calls(
    exchange: Sequence[Message], progress: Iterable[Record], records: int = 0
) -> OpenCalls:
    """Return the open calls of an exchange.

    Args:
        exchange: A message with calls, and their results.
        progress: The progress records after that message, oldest first.
        records: The number of records in the journal.
    """
    answered = {result.tool_call_id for result in exchange[1:]}
    calls = tuple(call for call in exchange[0].tool_calls if call.id not in answered)
    ids = {call.id for call in calls}
    started, pending, finished = set[str](), set[str](), dict[str, CallFinishedRecord]()
    for record in progress:
        match record:
            case CallStartedRecord(call_id):
                started.add(call_id)
            case ApprovalPendingRecord(call_id):
                pending.add(call_id)
            case CallFinishedRecord(call_id, message=Message()) if call_id in ids:
                finished[call_id] = record
    waiting = frozenset(pending & ids - started)
    return OpenCalls(exchange[0], calls, frozenset(started & ids), waiting, finished, records)
