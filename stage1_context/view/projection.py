"""`View`: which messages of a journal are shown, and how. The fold of its landmarks.

A journal is never edited; a landmark in it says how to look at what came before: a summary stands
for old messages, a broken history is repaired. Pure, and knows no window: of what is shown
here, a window takes what fits. Used by `tail` and `transcript`.
"""

from collections.abc import Iterable, Sequence

from stage0_gateway import Message
from stage1_context.history import MessageHistory
from stage1_context.journal import MessageRecord, Record, RepairRecord, SummaryRecord


class View:
    """How to look at the messages of one journal.

    Attributes:
        summary: What stands for the messages before `until`; empty for none.
        until: The index of the first record whose message is shown.
    """

    def __init__(self) -> None:
        self.summary = ""
        self.until = 0
        self._inserted: dict[int, list[Message]] = {}
        self._hidden: set[int] = set()

    def take(self, record: Record) -> None:
        """Take a landmark into account."""
        match record:
            case SummaryRecord(text, until):
                self.summary, self.until = text, max(0, until) if text else 0
            case RepairRecord(inserted, hidden):
                self._hidden.update(hidden)
                for index in hidden:
                    self._inserted.pop(index, None)
                for index, message in inserted:
                    self._inserted.setdefault(index, []).append(message)

    def repaired(self, index: int, message: Message) -> Sequence[Message]:
        """What the record at this index says, after repairs: itself, something else, more, or
        nothing.
        """
        if not (self._inserted or self._hidden):
            return (message,)
        itself = () if index in self._hidden else (message,)
        return (*itself, *self._inserted.get(index, ()))


def summary_message(summary: str) -> Message:
    """A summary as a model is shown it."""
    return Message.system(
        f"Summary of the conversation before the messages that follow:\n{summary}"
    )


def view_of(entries: Iterable[tuple[int, Record]]) -> View:
    """How the records of a journal say that it is to be looked at."""
    view = View()
    for _, record in entries:
        view.take(record)
    return view


def messages_of(entries: Iterable[tuple[int, Record]], view: View) -> list[tuple[int, Message]]:
    """All messages of a journal with the indices of their records, repaired where it was
    repaired.
    """
    return [
        (index, message)
        for index, record in entries
        if isinstance(record, MessageRecord)
        for message in view.repaired(index, record.message)
    ]


def history_of(entries: Sequence[tuple[int, Record]], view: View) -> MessageHistory:
    """All messages of a journal, repaired where it was, and which of them a summary has not
    replaced.
    """
    visible = (
        shown
        for index, record in entries
        if isinstance(record, MessageRecord) and (index >= view.until or record.kind == "system")
        for shown in view.repaired(index, record.message)
    )
    return MessageHistory((message for _, message in messages_of(entries, view)), visible)
