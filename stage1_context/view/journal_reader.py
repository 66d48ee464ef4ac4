"""`Tail`: the newest part of a conversation, counted, read backwards on demand.

A window shows the end of a conversation, so a journal is read from its end: opening a session of a
million messages costs what its window costs. New records are read from where the last reading
stopped. After a summary or a repair the messages look different, so the tail is read again. It
knows no window; `Selector` asks for older messages until the window is full.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from stage0_gateway import Message
from stage1_context.journal import LANDMARKS, SHOWN, TALK, MessageRecord, Record, RepairRecord
from stage1_context.store import SessionInfo, SessionStore
from stage1_context.tokens import Counted, TokenCounter
from stage1_context.view.projection import View
from stage1_context.window import exchange_start, exchange_starts

_LARGEST_PAGE = 4096


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
        rest: The newest of the other messages, oldest first; it never begins between a call and its
            results.
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
        """Begin with an empty journal."""
        self.system: list[Counted] = []
        self.view = View()
        self._created: datetime | None = None  # when the journal began; None if nothing was read
        self._end = 0  # the records before this one were taken in, or are read back on demand
        self._call_ids: set[str] | None = (
            None  # of all calls in the journal; None until the first use
        )
        self._forget_messages()

    def _forget_messages(self) -> None:
        self.rest: list[Counted] = []
        self._begin = (
            self._end
        )  # `rest` and `_cut_off` hold what is shown of the records from here to `_end`
        self._cut_off: list[
            Counted
        ] = []  # messages of an exchange whose beginning was not read yet
        self._page = self._first_page

    @property
    def length(self) -> int:
        """How many records the journal had when it was last read; the `expected` of the next
        write.
        """
        return self._end

    @property
    def whole(self) -> bool:
        """Whether `rest` holds all there is to show."""
        return self._begin <= self._floor

    @property
    def _floor(self) -> int:
        return self.view.until if self._folded else 0

    async def read_on(self) -> None:
        """Take in the new records; `rest` then holds at least the newest exchange."""
        info = await self._store.info(self._session_id)
        if info.created != self._created:  # the first reading, or another journal of the same name
            self._forget()
            await self._open(info)
        if info.records > self._end:
            entries = await self._store.read(self._session_id, self._end, info.records, kinds=SHOWN)
            self._take_new(entries, info.records)
        if not self.rest:
            await self.read_back()

    def wrote(self, records: Sequence[Record], length: int) -> None:
        """Take in records that this process has written, unless others wrote before them.

        Args:
            records: What was written.
            length: How many records the journal had then.
        """
        if self.rest and length == self._end + len(records):
            self._take_new(enumerate(records, self._end), length)

    def _take_new(self, entries: Iterable[tuple[int, Record]], end: int) -> None:
        read_again = not self.rest
        for index, record in entries:
            read_again |= self._take(index, record)
        self._end = end
        if read_again:
            self._forget_messages()

    async def read_back(self) -> None:
        """Take in at least one older message, and whole exchanges, if there are any."""
        length = len(self.rest)
        while not self.whole and len(self.rest) == length:
            await self._read_page()

    async def _read_page(self) -> None:
        begin = max(self._floor, self._begin - self._page)
        self._page = min(self._page * 2, _LARGEST_PAGE)
        entries = await self._store.read(self._session_id, begin, self._begin, kinds=TALK)
        self._begin = begin
        self._cut_off[:0] = [each for entry in entries for each in self._shown(*entry)]
        start = 0 if self.whole else min(exchange_starts(self._cut_off), default=len(self._cut_off))
        self.rest[:0] = self._cut_off[start:]
        del self._cut_off[start:]

    def newest_exchange(self) -> Sequence[Counted]:
        """Return the newest reply, its results, and the user messages between and after them."""
        end = len(self.rest)
        while end and self.rest[end - 1].message.role == "user":
            end -= 1
        return self.rest[exchange_start(self.rest, end) :] if end else self.rest[-1:]

    def closed_exchanges(self) -> Sequence[Counted]:
        """What was read, without the newest exchange while a call of it has no result."""
        newest = self.newest_exchange()
        return self.rest[: len(self.rest) - len(newest)] if is_open(newest) else self.rest

    async def take_call_id(self, wanted: str) -> str:
        """Return an id that no call in this journal has, the wanted one if it is free, and reserve
        it.

        The first time, all calls of the journal are read; only their ids are kept.
        """
        taken = await self.all_call_ids()
        number = len(taken) + 1
        while not wanted or wanted in taken:
            wanted = f"call_{number}"
            number += 1
        taken.add(wanted)
        return wanted

    async def all_call_ids(self) -> set[str]:
        """Return the ids of all calls there ever were in this journal."""
        if self._call_ids is None:
            ids = set[str]()
            for begin in range(0, self._end, _LARGEST_PAGE):
                end = min(begin + _LARGEST_PAGE, self._end)
                for _, record in await self._store.read(
                    self._session_id, begin, end, kinds=("call", "repair")
                ):
                    ids |= _call_ids(record)
            self._call_ids = ids
        return self._call_ids

    async def _open(self, info: SessionInfo) -> None:
        landmarks = await self._store.read(self._session_id, 0, info.records, kinds=LANDMARKS)
        for index, record in landmarks:
            self._take(index, record)
        self._end = info.records
        self._forget_messages()
        self._created = info.created

    def _take(self, index: int, record: Record) -> bool:
        """Take in a new record at the end; return whether `rest` has to be read again."""
        self.view.take(record)
        if self._call_ids is not None:
            self._call_ids |= _call_ids(record)
        messages = self._shown(index, record)
        if record.kind == "system":
            self.system.extend(messages)
        elif messages and index >= self._floor:
            self.rest.extend(messages)
            # Is this a result whose call was not read?
            return not self.whole and next(exchange_starts(self.rest), None) is None
        return record.kind in ("summary", "repair")

    def _shown(self, index: int, record: Record) -> list[Counted]:
        if not isinstance(record, MessageRecord):
            return []
        return [
            Counted(message, self._counter, index)
            for message in self.view.repaired(index, record.message)
        ]


def _call_ids(record: Record) -> set[str]:
    """Return the ids of the calls that a record holds; a repair may show calls under new ids."""
    messages: list[Message] = []
    if isinstance(record, MessageRecord):
        messages = [record.message]
    elif isinstance(record, RepairRecord):
        messages = [message for _, message in record.inserted]
    return {call.id for message in messages for call in message.tool_calls}


def is_open(exchange: Sequence[Counted]) -> bool:
    """Whether a call of this exchange has no result."""
    answered = {each.message.tool_call_id for each in exchange}
    return bool(exchange) and any(
        call.id not in answered for call in exchange[0].message.tool_calls
    )
