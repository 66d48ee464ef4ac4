"""Repair a history in which calls and results do not match.

A killed process or two concurrent writers leave such a history. Nothing is edited: results for
unanswered calls are appended, and a repair record hides or replaces single messages. The module
does not know tools. Whether an interrupted tool did its work is unknown, and the result says so.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stage0_gateway import Message, ToolCall
from stage1_context.journal import MessageRecord, RepairRecord
from stage1_context.view.projection import Entry

_INTERRUPTED = (
    "[interrupted] The program ended before this call had a result. "
    "Its effect may have happened or not; check before you repeat it."
)


def repairs(
    exchanges: Iterable[Sequence[Entry]], skip: int | None = None
) -> list[RepairRecord | MessageRecord]:
    """Return the records that give each call an id of its own and one result.

    Args:
        exchanges: The messages as they are shown.
        skip: The index of a message with calls. Its exchange, which still runs, is not repaired.
    """
    numbers: dict[str, int] = {}
    interrupted: list[RepairRecord | MessageRecord] = []
    shown = defaultdict[int, list[Message]](list)  # by index, because a repair may show several
    changed = set[int]()
    for (index, message), *results in exchanges:
        if index == skip:
            continue
        if message.role == "tool":  # a result without a call
            changed.add(index)
            continue
        calls = tuple(replace(call, id=_unused(call.id, numbers)) for call in message.tool_calls)
        if calls != message.tool_calls:
            changed.add(index)
        shown[index].append(replace(message, tool_calls=calls))
        unanswered = defaultdict[str, list[ToolCall]](list)  # by the id before the repair
        for old, call in zip(message.tool_calls, calls, strict=True):
            unanswered[old.id].append(call)
        for result_index, result in results:
            call = unanswered[result.tool_call_id or ""].pop(0)
            if call.id != result.tool_call_id:
                changed.add(result_index)
            shown[result_index].append(replace(result, tool_call_id=call.id))
        for call in [call for left in unanswered.values() for call in left]:
            result = Message.tool(_INTERRUPTED, call.id, is_error=True, name=call.name)
            interrupted.append(MessageRecord(result))
    hidden = sorted(changed)
    inserted = tuple((index, message) for index in hidden for message in shown[index])
    return [RepairRecord(inserted, tuple(hidden)), *interrupted] if hidden else interrupted


def _unused(id: str, numbers: dict[str, int]) -> str:
    """Return the id, with a number if an earlier call has it.

    Args:
        id: The id.
        numbers: The ids of the earlier calls, and the last number that was added to each.
    """
    number, unused = numbers.get(id, 1), id
    while not unused or unused in numbers:
        number += 1
        unused = f"{id or 'call'}-{number}"
    numbers[id] = number
    numbers.setdefault(unused, 1)
    return unused
