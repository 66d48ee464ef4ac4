"""`ContextEngine`: sessions, and what of them a model sees.

It puts the stage together: a store keeps the journals, a counter counts, a window decides. Knows nothing of
HTTP or tools.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from stage0_gateway import Message, as_message
from stage1_context.history import MessageHistory
from stage1_context.journal import MessageRecord
from stage1_context.store import MemoryStore, SessionStore
from stage1_context.tokens import TokenCounter
from stage1_context.transcript import Transcript
from stage1_context.window import WindowPolicy


class ContextEngine:
    """Keeps conversations and prepares what is sent of them.

    Args:
        store: Where journals are kept; None keeps them in memory.
        window: Which messages a request holds, such as `KeepSystemAndRecent(max_tokens=8000)`; None sends all.
        token_counter: None counts approximately, without files or network.
    """

    def __init__(
        self,
        *,
        store: SessionStore | None = None,
        window: WindowPolicy | None = None,
        token_counter: TokenCounter | None = None,
    ) -> None:
        self._store: SessionStore = MemoryStore() if store is None else store
        self._window = window
        self._counter = token_counter
        self._transcripts: dict[str, Transcript] = {}

    async def create_session(self, session_id: str | None = None, system_prompt: str | None = None) -> str:
        """Begin a session.

        Args:
            session_id: Its name; None makes one up.
            system_prompt: What the model is told first.

        Returns:
            The session's id.

        Raises:
            SessionExists: The id is taken.
        """
        session_id = session_id or uuid4().hex
        await self._store.create(session_id)
        if system_prompt:
            await self.add_message(session_id, Message.system(system_prompt))
        return session_id

    async def add_message(self, session_id: str, message: Message | Mapping[str, Any]) -> int:
        """Add a message; nothing that was added is ever changed.

        Returns:
            How many records the session's journal now holds.

        Raises:
            SessionNotFound: There is no such session.
            ValueError: It is not a message.
        """
        return await self._store.append(session_id, MessageRecord(as_message(message)))

    async def messages_for_request(self, session_id: str, *, reserve_tokens: int = 0) -> list[Message]:
        """What a model should see next: the system messages and as much of the rest as the window holds.

        Args:
            session_id: The session.
            reserve_tokens: Room to leave, for the reply and for what is sent besides.

        Raises:
            SessionNotFound: There is no such session.
            WindowTooSmall: Not even the newest exchange fits.
        """
        return await self.transcript(session_id).for_request(reserve_tokens=reserve_tokens)

    async def history(self, session_id: str) -> MessageHistory:
        """All messages of a session, whatever a window shows of them.

        Raises:
            SessionNotFound: There is no such session.
        """
        return await self.transcript(session_id).history()

    def transcript(self, session_id: str) -> Transcript:
        """The session as a loop sees it; the same object each time."""
        if session_id not in self._transcripts:
            self._transcripts[session_id] = Transcript(self._store, session_id, self._window, self._counter)
        return self._transcripts[session_id]
