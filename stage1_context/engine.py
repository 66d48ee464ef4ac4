"""`ContextEngine`: create sessions and prepare what a model sees of them.

It combines the stage: a store holds the journals, a counter counts tokens, a window selects
messages. It knows neither HTTP nor tools.
"""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, Self
from uuid import uuid4
from weakref import WeakValueDictionary

from stage0_gateway import Accepted, Chat, ChatModel, Message, Usage, as_message, check_arguments
from stage1_context.compaction.compact import AutomaticCompaction, CompactionPolicy, compact
from stage1_context.counting.calibration import Calibration
from stage1_context.errors import SessionExists
from stage1_context.history import MessageHistory
from stage1_context.journal import VIEW_KINDS, MessageRecord
from stage1_context.store import MemoryStore, SessionInfo, SessionStore
from stage1_context.stores.export import export_session, import_session
from stage1_context.tokens import TokenCounter
from stage1_context.transcript import Compaction, Transcript
from stage1_context.variables import VariableStore
from stage1_context.view.explanation import Explanation, explain
from stage1_context.view.projection import details_of
from stage1_context.window import WindowPolicy

MAX_TRANSCRIPTS = 256
"""The number of sessions whose counted messages stay in memory, the last used ones."""


_ACCEPTED = {
    "store": Accepted("create", "a store such as SqliteStore('sessions.db')"),
    "window": Accepted("select", "a window such as KeepSystemAndRecent(max_tokens=8000)"),
    "token_counter": Accepted("count", "a counter such as TiktokenCounter('gpt-5-mini')"),
    "compaction": Accepted(CompactionPolicy, "CompactionPolicy(gateway, threshold=0.8)"),
}


class ContextEngine:
    """Stores conversations and prepares requests from them.

    `async with ContextEngine(…) as engine:` closes the store at the end.

    Args:
        store: The store, such as `SqliteStore("sessions.db")`; None stores sessions in memory.
        window: The window, such as `KeepSystemAndRecent(max_tokens=8000)`; None sends all messages.
        token_counter: Counts tokens; None counts approximately, without files or network.
        compaction: Summarizes old messages when a window is nearly full; None lets the window drop
            them.

    Raises:
        TypeError: An argument has the wrong type. The text states what to write.
    """

    def __init__(
        self,
        *,
        store: SessionStore | None = None,
        window: WindowPolicy | None = None,
        token_counter: TokenCounter | None = None,
        compaction: CompactionPolicy | None = None,
    ) -> None:
        check_arguments(locals(), _ACCEPTED)
        self.store: SessionStore = MemoryStore() if store is None else store
        self._window = window
        self._counter = token_counter
        self._compaction = compaction
        self._calibration = Calibration()
        self._transcripts: WeakValueDictionary[str, Transcript] = WeakValueDictionary()
        self._last_used: dict[str, Transcript] = {}  # the last used one is at the end

    # ---- sessions

    async def create_session(
        self,
        session_id: str | None = None,
        system_prompt: str | None = None,
        *,
        exist_ok: bool = False,
    ) -> str:
        """Create a session.

        Args:
            session_id: The id; None creates one.
            system_prompt: The first system message.
            exist_ok: Whether to continue a session that exists, unchanged, instead of raising.

        Returns:
            The session's id.

        Raises:
            SessionExists: The session exists already.
            ValueError: The id is invalid.
        """
        session_id = uuid4().hex if session_id is None else session_id
        first = [MessageRecord(Message.system(system_prompt))] if system_prompt else []
        with suppress(SessionExists) if exist_ok else nullcontext():
            await self.store.create(session_id, *first)
        return session_id

    async def sessions(self) -> list[SessionInfo]:
        """Return all sessions, the last written one first."""
        return await self.store.sessions()

    async def delete_session(self, session_id: str) -> None:
        """Delete a session and its journal.

        Raises:
            SessionNotFound: The session does not exist.
        """
        await self.store.delete(session_id)
        self._last_used.pop(session_id, None)

    async def export_session(self, session_id: str) -> str:
        """Return a session as text for `import_session`, with one JSON record per line.

        Raises:
            SessionNotFound: The session does not exist.
        """
        return await export_session(self.store, session_id)

    async def import_session(self, text: str, session_id: str | None = None) -> str:
        """Create a session from a text that `export_session` wrote.

        Args:
            text: The exported text.
            session_id: The new id; None uses the exported one.

        Returns:
            The session's id.

        Raises:
            SessionExists: The session exists already.
            ValueError: The text is not an exported session.
        """
        return await import_session(self.store, text, session_id)

    # ---- messages

    async def add_message(self, session_id: str, message: Message | Mapping[str, Any]) -> int:
        """Append a message. Stored messages never change.

        Returns:
            The number of records in the session's journal.

        Raises:
            SessionNotFound: The session does not exist.
            ValueError: The value is not a message.
        """
        return await self.store.append(session_id, MessageRecord(as_message(message)))

    async def add_messages(self, session_id: str, *messages: Message | Mapping[str, Any]) -> int:
        """Append messages, all or none, without records of other writers between them.

        Returns:
            The number of records in the session's journal.

        Raises:
            SessionNotFound: The session does not exist.
            ValueError: A value is not a message; nothing was appended.
        """
        records = [MessageRecord(as_message(message)) for message in messages]
        return await self.store.append(session_id, *records)

    async def messages_for_request(
        self, session_id: str, *, include_summary: bool = True, reserve_tokens: int = 0
    ) -> list[Message]:
        """Return the messages of the next request: those that are always sent, and those that fit.

        The system messages come first, then the summary.

        Args:
            session_id: The session.
            include_summary: False shows the messages that a summary replaces, and no summary.
            reserve_tokens: Tokens for the reply and for text besides the messages.

        Raises:
            SessionNotFound: The session does not exist.
            WindowTooSmall: The newest exchange does not fit.
        """
        return await self.transcript(session_id).for_request(
            include_summary=include_summary, reserve_tokens=reserve_tokens
        )

    async def explain(self, session_id: str, *, reserve_tokens: int = 0) -> Explanation:
        """Explain which messages are sent, which are dropped, and why. Printed, it is a table.

        Raises:
            SessionNotFound: The session does not exist.
            WindowTooSmall: The newest exchange does not fit.
        """
        transcript = self.transcript(session_id)
        return explain(await transcript.select(reserve_tokens=reserve_tokens, complete=True))

    def report_usage(self, session_id: str, usage: Usage | None) -> None:
        """Report a server's usage of the session's last request, which corrects later counts.

        The loop of stage 3 does this.
        """
        self.transcript(session_id).report_usage(usage)

    async def history(self, session_id: str) -> MessageHistory:
        """Return all messages of a session, also dropped and summarized ones.

        Raises:
            SessionNotFound: The session does not exist.
        """
        return await self.transcript(session_id).history()

    async def details(self, session_id: str) -> dict[str, Any]:
        """Return the details of a session's tool results by call id. No request contains them.

        Raises:
            SessionNotFound: The session does not exist.
        """
        return details_of(await self.store.read(session_id, kinds=VIEW_KINDS))

    async def repair_history(self, session_id: str) -> list[str]:
        """Give each tool call one result. A call without one receives an error that says so.

        Returns:
            The problems that `check_history` found; empty for a sound history.

        Raises:
            SessionNotFound: The session does not exist.
            SessionConflict: Another writer continued the session, so nothing was repaired.
        """
        return await self.transcript(session_id).repair_history()

    def transcript(self, session_id: str) -> Transcript:
        """Return the transcript of a session: the same object while it is in use."""
        transcript = self._transcripts.get(session_id)
        if transcript is None:
            options = self._window, self._counter, self._calibration
            transcript = Transcript(self.store, session_id, *options)
            if self._compaction is not None:
                transcript.auto_compact = AutomaticCompaction(self._compaction)
            self._transcripts[session_id] = transcript
        self._last_used.pop(session_id, None)
        self._last_used[session_id] = transcript
        if len(self._last_used) > MAX_TRANSCRIPTS:
            del self._last_used[next(iter(self._last_used))]
        return transcript

    def transcript_of(self, messages: Iterable[Message]) -> Transcript:
        """Return a transcript of these messages with this engine's window, outside any session."""
        transcript = Transcript.of(messages, self._window, self._counter)
        if self._compaction is not None:
            transcript.auto_compact = AutomaticCompaction(self._compaction)
        return transcript

    # ---- summary, variables

    async def set_summary(self, session_id: str, text: str | None) -> None:
        """Set the summary of the messages so far; None or an empty text removes it.

        It is sent as data: in a user message with a header that says so, behind the system messages
        and before all others. No window drops it.

        Raises:
            SessionNotFound: The session does not exist.
        """
        check_arguments({"text": text}, {"text": Accepted(str, "a text")})
        await self.transcript(session_id).set_summary(text or "")

    async def get_summary(self, session_id: str) -> str | None:
        """Return the summary, or None.

        Raises:
            SessionNotFound: The session does not exist.
        """
        return await self.transcript(session_id).summary() or None

    async def compact(
        self,
        session_id: str,
        chat: Chat | ChatModel,
        *,
        threshold: float = 1.0,
        target: float = 0.5,
        reserve_tokens: int = 0,
    ) -> Compaction:
        """Let a model summarize the old messages if the window is full. The history keeps them.

        The summary is sent as with `set_summary`.

        Args:
            session_id: The session.
            chat: The model: a `Gateway`, or an async function that returns the reply or its text.
            threshold: The fill of the window from which to act; 0.8 is four fifths. A session
                without a window, or with a custom window, counts as full.
            target: The part of the window that the newest messages, which stay, may fill
                afterwards.
            reserve_tokens: Tokens for the reply.

        Returns:
            The result, with the reason. If the model fails, nothing changes.

        Raises:
            SessionNotFound: The session does not exist.
            WindowTooSmall: The newest exchange does not fit.
            ValueError: `threshold` or `target` is invalid.
            TypeError: `chat` is neither a gateway nor a function.
        """
        policy = CompactionPolicy(chat, threshold, target)
        return await compact(self.transcript(session_id), policy, reserve_tokens)

    @property
    def variables(self) -> VariableStore:
        """The variables of the sessions, stored in their journals."""
        return VariableStore(self.store)

    # ---- closing

    async def aclose(self) -> None:
        """Close the store. Later uses raise StoreFailed."""
        await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
