"""`Tail`: the newest part of a conversation, counted, with more of it read when somebody asks.

A window shows the end of a talk, so a journal is read backwards: opening a session of a million messages
costs what its window costs. What is new is read on from where the last reading stopped, and each message is
counted once. Knows no window; `Selector` asks for more until the window is full.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from stage0_gateway import Message
from stage1_context.journal import LANDMARKS, SHOWN, TALK, MessageRecord, Record, RepairRecord
from stage1_context.store import SessionInfo, SessionStore
from stage1_context.tokens import Counted, TokenCounter
from stage1_context.view import View
from stage1_context.window import exchange_start

_LARGEST_PAGE = 4096

_MOST_SAID = 100
"""Messages of people behind which nobody looks for a reply whose calls are open."""


class Tail:
    """The newest messages of one journal.

    Args:
        store: Where the journal is.
        session_id: Which journal.
        counter: Counts tokens.
        folded: Whether a summary stands for what it summarizes; False shows all messages.
        page: How many records to read back at first; each further page is twice as long.

    Attributes:
        system: All system messages, oldest first.
        rest: The newest of the other messages, oldest first; it never begins between a call and its results.
        call_ids: The ids of all calls that were read so far.
        view: How the messages are shown.
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        counter: TokenCounter,
        *,
        folded: bool = True,
        page: int = 32,
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._counter = counter
        self._folded = folded
        self._first_page = page
        self._forget()

    def _forget(self) -> None:
        """Nothing was read so far, or what was read is no longer there."""
        self.system: list[Counted] = []
        self.rest: list[Counted] = []
        self.call_ids: set[str] = set()
        self.view = View()
        self._created: datetime | None = None  # when the journal began; None if nothing was read
        self._page = self._first_page
        self._begin = self._end = 0  # `rest` holds what is shown of these records
        self._ids_from = 0  # the calls before this record were not looked at
        self._outdated: int | None = None  # from here on messages look different, and were not read again
        self._torn_off = set[str]()  # results in `rest` whose calls stand before it
        self._known: defaultdict[int, list[Counted]] = defaultdict(list)

    @property
    def length(self) -> int:
        """How many records the journal had when it was read last; what `expected` wants to know."""
        return self._end

    @property
    def whole(self) -> bool:
        """Whether `rest` holds all there is to show."""
        return self._begin <= self._floor

    @property
    def _floor(self) -> int:
        return self.view.until if self._folded else 0

    async def read_on(self) -> None:
        """Take in what was added since; `rest` then holds the newest exchange at least."""
        info = await self._store.info(self._session_id)
        if info.created != self._created:  # another journal of the same name, if there was one before
            self._forget()
            await self._open(info)
        begun = bool(self.rest)  # if not, nothing was read back so far, or that was cancelled
        if info.records > self._end or self._outdated is not None:
            await self._read_new(info.records)
        if not (begun and self.rest) or self._torn_off:
            await self.read_back()

    def wrote(self, records: Sequence[Record], length: int) -> None:
        """Take in what was written from here, so that it need not be read; if somebody else wrote, it is read on.

        Args:
            records: What was written.
            length: How many records the journal had then.
        """
        follows = self.rest and length == self._end + len(records)
        if follows and all(record.kind not in LANDMARKS for record in records):
            entries, self._end = enumerate(records, self._end), length
            for index, record in entries:
                if record.kind in SHOWN:
                    self._take(index, record)

    async def read_back(self) -> None:
        """Take in at least one older message, and whole exchanges, if there are any."""
        there = len(self.rest)
        while not self.whole and (len(self.rest) == there or self._torn_off):
            await self._read_page()

    async def _read_page(self) -> None:
        start = max(self._floor, self._begin - self._page)
        self._page = min(self._page * 2, _LARGEST_PAGE)
        entries = await self._store.read(self._session_id, start, self._begin, kinds=TALK)
        shown = [each for entry in entries for each in self._shown(*entry)]
        torn_off = _torn_off(shown, self._torn_off)
        if torn_off and (first := _first_whole(shown, self._torn_off)) < len(shown):
            # Begin with a whole exchange; what stands before it is read with the next page.
            start, shown, torn_off = shown[first][0], shown[first:], set()
        self._begin, self._torn_off = start, torn_off
        self.rest[:0] = [self._count(*each) for each in shown]
        self._ids_from = min(self._ids_from, start)

    def newest_exchange(self) -> Sequence[Counted]:
        """The newest reply, its results, and what people have said since, be it between the two; if not too much."""
        end = _said_since(self.rest)
        return self.rest[exchange_start(self.rest, end) :] if end else self.rest[-1:]

    def closed_exchanges(self) -> Sequence[Counted]:
        """What was read, without the newest exchange while a call of it has no result."""
        newest = self.newest_exchange()
        return self.rest[: len(self.rest) - len(newest)] if is_open(newest) else self.rest

    async def take_call_id(self, wanted: str) -> str:
        """An id that no call in this journal has: the wanted one if it is free. It is taken from now on.

        The first time, all calls of the journal are read for it; only the ids are kept.
        """
        taken = await self.all_call_ids()
        number = len(taken) + 1
        while not wanted or wanted in taken:
            wanted = f"call_{number}"
            number += 1
        taken.add(wanted)
        return wanted

    async def all_call_ids(self) -> set[str]:
        """The ids of all calls there ever were in this journal."""
        while self._ids_from:
            start = max(0, self._ids_from - _LARGEST_PAGE)
            for _, record in await self._store.read(self._session_id, start, self._ids_from, kinds=("call",)):
                self._note_calls(record)
            self._ids_from = start
        return self.call_ids

    async def _open(self, info: SessionInfo) -> None:
        landmarks = await self._store.read(self._session_id, 0, info.records, kinds=LANDMARKS)
        self._end = self._begin = self._ids_from = info.records
        for index, record in landmarks:
            self._take(index, record)
        self._created = info.created

    async def _read_new(self, end: int) -> None:
        entries = await self._store.read(self._session_id, self._end, end, kinds=SHOWN)
        self._end = end
        for index, record in entries:
            since = self._take(index, record)
            if since is not None:
                self._outdated = since if self._outdated is None else min(since, self._outdated)
        if self._outdated is not None:
            await self._look_again(self._outdated)

    def _take(self, index: int, record: Record) -> int | None:
        """Take in what is new; returns from which record on those taken in before look different now, if they do."""
        if isinstance(record, MessageRecord):
            counted = [self._count(*each) for each in self._shown(index, record)]
            if record.kind == "system":
                self.system.extend(counted)
            elif index >= self._floor:
                self.rest.extend(counted)
        elif isinstance(record, RepairRecord):  # it may show calls under new ids
            self.call_ids.update(call.id for _, each in record.inserted for call in each.tool_calls)
        changed = self.view.take(record)
        if self._begin < min(self._floor, self._end):  # a new summary stands for what it summarizes
            del self.rest[: bisect_left(self.rest, self._floor, key=lambda each: each.index)]
            self._begin = min(self._floor, self._end)
            self._torn_off = _torn_off([(each.index, each.message) for each in self.rest], set())
        if not changed:
            return None
        if isinstance(record, RepairRecord):
            return min([*record.hidden, *(index for index, _ in record.inserted)])
        return 0

    async def _look_again(self, since: int) -> None:
        """Read messages anew, because they are shown differently now; none is counted again."""
        at, begin = bisect_left(self.rest, since, key=lambda each: each.index), max(since, self._begin)
        entries = await self._store.read(self._session_id, begin, self._end, kinds=TALK)
        for each in self.rest[at:]:
            self._known[each.index].append(each)
        shown = [each for entry in entries for each in self._shown(*entry)]
        self.rest[at:] = [self._count(*each) for each in shown]
        self._known.clear()
        if self._torn_off or _torn_off(shown, set()):
            self._torn_off = _torn_off([(each.index, each.message) for each in self.rest], set())
        self._outdated = None

    def _shown(self, index: int, record: Record) -> list[tuple[int, Message]]:
        self._note_calls(record)
        if not isinstance(record, MessageRecord):
            return []
        return [(index, message) for message in self.view.shown(index, record.message)]

    def _count(self, index: int, message: Message) -> Counted:
        for known in self._known.get(index, ()):
            if known.message == message:
                return known
        return Counted(message, self._counter, index)

    def _note_calls(self, record: Record) -> None:
        if isinstance(record, MessageRecord):
            self.call_ids.update(call.id for call in record.message.tool_calls)


def is_open(exchange: Sequence[Counted]) -> bool:
    """Whether a call of this exchange has no result."""
    answered = {each.message.tool_call_id for each in exchange}
    return bool(exchange) and any(call.id not in answered for call in exchange[0].message.tool_calls)


def _torn_off(page: Sequence[tuple[int, Message]], behind: set[str]) -> set[str]:
    """The results whose calls stand before this page: those in it, and those that are torn off behind it."""
    results = set(behind)
    for _, message in reversed(page):
        if message.tool_call_id:
            results.add(message.tool_call_id)
        results.difference_update(call.id for call in message.tool_calls)
    return results


def _first_whole(page: Sequence[tuple[int, Message]], behind: set[str]) -> int:
    """The first place in a page from which on no result is torn off; its length if there is none."""
    results, first = set(behind), len(page)
    for place in range(len(page) - 1, 0, -1):
        index, message = page[place]
        if message.tool_call_id:
            results.add(message.tool_call_id)
        results.difference_update(call.id for call in message.tool_calls)
        if not results and page[place - 1][0] != index:  # what one record shows is not parted
            first = place
    return first


def _said_since(rest: Sequence[Counted]) -> int:
    """Where the messages begin that people have added since the newest reply or result; 0 if there is neither."""
    end = len(rest)
    while end and rest[end - 1].message.role == "user":
        end -= 1
        if len(rest) - end > _MOST_SAID:
            return 0
    return end
