"""One solution of each exercise for lesson 2."""

from stage0_gateway import Message
from stage1_context import ContextEngine, MessageHistory, MessageRecord, RepairRecord, WindowPolicy


class FirstAndRecent:
    """Selects the first and the newest exchanges."""

    def __init__(self, first, recent):
        self.first = first
        self.recent = recent

    def select(self, system, rest, budget, /):
        exchanges = []
        for each in rest:
            # A tool result belongs to the exchange before it. Any other message begins one.
            if each.message.role == "tool" and exchanges:
                exchanges[-1].append(each)
            else:
                exchanges.append([each])
        # The newest part begins behind the first part at the earliest, so nothing is sent twice.
        newest = max(self.first, len(exchanges) - self.recent)
        selected = exchanges[: self.first] + exchanges[newest:]
        return [*system, *(each for exchange in selected for each in exchange)]


def first_and_recent(first: int, recent: int) -> WindowPolicy:
    return FirstAndRecent(first, recent)


async def fork(engine: ContextEngine, session_id: str, length: int) -> str:
    messages = (await engine.history(session_id)).messages[:length]
    # Remove messages from the end until each call has its results.
    while MessageHistory(messages).check_history():
        messages = messages[:-1]
    new = await engine.create_session()
    for message in messages:
        await engine.add_message(new, message)
    return new


async def take_back(engine: ContextEngine, session_id: str) -> Message | None:
    entries = await engine.store.read(session_id)
    # Earlier calls of this function have hidden some messages already.
    hidden = {
        index
        for _, record in entries
        if isinstance(record, RepairRecord)
        for index in record.hidden
    }
    shown = [
        (index, record.message)
        for index, record in entries
        if isinstance(record, MessageRecord)
        and record.message.role != "system"
        and index not in hidden
    ]
    questions = [number for number, (_, message) in enumerate(shown) if message.role == "user"]
    if not questions:
        return None
    last = shown[questions[-1] :]
    record = RepairRecord(hidden=tuple(index for index, _ in last))
    # The store raises SessionConflict if the journal has more records than were read.
    await engine.store.append(session_id, record, expected=len(entries))
    return last[0][1]
