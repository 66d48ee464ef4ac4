"""`ContextEngine`: sessions, and what of them a model sees.

It puts the stage together: a store keeps the journals, a counter counts, a window decides. Knows
nothing of HTTP or tools. What is needed only sometimes (compaction, variables, export) is reached
from here, lazily.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4
from weakref import WeakValueDictionary

from stage0_gateway import ChatResponse, Message, Usage, as_message
from stage1_context.counting.calibration import Calibration
from stage1_context.history import MessageHistory
from stage1_context.journal import MessageRecord
from stage1_context.store import MemoryStore, SessionInfo, SessionStore
from stage1_context.tokens import TokenCounter
from stage1_context.transcript import Transcript
from stage1_context.window import WindowPolicy

if TYPE_CHECKING:
    from stage1_context.compaction.compact import Compaction
    from stage1_context.variables import VariableStore
    from stage1_context.view.explanation import Explanation

KEPT_OPEN = 256
"""How many sessions stay counted in memory; one that was used longer ago is read again when it is
needed."""


class ContextEngine:
    """Keeps conversations and prepares what is sent of them.

    Args:
        store: Where journals are kept, such as `SqliteStore("sessions.db")`; None keeps them in
            memory.
        window: Which messages a request holds, such as `KeepSystemAndRecent(max_tokens=8000)`; None
            sends all.
        token_counter: None counts approximately, without files or network.

    `async with ContextEngine(…) as engine:` closes the store at the end.

    Raises:
        ValueError: `store` is a path and not a store.
    """

    def __init__(
        self,
        *,
        store: SessionStore | None = None,
        window: WindowPolicy | None = None,
        token_counter: TokenCounter | None = None,
    ) -> None:
        if isinstance(store, str | Path):
            raise ValueError(
                f"store is a place for sessions, such as SqliteStore({str(store)!r}), not a path."
            )
        self.store: SessionStore = MemoryStore() if store is None else store
        self._window = window
        self._counter = token_counter
        self._calibration = Calibration()
        self._transcripts: WeakValueDictionary[str, Transcript] = WeakValueDictionary()
        self._used_last: dict[str, Transcript] = {}

    # ---- sessions
    # ----------------------------------------------------------------------------------------

    async def create_session(
        self, session_id: str | None = None, system_prompt: str | None = None
    ) -> str:
        """Begin a session.

        Args:
            session_id: Its name; None makes one up.
            system_prompt: What the model is told first.

        Returns:
            The session's id.

        Raises:
            SessionExists: The id is taken.
            ValueError: It cannot be an id.
        """
        session_id = session_id or uuid4().hex
        first = [MessageRecord(Message.system(system_prompt))] if system_prompt else []
        await self.store.create(session_id, *first)
        return session_id

    async def sessions(self) -> list[SessionInfo]:
        """All sessions, the one that was written to last first."""
        return await self.store.sessions()

    async def delete_session(self, session_id: str) -> None:
        """Remove a session for good.

        Raises:
            SessionNotFound: There is no such session.
        """
        await self.store.delete(session_id)
        self._used_last.pop(session_id, None)

    async def export_session(self, session_id: str) -> str:
        """A session as text, one JSON record a line, for `import_session`.

        Raises:
            SessionNotFound: There is no such session.
        """
        from stage1_context.stores.export import export_session

        return await export_session(self.store, session_id)

    async def import_session(self, text: str, session_id: str | None = None) -> str:
        """Begin a session with what `export_session` wrote.

        Args:
            text: The exported text.
            session_id: Its name; None takes the name it had.

        Raises:
            SessionExists: The id is taken.
            ValueError: The text is no exported session.
        """
        from stage1_context.stores.export import import_session

        return await import_session(self.store, text, session_id)

    # ---- messages
    # ----------------------------------------------------------------------------------------

    async def add_message(self, session_id: str, message: Message | Mapping[str, Any]) -> int:
        """Add a message; nothing that was added is ever changed.

        Returns:
            How many records the session's journal now holds.

        Raises:
            SessionNotFound: There is no such session.
            ValueError: It is not a message.
        """
        return await self.store.append(session_id, MessageRecord(as_message(message)))

    async def messages_for_request(
        self, session_id: str, *, include_summary: bool = True, reserve_tokens: int = 0
    ) -> list[Message]:
        """What a model should see next: the system messages and as much of the rest as the window
        holds.

        Args:
            session_id: The session.
            include_summary: False leaves the summary out, and shows what it stands for instead.
            reserve_tokens: Room to leave, for the reply and for what is sent besides.

        Raises:
            SessionNotFound: There is no such session.
            WindowTooSmall: Not even the newest exchange fits.
        """
        transcript = self.transcript(session_id)
        return await transcript.for_request(
            include_summary=include_summary, reserve_tokens=reserve_tokens
        )

    async def explain(self, session_id: str, *, reserve_tokens: int = 0) -> "Explanation":
        """What `messages_for_request` shows, what it leaves out, and why: a table, if it is
        printed.

        Raises:
            SessionNotFound: There is no such session.
            WindowTooSmall: Not even the newest exchange fits.
        """
        from stage1_context.view.explanation import explain

        selection = await self.transcript(session_id).select(
            reserve_tokens=reserve_tokens, complete=True
        )
        return explain(selection)

    def report_usage(self, session_id: str, usage: Usage | None) -> None:
        """Say what a server reported of the session's last request, so that further counts come
        closer.

        The loop of stage 3 does it by itself.
        """
        self.transcript(session_id).report_usage(usage)

    async def history(self, session_id: str) -> MessageHistory:
        """All messages of a session, whatever a window or a summary shows of them.

        Raises:
            SessionNotFound: There is no such session.
        """
        return await self.transcript(session_id).history()

    async def repair_history(self, session_id: str) -> list[str]:
        """Give each tool call one result, right behind it; a call without one gets one that says
        so.

        Returns:
            What was wrong, as `check_history` says it; empty if nothing was.

        Raises:
            SessionNotFound: There is no such session.
            SessionConflict: Somebody writes to the session just now, so nothing was repaired.
        """
        return await self.transcript(session_id).repair_history()

    def transcript(self, session_id: str) -> Transcript:
        """The session as a loop sees it; the same object as long as anybody uses it."""
        transcript = self._transcripts.get(session_id)
        if transcript is None:
            transcript = Transcript(
                self.store, session_id, self._window, self._counter, self._calibration
            )
            self._transcripts[session_id] = transcript
        self._used_last.pop(session_id, None)
        self._used_last[session_id] = (
            transcript  # at the end; the first is the one used longest ago
        )
        if len(self._used_last) > KEPT_OPEN:
            del self._used_last[next(iter(self._used_last))]
        return transcript

    def transcript_of(self, messages: Iterable[Message]) -> Transcript:
        """These messages as a loop sees them, with this engine's window; they belong to no
        session.
        """
        return Transcript.of(messages, self._window, self._counter)

    # ---- the summary, variables
    # --------------------------------------------------------------------------

    async def set_summary(self, session_id: str, text: str | None) -> None:
        """Say what a model is told of the messages before; None or an empty text takes the summary
        back.

        Raises:
            SessionNotFound: There is no such session.
        """
        await self.transcript(session_id).set_summary(text or "")

    async def get_summary(self, session_id: str) -> str | None:
        """What a model is told of the messages before; None if there is no summary.

        Raises:
            SessionNotFound: There is no such session.
        """
        return await self.transcript(session_id).summary() or None

    async def compact(
        self,
        session_id: str,
        chat: Callable[..., Awaitable[ChatResponse]],
        *,
        at: float = 1.0,
        to: float = 0.5,
        reserve_tokens: int = 0,
    ) -> "Compaction":
        """If the window is full, have a model summarize the old messages. The history keeps them.

        Args:
            session_id: The session.
            chat: Sends messages to a model; `Gateway.chat`.
            at: From which fill on to act: 0.8 is four fifths of the window. A session without a
                window, or with a window of your own making, is taken to be full: call this when you
                want it done.
            to: How much of the window the newest messages, which stay as they are, may fill
                afterwards.
            reserve_tokens: Room that requests leave for the reply.

        Returns:
            What was done, or why nothing was. A model that fails is part of it: nothing changes
            then.

        Raises:
            SessionNotFound: There is no such session.
            WindowTooSmall: Not even the newest exchange fits.
            ValueError: `at` or `to` is no part of a window, or `chat` is no function.
        """
        from stage1_context.compaction.compact import compact

        return await compact(
            self.transcript(session_id),
            chat,
            at=at,
            to=to,
            reserve_tokens=reserve_tokens,
        )

    @property
    def variables(self) -> "VariableStore":
        """The sessions' variables, kept in their journals."""
        from stage1_context.variables import VariableStore

        return VariableStore(self.store)

    # ---- the end
    # -----------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the store."""
        await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
