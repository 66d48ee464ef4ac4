"""Repairing a history in which calls and results do not match: one result for each call, right
behind it.

Such a history is what a killed process leaves, or two that wrote at once. Nothing is edited: a
repair is a record that says what to show in addition, and what not to show. Knows nothing of tools;
whether an interrupted one did its work, nobody knows, and the result says so.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from stage0_gateway import Message, ToolCall
from stage1_context.journal import RepairRecord
from stage1_context.view.projection import View

_INTERRUPTED = (
    "[interrupted] The program ended before this call had a result. "
    "What it was to do may have happened or not; look before you do it again."
)


def repairs(entries: Iterable[tuple[int, Message]]) -> RepairRecord | None:
    """What it takes to make a history sound.

    Args:
        entries: Messages, each with the index of its record.

    Returns:
        The record to add, or None where nothing is wrong.
    """
    history = _Repairing()
    for index, message in entries:
        history.take(index, message)
    return history.record()


def repaired(messages: Iterable[Message]) -> list[Message]:
    """These messages, with one result for each call."""
    view, entries = View(), list(enumerate(messages))
    if record := repairs(entries):
        view.take(record)
    return [shown for index, message in entries for shown in view.repaired(index, message)]


@dataclass(eq=False)
class _Group:
    """A message with calls: the record its results stand behind, what still waits, and what came
    too late.
    """

    last: int
    late: list[Message] = field(default_factory=list)
    waiting: dict[str, ToolCall] = field(default_factory=dict)  # by the id that is shown …
    # … and by the id that was written, which one is shown
    shown: defaultdict[str, deque[str]] = field(default_factory=lambda: defaultdict(deque))


class _Repairing:
    """Where a history is gone through, message by message."""

    def __init__(self) -> None:
        self._current: _Group | None = None
        self._groups: list[_Group] = []
        # Earlier groups, by the id they wait for.
        self._open: defaultdict[str, deque[_Group]] = defaultdict(deque)
        self._numbers: dict[str, int] = {}
        self._ids = {""}  # no result can answer a call without an id, so it gets one
        # By record, because an earlier repair may show several messages there: what is shown now,
        # and what will be.
        self._before: defaultdict[int, list[Message]] = defaultdict(list)
        self._after: defaultdict[int, list[Message]] = defaultdict(list)

    def take(self, index: int, message: Message) -> None:
        """Look at the next message."""
        self._before[index].append(message)
        if message.role == "tool":
            self._result(index, message)
            return
        self._end_group()
        self._after[index].append(self._calls(index, message) if message.tool_calls else message)

    def record(self) -> RepairRecord | None:
        """Everything that was found, with a result for each call that has none."""
        for group in self._groups:
            self._after[group.last] += group.late
            self._after[group.last] += [
                Message.tool(_INTERRUPTED, shown, is_error=True, name=call.name)
                for shown, call in group.waiting.items()
            ]
        inserted, hidden = [], []
        for index, before in self._before.items():
            after = self._after[index]
            if after[: len(before)] == before:
                after = after[len(before) :]
            else:
                hidden.append(index)
            inserted += [(index, message) for message in after]
        return RepairRecord(tuple(inserted), tuple(hidden)) if inserted or hidden else None

    def _calls(self, index: int, message: Message) -> Message:
        """A message with calls begins a group; ids that were there before are changed."""
        group = self._current = _Group(index)
        self._groups.append(group)
        calls = tuple(replace(call, id=self._unused(call.id)) for call in message.tool_calls)
        for written, call in zip(message.tool_calls, calls, strict=True):
            group.waiting[call.id] = call
            group.shown[written.id].append(call.id)
        return message if calls == message.tool_calls else replace(message, tool_calls=calls)

    def _result(self, index: int, message: Message) -> None:
        """A result belongs to the group that waits for it: the current one, else the earliest, or
        none.
        """
        written = message.tool_call_id or ""
        if self._current and self._current.shown[written]:
            group = self._current
            group.last, place = index, self._after[index]
        elif self._open[written]:
            group = self._open[written].popleft()
            place = group.late
        else:
            return  # no call waits for it
        shown = group.shown[written].popleft()
        del group.waiting[shown]
        place.append(message if shown == written else replace(message, tool_call_id=shown))

    def _end_group(self) -> None:
        """What the current group still waits for may come late."""
        if self._current:
            for written, shown in self._current.shown.items():
                self._open[written].extend(self._current for _ in shown)
        self._current = None

    def _unused(self, wanted: str) -> str:
        number, id = self._numbers.get(wanted, 1), wanted
        while id in self._ids:
            number += 1
            id = f"{wanted or 'call'}-{number}"
        self._numbers[wanted] = number
        self._ids.add(id)
        return id
