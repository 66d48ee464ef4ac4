"""`Transcript`: one conversation as a loop sees it: append to it, and ask for the next request.

It reads the journal on from where it stopped last time, counts each message once, and remembers the
counts: a turn costs the same after ten messages and after ten thousand. Knows no model and no tools; stage 3
works on it.
"""

import asyncio
from collections.abc import Iterable

from stage0_gateway import Message
from stage1_context.history import MessageHistory
from stage1_context.journal import MessageRecord
from stage1_context.store import MemoryStore, SessionStore
from stage1_context.tokens import ApproximateCounter, TokenCounter, message_tokens
from stage1_context.window import Counted, KeepEverything, WindowPolicy


class Transcript:
    """A view on one session's journal.

    Args:
        store: Where the journal is.
        session_id: Which journal.
        window: Decides which messages a request holds; None sends all.
        counter: Counts tokens; None counts approximately.

    Attributes:
        lock: Held by whoever runs a turn, so that two runs on one session come one after the other.
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        window: WindowPolicy | None = None,
        counter: TokenCounter | None = None,
    ) -> None:
        self.lock = asyncio.Lock()
        self._store = store
        self._session_id = session_id
        self._window: WindowPolicy = KeepEverything() if window is None else window
        self._counter: TokenCounter = ApproximateCounter() if counter is None else counter
        self._messages: list[Message] = []
        self._system: list[Counted] = []
        self._rest: list[Counted] = []
        self._call_ids: set[str] = set()
        self._read = 0
        self._reading = asyncio.Lock()
        self._alongside = ("", 0)

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        window: WindowPolicy | None = None,
        counter: TokenCounter | None = None,
    ) -> "Transcript":
        """A transcript of these messages that belongs to no session and is kept in memory."""
        return cls(MemoryStore({"": map(MessageRecord, messages)}), "", window, counter)

    async def append(self, *messages: Message) -> int:
        """Add messages to the journal, all or none; returns how many records it now holds.

        Raises:
            ValueError: One of them is no `Message`.
        """
        for each in messages:
            if not isinstance(each, Message):
                raise ValueError(f"A transcript holds Messages, not {type(each).__name__}.")
        return await self._store.append(self._session_id, *map(MessageRecord, messages))

    async def for_request(self, *, alongside: str = "", reserve_tokens: int = 0) -> list[Message]:
        """The messages to send next.

        Args:
            alongside: Text that will be sent besides, such as the description of the tools; its tokens count.
            reserve_tokens: Room to leave for the reply.

        Raises:
            SessionNotFound: There is no such session.
            WindowTooSmall: Not even the newest exchange fits.
        """
        await self._read_on()
        return self._window.select(self._system, self._rest, reserve_tokens + self._tokens_of(alongside))

    async def history(self) -> MessageHistory:
        """All messages, whatever a window shows of them."""
        await self._read_on()
        return MessageHistory(self._messages)

    async def unused_call_id(self, wanted: str = "") -> str:
        """An id no call of this conversation has: the wanted one if it is free."""
        await self._read_on()
        number = len(self._call_ids) + 1
        while not wanted or wanted in self._call_ids:
            wanted = f"call_{number}"
            number += 1
        self._call_ids.add(wanted)
        return wanted

    async def _read_on(self) -> None:
        async with self._reading:  # two readers at once would both take the same records
            for record in await self._store.read(self._session_id, self._read):
                self._take(record.message)

    def _take(self, message: Message) -> None:
        counted = Counted(message, message_tokens(self._counter, message))
        self._messages.append(message)
        (self._system if message.role == "system" else self._rest).append(counted)
        self._call_ids.update(call.id for call in message.tool_calls)
        self._read += 1

    def _tokens_of(self, alongside: str) -> int:
        if self._alongside[0] != alongside:  # the same text turn after turn, so one is remembered
            self._alongside = (alongside, self._counter.count(alongside))
        return self._alongside[1]
