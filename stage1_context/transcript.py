"""`Transcript`: one conversation as a loop sees it: append to it, and ask for the next request.

It holds the newest part of a journal (`tail`), lets the window choose, and learns from what servers
report: a turn costs the same after ten messages and after ten thousand. Knows no model and no
tools; stage 3 works on it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import get_args

from stage0_gateway import Message, Usage
from stage1_context.claims import Claims
from stage1_context.concurrency import Locks, uninterrupted
from stage1_context.counting.calibration import Calibration
from stage1_context.counting.heuristic import ApproximateCounter
from stage1_context.errors import SessionConflict
from stage1_context.history import MessageHistory
from stage1_context.journal import SHOWN, MessageRecord, ProgressRecord, Record, SummaryRecord
from stage1_context.store import MemoryStore, SessionInfo, SessionStore
from stage1_context.tokens import Counted, TokenCounter
from stage1_context.view.journal_reader import Tail, is_open
from stage1_context.view.open_calls import OpenCalls, open_calls
from stage1_context.view.projection import history_of, messages_of, view_of
from stage1_context.view.selection import Selection, Selector
from stage1_context.window import KeepEverything, WindowPolicy

_TRIES = 5
"""How often to look again where somebody else writes at the same time."""


class Transcript:
    """A view on one session's journal.

    Args:
        store: Where the journal is. An attribute, too, as is the next.
        session_id: Which journal.
        window: Decides which messages a request holds; None sends all.
        counter: Counts tokens; None counts approximately.
        calibration: What was learnt about the counter; None begins anew.

    It may be used in one event loop after the other, such as those of two calls of `asyncio.run`.
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
        self._counter: TokenCounter = ApproximateCounter() if counter is None else counter
        self._calibration = Calibration() if calibration is None else calibration
        self._selector = Selector(
            KeepEverything() if window is None else window, self._counter, self._calibration
        )
        self._tail = Tail(store, session_id, self._counter)
        self._unfolded: Tail | None = None
        self._held: Locks | None = None
        self._asked_for: Selection | None = None  # last

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        window: WindowPolicy | None = None,
        counter: TokenCounter | None = None,
    ) -> "Transcript":
        """A transcript of these messages that belongs to no session and is kept in memory."""
        return cls(MemoryStore({"": map(MessageRecord, messages)}), "", window, counter)

    @property
    def lock(self) -> asyncio.Lock:
        """Held by whoever runs a turn, so that two runs on one session come one after the other."""
        return self._locks().turn

    def _locks(self) -> "Locks":
        """The locks of this event loop: one that was waited for in another loop is of no use
        here.
        """
        loop = asyncio.get_running_loop()
        if self._held is None or self._held.loop is not loop:
            self._held = Locks(loop)
        return self._held

    @property
    def length(self) -> int:
        """How many records the journal had when it was read last."""
        return self._tail.length

    async def append(self, *messages: Message, seen: int | None = None) -> int:
        """Add messages to the journal, all or none.

        A cancellation is delivered after they were added, at the caller's next wait. If all tasks
        are cancelled and `seen` is None, CancelledError is raised here, and the messages may have
        been added or not.

        Args:
            messages: What to add.
            seen: Refuse if another writer has replied since there were so many records; None adds
                in any case.

        Returns:
            How many records the journal now holds.

        Raises:
            SessionConflict: Another writer has replied; nothing was added.
            ValueError: One of them is not a `Message`.
        """
        for each in messages:
            if not isinstance(each, Message):
                raise ValueError(f"A transcript holds Messages, not {type(each).__name__}.")
        records = [*map(MessageRecord, messages)]
        if seen is None:
            return await uninterrupted(self.store, lambda: self._write(*records), repeat=False)
        return await self.claims(seen).reply(*records)

    async def note(self, *records: ProgressRecord) -> int:
        """Add progress of calls: begun, ended, waiting for approval. It is not shown as a
        message.
        """
        return await uninterrupted(
            self.store, lambda: self._write(*records)
        )  # a second note changes nothing

    def claims(self, seen: int) -> Claims:
        """What a run writes that has read so many records of the journal."""
        return Claims(self.store, self.session_id, self._write, seen)

    async def _write(self, *records: Record, expected: int | None = None) -> int:
        length = await self.store.append(self.session_id, *records, expected=expected)
        if not self._locks().reading.locked():  # otherwise the reader finds them
            self._tail.wrote(records, length)
        return length

    async def for_request(
        self,
        *,
        alongside: str = "",
        reserve_tokens: int = 0,
        include_summary: bool = True,
        pinned: Message | None = None,
    ) -> list[Message]:
        """The messages to send next.

        Args:
            alongside: Text that will be sent besides, such as the description of the tools; its
                tokens count.
            reserve_tokens: Room to leave for the reply.
            include_summary: False shows the messages as if nothing had been summarized.
            pinned: A message to send in any case, such as the question that is being answered:
                where the window has moved past it, it stands before the messages that are left.

        Raises:
            SessionNotFound: There is no such session.
            WindowTooSmall: Not even the newest exchange fits.
        """
        selection = await self.select(
            alongside=alongside,
            reserve_tokens=reserve_tokens,
            include_summary=include_summary,
            pinned=pinned,
        )
        self._asked_for = selection
        return selection.messages

    async def select(
        self,
        *,
        alongside: str | None = None,
        reserve_tokens: int = 0,
        include_summary: bool = True,
        pinned: Message | None = None,
        read_all: bool = False,
    ) -> Selection:
        """The same, with everything the window was given, so that it can be explained; with the
        same errors.

        Args:
            alongside: As above; None takes the text of the last request.
            reserve_tokens: As above.
            include_summary: As above.
            pinned: As above.
            read_all: Give the window every message, also those it would not need to see.
        """
        async with self._locks().reading:
            tail = await self._read_on(include_summary)
            while read_all and not tail.whole:
                await tail.read_back()
            return await self._selector.select(
                tail,
                summary=tail.view.summary if include_summary else "",
                alongside=alongside,
                reserve_tokens=reserve_tokens,
                pinned=pinned,
            )

    def report_usage(self, usage: Usage | None) -> None:
        """Learn from what a server reported of the request that was asked for last, if there is a
        window to fill.
        """
        if self._asked_for is not None and not isinstance(self._selector.window, KeepEverything):
            self._calibration.learn(self._asked_for.tokens, usage)

    async def summary(self) -> str:
        """What stands for the messages that were summarized; empty if none were."""
        async with self._locks().reading:
            return (await self._read_on(include_summary=True)).view.summary

    async def set_summary(
        self, text: str, *, until: int | None = None, expected: int | None = None
    ) -> None:
        """Say what a model is told of the messages before.

        Args:
            text: The summary. An empty one takes the summary back: all messages are shown again.
            until: The index of the first record that it does not stand for; None leaves that as it
                is.
            expected: How many records the writer has seen; None writes whatever was added.

        Raises:
            SessionConflict: There are more records than expected.
        """
        if until is None:
            async with self._locks().reading:
                until = (await self._read_on(include_summary=True)).view.until if text else 0
        await self.store.append(self.session_id, SummaryRecord(text, until), expected=expected)

    async def open_calls(self) -> OpenCalls | None:
        """The calls of the newest exchange that have no result yet, and what is known of them."""
        newest, length = await self._newest_exchange()
        if not is_open(newest):
            return None
        kinds = [each.kind for each in get_args(ProgressRecord)]
        notes = await self.store.read(self.session_id, newest[0].index, kinds=kinds)
        return open_calls([each.message for each in newest], [note for _, note in notes], length)

    async def _newest_exchange(self) -> tuple[Sequence[Counted], int]:
        async with self._locks().reading:
            return (await self._read_on(include_summary=True)).newest_exchange(), self._tail.length

    async def close_open_calls(self) -> None:
        """Give the calls of the newest exchange that have no result one that says they were
        interrupted.

        For whoever goes on with a conversation after the program was killed; `repair_history` looks
        further back.

        Raises:
            SessionConflict: Somebody else keeps writing to the session.
        """
        for _ in range(_TRIES - 1):
            with suppress(SessionConflict):  # somebody wrote just now: look again
                await self._close_newest()
                return
        await self._close_newest()

    async def _close_newest(self) -> None:
        newest, length = await self._newest_exchange()
        if any(each.message.tool_calls for each in newest):
            await self._repair(((each.index, each.message) for each in newest), length)

    async def repair_closed_exchanges(self) -> None:
        """Repair what was read of the history, without the newest exchange while a call of it is
        open.

        Another run may be answering open calls; all others must have one result each. Nothing is
        repaired if another writer adds records at the same time.
        """
        async with self._locks().reading:
            tail = await self._read_on(include_summary=True)
            entries, length = (
                [(each.index, each.message) for each in tail.closed_exchanges()],
                tail.length,
            )
        with suppress(SessionConflict):
            await self._repair(entries, length)

    async def repair_history(self) -> list[str]:
        """Give each call of the whole history one result, right behind it.

        Returns:
            What was wrong, in words; empty if nothing was.

        Raises:
            SessionConflict: Another writer adds records at the same time, so nothing was repaired.
        """
        length = (await self.info()).records
        entries = await self.store.read(self.session_id, 0, length, kinds=SHOWN)
        view = view_of(entries)
        if problems := history_of(entries, view).check_history():
            await self._repair(messages_of(entries, view), length)
        return problems

    async def _repair(self, entries: Iterable[tuple[int, Message]], length: int) -> None:
        from stage1_context.recovery.repair import repairs

        if record := repairs(entries):
            await self.store.append(self.session_id, record, expected=length)

    async def info(self) -> SessionInfo:
        """How many records the journal holds, and since when it is there."""
        return await self.store.info(self.session_id)

    async def history(self) -> MessageHistory:
        """All messages, whatever a window shows of them."""
        entries = await self.store.read(self.session_id, kinds=SHOWN)
        return history_of(entries, view_of(entries))

    async def unused_call_ids(self, wanted: Iterable[str]) -> list[str]:
        """Ids that no call of this conversation has: the wanted ones where they are free."""
        async with self._locks().reading:
            await self._tail.read_on()
            return [await self._tail.take_call_id(each) for each in wanted]

    async def _read_on(self, include_summary: bool) -> Tail:
        await self._tail.read_on()
        if include_summary or not self._tail.view.until:
            return self._tail
        if self._unfolded is None:
            self._unfolded = Tail(self.store, self.session_id, self._counter, folded=False)
        await self._unfolded.read_on()
        return self._unfolded
