"""`Transcript`: append to one session, and select the messages of the next request.

It reads the journal through a `JournalReader`, so the cost of a turn does not grow with the
history. It knows no models and no tools; the loop of stage 3 works on it.

Several processes may write to one session. An append with `since` raises SessionConflict if
another process added a reply or the progress of a call. Then no tool runs twice, and
`repair_history` restores one result per call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from stage0_gateway import ChatResponse, Message, Usage
from stage1_context.counting.calibration import Calibration
from stage1_context.counting.heuristic import ApproximateCounter
from stage1_context.errors import SessionConflict
from stage1_context.history import MessageHistory
from stage1_context.journal import PROGRESS_KINDS, VIEW_KINDS, MessageRecord, Record, SummaryRecord
from stage1_context.recovery.open_calls import OpenCalls, open_calls
from stage1_context.recovery.repair import repairs
from stage1_context.store import LoopLock, MemoryStore, SessionInfo, SessionStore, run_shielded
from stage1_context.tokens import TokenCounter
from stage1_context.view.journal_reader import JournalReader, is_open
from stage1_context.view.projection import exchanges_of, history_of, shown_exchanges
from stage1_context.view.selection import Selection, select
from stage1_context.window import KeepEverything, TokenBudget, WindowPolicy


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction, which lets a model summarize old messages.

    Attributes:
        session_id: The session.
        done: Whether a summary was added.
        reason: The reason, as a sentence.
        fill: The fill of the window before; 1.0 is full.
        summarized: The number of messages that the summary replaces in addition.
        before: The messages that the summary replaces: the earlier summary, then the others.
        after: The message with the summary; None if none was added.
        error: The exception of the model's call, if it failed.
        usage: The tokens of the replies that wrote the summary, also of one that is not used.
        cost: The cost of these replies in US dollars; None if no price is known.
        replies: These replies.
    """

    session_id: str
    done: bool
    reason: str
    fill: float
    summarized: int = 0
    before: tuple[Message, ...] = field(default=(), repr=False)
    after: Message | None = field(default=None, repr=False)
    error: BaseException | None = field(default=None, repr=False)
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    replies: tuple[ChatResponse, ...] = field(default=(), repr=False)


OnCompaction = Callable[[Compaction], None]
"""Called with the result of each attempt to compact a session."""

AutoCompact = Callable[
    ["Transcript", Selection, Message | None, OnCompaction], Awaitable[Selection]
]
"""Called with the selection and the pinned message of each request. It may summarize old messages,
and returns the selection to send."""


def ignore_compaction(compaction: Compaction) -> None:
    """Do nothing with the result of a compaction."""


class Transcript:
    """One session of a store.

    A transcript may be used in several event loops, one after the other.

    Args:
        store: The store of the session's journal. Also an attribute.
        session_id: The session's id. Also an attribute.
        window: Selects the messages of a request; None selects all.
        counter: Counts tokens; None counts approximately. Also an attribute.
        calibration: Corrects the counts by reported usage; None starts a new one.

    Attributes:
        attachments: Values of other stages that live as long as this object, such as the tools that
            a person has approved for the session. The journal does not store them.
        auto_compact: Summarizes old messages before a request; None only lets the window drop them.
        last_request: The selection of the last request; None before the first one.
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        window: WindowPolicy | None = None,
        counter: TokenCounter | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self.store = store
        self.session_id = session_id
        self.counter: TokenCounter = ApproximateCounter() if counter is None else counter
        self.attachments: dict[str, object] = {}
        self.auto_compact: AutoCompact | None = None
        self._window = KeepEverything() if window is None else window
        self._calibration = Calibration() if calibration is None else calibration
        self._reader = JournalReader(store, session_id, self.counter)
        self._lock = LoopLock()
        self._extra_text, self._extra_tokens = "", 0
        self.last_request: Selection | None = None

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        window: WindowPolicy | None = None,
        counter: TokenCounter | None = None,
    ) -> "Transcript":
        """Return a transcript of these messages in memory, outside of any session."""
        return cls(MemoryStore({"": map(MessageRecord, messages)}), "", window, counter)

    @property
    def lock(self) -> asyncio.Lock:
        """The lock of the running event loop that serializes the runs on this session."""
        return self._lock.get()

    @property
    def length(self) -> int:
        """The number of records when the journal was read or written last."""
        return self._reader.length

    async def append(self, *entries: Message | Record, since: int | None = None) -> int:
        """Append messages and other records, all or none.

        A cancellation is delivered after the write, at the caller's next wait. If `asyncio.run`
        ends during the write and `since` is None, CancelledError is raised here, and the entries
        may be stored or not.

        Args:
            entries: The messages and records.
            since: Refuse if another writer added a reply or the progress of a call since the
                journal had so many records. Other additions, such as user messages, are no
                conflict. None appends in any case.

        Returns:
            The number of records in the journal, with these.

        Raises:
            SessionConflict: Another writer added a reply or the progress of a call.
            SessionNotFound: The session does not exist.
            ValueError: JSON cannot hold an entry.
        """
        records = [MessageRecord(each) if isinstance(each, Message) else each for each in entries]
        if type(self.store) is MemoryStore:  # writes without waiting
            return await self._append(records, since, False)
        return await run_shielded(
            lambda is_repeated: self._append(records, since, is_repeated), repeat=since is not None
        )

    async def _append(self, records: Sequence[Record], since: int | None, is_repeated: bool) -> int:
        while True:
            try:
                length = await self.store.append(self.session_id, *records, expected=since)
                break
            except SessionConflict:
                if since is None:
                    raise
                new = [record for _, record in await self.store.read(self.session_id, since)]
                if is_repeated and (stored := _find_stored(records, new)) is not None:
                    return since + stored + len(records)
                if not new or any(map(_is_progress, new)):
                    raise SessionConflict(
                        f"Another writer continued the session {self.session_id!r}: it added a "
                        "reply or the progress of a call. Read the new records and decide again."
                    ) from None
                since += len(new)
        self._reader.on_append(records, length)
        return length

    async def for_request(
        self,
        *,
        extra_text: str = "",
        reserve_tokens: int = 0,
        include_summary: bool = True,
        pinned: Message | None = None,
        on_compaction: OnCompaction = ignore_compaction,
    ) -> list[Message]:
        """Return the messages of the next request.

        Args:
            extra_text: Text that is sent besides the messages: its tokens count.
            reserve_tokens: Tokens to leave for the reply.
            include_summary: False shows the messages that a summary replaces, and no summary.
            pinned: A message to send even if the window drops it, then before the other messages.
            on_compaction: Called with the result of each attempt to compact the session.

        Raises:
            SessionNotFound: The session does not exist.
            WindowTooSmall: The newest exchange does not fit.
        """
        selection = await self.select(
            extra_text=extra_text,
            reserve_tokens=reserve_tokens,
            include_summary=include_summary,
            pinned=pinned,
        )
        if self.auto_compact is not None and include_summary:
            selection = await self.auto_compact(self, selection, pinned, on_compaction)
        self.last_request = selection
        return [each.message for each in selection.chosen]

    async def select(
        self,
        *,
        extra_text: str | None = None,
        reserve_tokens: int = 0,
        include_summary: bool = True,
        pinned: Message | None = None,
        complete: bool = False,
    ) -> Selection:
        """Return what `for_request` selects, and what the window was given.

        `extra_text=None` repeats the text of the last request. `complete` reads and counts
        everything, also what the window does not need.
        """
        if extra_text is not None and extra_text != self._extra_text:
            self._extra_text, self._extra_tokens = extra_text, -1  # not counted yet
        has_limit = complete or not isinstance(self._window, KeepEverything)
        if has_limit and self._extra_tokens < 0:
            self._extra_tokens = self.counter.count(self._extra_text)
        budget = TokenBudget(reserve_tokens, max(0, self._extra_tokens), self._calibration.ratio)
        reader = self._reader
        if not include_summary:
            reader = JournalReader(self.store, self.session_id, self.counter, summaries=False)
        await reader.read_new()
        while complete and not reader.has_all:
            await reader.read_back()
        return await select(reader, self._window, budget, pinned)

    def report_usage(self, usage: Usage | None) -> None:
        """Learn the server's token counts from the reported usage of the last request."""
        if self.last_request is not None and not isinstance(self._window, KeepEverything):
            self._calibration.learn(self.last_request.tokens, usage)

    async def summary(self) -> str:
        """Return the summary; empty without one."""
        await self._reader.read_new()
        return self._reader.projection.summary

    async def set_summary(
        self, text: str, *, until: int | None = None, expected: int | None = None
    ) -> None:
        """Replace old messages by a summary. The journal keeps them.

        Args:
            text: The summary. An empty text removes the summary, so that all messages are shown.
            until: The index of the first record that the summary does not replace. None keeps the
                index of the last summary.
            expected: The number of records; any other number is a conflict. None does not compare.

        Raises:
            SessionConflict: The journal has another number of records.
        """
        if until is None:
            await self._reader.read_new()
            until = self._reader.projection.until if text else 0
        await self.store.append(self.session_id, SummaryRecord(text, until), expected=expected)

    async def open_calls(self) -> OpenCalls | None:
        """Return the calls of the newest exchange without a result, and their progress."""
        exchange, length = await self._reader.newest_exchange(), self._reader.length
        if not is_open(exchange):
            return None
        progress = await self.store.read(self.session_id, exchange[0].index, kinds=PROGRESS_KINDS)
        messages = [each.message for each in exchange]
        return open_calls(messages, [record for _, record in progress], length)

    async def close_open_calls(self) -> None:
        """Append a result for each call of the newest exchange that has none.

        The result says that the call was interrupted. Older exchanges are not repaired.

        Raises:
            SessionConflict: Another writer continued the session.
        """
        exchange, length = await self._reader.newest_exchange(), self._reader.length
        entries = [(each.index, each.message) for each in exchange]
        if records := repairs(exchanges_of(entries)):
            await self.append(*records, since=length)

    async def repair_closed_exchanges(self) -> None:
        """Repair the messages that were read, except the newest exchange while it is open.

        Another run may be answering open calls. Each other call gets one result.

        Raises:
            SessionConflict: Another writer continued the session.
        """
        exchange, length = await self._reader.newest_exchange(), self._reader.length
        entries = [(each.index, each.message) for each in self._reader.messages]
        if self._reader.has_all:
            entries += self._reader.results
        skip = exchange[0].index if is_open(exchange) else None
        if records := repairs(exchanges_of(entries), skip):
            await self.append(*records, since=length)

    async def repair_history(self) -> list[str]:
        """Give each call of the whole history one result.

        Returns:
            The problems that were found, as sentences; empty for a sound history.

        Raises:
            SessionConflict: Another writer continued the session, so nothing was repaired.
        """
        length = (await self.info()).records
        entries = await self.store.read(self.session_id, 0, length, kinds=VIEW_KINDS)
        problems = history_of(entries).check_history()
        if problems:
            await self.append(*repairs(shown_exchanges(entries)), since=length)
        return problems

    async def info(self) -> SessionInfo:
        """Return the number of records and the times of the session."""
        return await self.store.info(self.session_id)

    async def history(self) -> MessageHistory:
        """Return all messages, also those that a window drops or a summary replaces."""
        return history_of(await self.store.read(self.session_id, kinds=VIEW_KINDS))

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages of a transcript in memory, without waiting.

        Raises:
            ValueError: The store is not a `MemoryStore`.
        """
        if not isinstance(self.store, MemoryStore):
            raise ValueError("Only a transcript in memory has messages. Use await history().")
        return history_of([*enumerate(self.store.records(self.session_id))]).messages

    async def unused_call_ids(self, ids: Iterable[str]) -> list[str]:
        """Return ids that no call of this session has: the given ones, if they are unused."""
        await self._reader.read_new()
        return await self._reader.unused_call_ids(ids)


def _find_stored(records: Sequence[Record], new: Sequence[Record]) -> int | None:
    """Return where an interrupted attempt stored these records; None if it did not.

    Records of other writers that are no progress may precede them.
    """
    for start, record in enumerate(new):
        if new[start : start + len(records)] == records:
            return start
        if _is_progress(record):
            break
    return None


def _is_progress(record: Record) -> bool:
    """Return whether a record belongs to a reply or to a call."""
    if isinstance(record, MessageRecord):
        return record.message.role in ("assistant", "tool")
    return record.kind in (*PROGRESS_KINDS, "repair")
