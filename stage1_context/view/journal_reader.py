"""Read a journal: once, from its end backward, and then incrementally.

A window shows the end of a conversation, so opening a session of a million messages costs what its
window needs. Later readings start where the last one ended. After a summary or a repair record the
journal is opened again. The module knows no window: `selection` reads back until the window is
full.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from stage0_gateway import Message
from stage1_context.journal import (
    CONTROL_KINDS,
    MESSAGE_KINDS,
    VIEW_KINDS,
    MessageRecord,
    Record,
    RepairRecord,
)
from stage1_context.store import LoopLock, SessionInfo, SessionStore
from stage1_context.tokens import Counted, TokenCounter
from stage1_context.view.projection import Entry, Projection, exchanges_of, summary_message

_LARGEST_PAGE = 4096


class JournalReader:
    """The newest messages of one journal, with each tool result directly behind its call.

    Args:
        store: The store of the journal.
        session_id: The journal's id.
        counter: Counts tokens. Also an attribute.
        summaries: False ignores summaries, so that all messages are shown.
        page: The number of records in the first page; each further page is twice as long.

    Attributes:
        system: All system messages, oldest first.
        summary: The message that replaces the summarized messages, or None.
        messages: The newest of the other messages, oldest first, in whole exchanges.
        results: The results whose calls were not read, or are already answered, or do not exist.
        projection: The effect of summaries and repairs.
        length: The number of records when the journal was read or written last.
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        counter: TokenCounter,
        *,
        summaries: bool = True,
        page: int = 32,
    ) -> None:
        self.counter = counter
        self.system: list[Counted] = []
        self.summary: Counted | None = None
        self.messages: list[Counted] = []
        self.results: list[Entry] = []
        self.projection = Projection()
        self.length = 0
        self._store = store
        self._session_id = session_id
        self._summaries = summaries
        self._first_page = self._page = page
        self._lock = LoopLock()  # held while records are read
        self._begin = 0  # the records from here to `length` were read
        self._created: datetime | None = None
        self._is_stale = True  # the journal must be opened again
        self._call_ids: set[str] | None = None  # of all calls; None until they are needed
        self._newest: _UnansweredCalls | None = None  # None until a result needs them

    @property
    def has_all(self) -> bool:
        """Whether all messages that are shown were read."""
        return self._begin <= self.projection.until

    async def read_new(self) -> None:
        """Read the records that were added since the last reading."""
        async with self._lock.get():
            info = await self._store.info(self._session_id)
            if info.created != self._created:  # the first reading, or another journal with this id
                self._created, self._is_stale, self._call_ids = info.created, True, None
            elif info.records > self.length and not self._is_stale:
                kinds, start = VIEW_KINDS, self.length
                new = await self._store.read(self._session_id, start, info.records, kinds=kinds)
                self._take(new, info.records)
            if self._is_stale:
                await self._open(info)
        if not self.messages:
            await self.read_back()

    def on_append(self, records: Sequence[Record], length: int) -> None:
        """Take records that this process appended, unless others were appended before them.

        `length` is the number of records in the journal, with these.
        """
        is_next = length == self.length + len(records)
        if is_next and not self._is_stale and not self._lock.get().locked():
            self._take(enumerate(records, self.length), length)

    async def read_back(self) -> None:
        """Read older messages, at least one exchange if there is one."""
        count = len(self.messages)
        while len(self.messages) == count and not self.has_all:
            async with self._lock.get():
                await self._read_page()

    async def newest_exchange(self) -> Sequence[Counted]:
        """Return the newest reply and the results of its calls; empty without a reply."""
        await self.read_new()
        while True:
            end = len(self.messages)
            for start in range(end - 1, -1, -1):
                role = self.messages[start].message.role
                if role == "assistant":
                    return self.messages[start:end]
                if role == "user":
                    end = start
            if self.has_all:
                return ()
            await self.read_back()

    async def unused_call_ids(self, ids: Iterable[str]) -> list[str]:
        """Return ids that no call in this journal has, and reserve them.

        The first use reads all calls of the journal; only their ids stay in memory.

        Args:
            ids: The preferred ids. Each is returned if it is unused and not empty.
        """
        async with self._lock.get():
            if self._call_ids is None:
                kinds = ("call", "repair")  # a repair may show calls with new ids
                calls = await self._store.read(self._session_id, 0, self.length, kinds=kinds)
                self._call_ids = set()
                for _, record in calls:
                    self._call_ids.update(_call_ids(record))
        unused = []
        for id in ids:
            number = len(self._call_ids)
            while not id or id in self._call_ids:
                number += 1
                id = f"call_{number}"
            self._call_ids.add(id)
            unused.append(id)
        return unused

    async def _open(self, info: SessionInfo) -> None:
        control = await self._store.read(self._session_id, 0, info.records, kinds=CONTROL_KINDS)
        self.projection = Projection()
        for _, record in control:
            if self._summaries or record.kind != "summary":
                self.projection.apply(record)
        text = self.projection.summary
        self.summary = Counted(summary_message(text), self.counter) if text else None
        self.system = [
            Counted(message, self.counter, index)
            for entry in control
            for index, message in self.projection.shown(*entry)
        ]
        self.messages, self.results, self._newest = [], [], None
        self.length = self._begin = info.records
        self._page = self._first_page
        self._is_stale = False

    async def _read_page(self) -> None:
        begin = max(self.projection.until, self._begin - self._page)
        page = await self._store.read(self._session_id, begin, self._begin, kinds=MESSAGE_KINDS)
        self._begin = begin
        self._page = min(self._page * 2, _LARGEST_PAGE)
        older = [entry for record in page for entry in self.projection.shown(*record)]
        exchanges = exchanges_of([*older, *self.results])
        self.results = [exchange[0] for exchange in exchanges if exchange[0][1].role == "tool"]
        self.messages[:0] = [
            Counted(message, self.counter, index)
            for exchange in exchanges
            if exchange[0][1].role != "tool"
            for index, message in exchange
        ]

    def _take(self, entries: Iterable[tuple[int, Record]], length: int) -> None:
        """Take records from the end of the journal."""
        for index, record in entries:
            kind = record.kind
            if self._call_ids is not None and kind in ("call", "repair"):
                self._call_ids.update(_call_ids(record))
            if kind in ("summary", "repair"):
                self._is_stale = True
            for _, message in self.projection.shown(index, record):
                new = Counted(message, self.counter, index)
                if message.role == "system":
                    self.system.append(new)
                elif index >= self.projection.until:
                    if message.role != "tool":
                        self._append(new)
                    elif not self._insert_result(new):
                        self.results.append((index, message))
        self.length = length

    def _append(self, new: Counted) -> None:
        self.messages.append(new)
        if new.message.tool_calls:
            self._newest = _UnansweredCalls(Counter(call.id for call in new.message.tool_calls))
        elif self._newest is not None:
            self._newest.behind += 1

    def _insert_result(self, result: Counted) -> bool:
        """Insert a result behind the newest call that it answers; return False without such a call.

        The calls of the newest reply are counted once, so that thousands of results take linear
        time. Older replies are searched.
        """
        if self._newest is None:
            self._newest = _newest_calls(self.messages)
        newest, call_id = self._newest, result.message.tool_call_id
        if newest is None or not newest.count[call_id]:
            return _insert_result(self.messages, result)
        newest.count[call_id] -= 1
        self.messages.insert(len(self.messages) - newest.behind, result)
        return True


@dataclass(slots=True)
class _UnansweredCalls:
    """The calls of the newest reply that have no result yet.

    Attributes:
        count: Their number by id.
        behind: The number of messages behind this reply and its results.
    """

    count: Counter[str | None]
    behind: int = 0


def _call_ids(record: Record) -> list[str]:
    """Return the ids of the calls that a record holds."""
    messages: list[Message] = []
    if isinstance(record, MessageRecord):
        messages = [record.message]
    elif isinstance(record, RepairRecord):
        messages = [message for _, message in record.inserted]
    return [call.id for message in messages for call in message.tool_calls]


def is_open(exchange: Sequence[Counted]) -> bool:
    """Return whether a call of this exchange has no result."""
    if not exchange:
        return False
    answered = {result.message.tool_call_id for result in exchange}
    return any(call.id not in answered for reply in exchange for call in reply.message.tool_calls)


def _newest_calls(messages: Sequence[Counted]) -> _UnansweredCalls | None:
    """Return the unanswered calls of the newest reply that contains calls."""
    results: Counter[str | None] = Counter()
    behind = 0
    for number, counted in enumerate(reversed(messages), 1):
        message = counted.message
        if message.tool_calls:
            calls: Counter[str | None] = Counter(call.id for call in message.tool_calls)
            return _UnansweredCalls(calls - results, behind)
        if message.role == "tool":
            results[message.tool_call_id] += 1
        else:
            behind = number
    return None


def _insert_result(messages: list[Counted], result: Counted) -> bool:
    """Insert a result behind the newest call that it answers; return False without such a call."""
    call_id, end = result.message.tool_call_id, len(messages)
    for start in range(end - 1, -1, -1):
        message = messages[start].message
        if message.role == "tool":
            continue
        if message.tool_calls:
            calls = sum(call.id == call_id for call in message.tool_calls)
            results = messages[start + 1 : end]
            if calls > sum(other.message.tool_call_id == call_id for other in results):
                messages.insert(end, result)
                return True
        end = start
    return False
