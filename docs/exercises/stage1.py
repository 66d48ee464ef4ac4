"""Three exercises for lesson 2. Write the functions; the tests below verify them.

    .venv/bin/python -m pytest docs/exercises/stage1.py

Each test fails with NotImplementedError until its function is written. Solve one exercise after the
other: `-k first_and_recent` runs only the first test. The imports below are sufficient for the
first two; the third needs `RepairRecord` of `stage1_context` as well.

Help for the first two is in `stage1_context/window.py`: what an exchange is and where it begins.
Help for the third is in `stage1_context/journal.py`.
"""

import asyncio
from collections.abc import Collection

import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import (
    ContextEngine,
    MemoryStore,
    MessageHistory,
    MessageRecord,
    Record,
    SessionConflict,
    SessionNotFound,
    Transcript,
    WindowPolicy,
)

TALK = (
    Message.system("Be brief."),
    Message.user("Plan a trip to Oslo."),
    Message.assistant(
        "", [ToolCall("call_1", "weather", "{}"), ToolCall("call_2", "hotels", "{}")]
    ),
    Message.tool("Snow.", "call_1"),
    Message.tool("Full.", "call_2"),
    Message.assistant("Wait until May."),
    Message.user("And the train?"),
    Message.assistant("", [ToolCall("call_3", "trains", "{}")]),
    Message.tool("At nine.", "call_3"),
)


def first_and_recent(first: int, recent: int) -> WindowPolicy:
    """Return a window that drops the middle of a conversation.

    It selects all system messages, the first exchanges and the newest exchanges. It never divides
    an exchange, and it sends no exchange twice if the two parts overlap. It ignores tokens and the
    budget.

    Args:
        first: The number of exchanges to keep from the beginning.
        recent: The number of exchanges to keep from the end; at least 1.

    Returns:
        The window, for `window=`.
    """
    raise NotImplementedError


async def fork(engine: ContextEngine, session_id: str, length: int) -> str:
    """Copy the first messages of a session to a new session.

    The old session does not change. The new session must be a sound history: if a copied tool call
    lacks one of its results, end the copy before that call.

    Args:
        engine: The engine of both sessions.
        session_id: The session to copy from.
        length: The maximum number of messages to copy.

    Returns:
        The id of the new session.

    Raises:
        SessionNotFound: The session does not exist.
    """
    raise NotImplementedError


async def take_back(engine: ContextEngine, session_id: str) -> Message | None:
    """Hide the last question and all messages after it, except system messages.

    A journal is never edited. Append one `RepairRecord` that hides these messages. Pass `expected`,
    so that the store refuses the record if another writer has appended to the session since the
    read. A second call hides the question before.

    Args:
        engine: The engine of the session; its `store` reads records with their indices.
        session_id: The session.

    Returns:
        The hidden question. None if no question is left; then nothing is appended.

    Raises:
        SessionConflict: Another writer appended to the session after the read.
    """
    raise NotImplementedError


class SomebodyElseWrites(MemoryStore):
    """A store with another writer, which appends a message after each read."""

    async def read(
        self,
        session_id: str,
        start: int = 0,
        end: int | None = None,
        *,
        kinds: Collection[str] | None = None,
    ) -> list[tuple[int, Record]]:
        """Return the records; then the other writer appends a message."""
        found = await super().read(session_id, start, end, kinds=kinds)
        await self.append(session_id, MessageRecord(Message.user("Wait!")))
        return found


def test_first_and_recent():
    """The two parts are separate, adjacent, or overlapping."""

    def shown(first: int, recent: int) -> tuple[Message, ...]:
        return tuple(
            asyncio.run(Transcript.of(TALK, first_and_recent(first, recent)).for_request())
        )

    assert shown(1, 1) == (*TALK[:2], *TALK[7:])
    assert shown(2, 2) == (*TALK[:5], *TALK[6:])
    assert shown(0, 2) == (TALK[0], *TALK[6:])
    assert shown(9, 9) == TALK
    assert shown(3, 2) == TALK
    assert MessageHistory(shown(2, 1)).check_history() == []

    long = [*TALK, *(Message.user(f"And on day {day}?") for day in range(200))]
    sent = asyncio.run(Transcript.of(long, first_and_recent(1, 1)).for_request())
    assert sent == [*TALK[:2], long[-1]]


def test_fork():
    """The copy ends after a whole exchange, or within one."""

    async def forked(length: int) -> tuple[Message, ...]:
        engine = ContextEngine()
        old = await engine.create_session()
        for message in TALK:
            await engine.add_message(old, message)
        new = await fork(engine, old, length)
        copied = await engine.history(new)
        assert copied.check_history() == []
        await engine.add_message(new, Message.user("What if I fly?"))
        assert (await engine.history(old)).messages == TALK
        with pytest.raises(SessionNotFound):
            await fork(engine, "nobody", length)
        return copied.messages

    assert asyncio.run(forked(6)) == TALK[:6]
    assert asyncio.run(forked(5)) == TALK[:5]
    assert asyncio.run(forked(4)) == TALK[:2]  # the second result would be missing
    assert asyncio.run(forked(8)) == TALK[:7]
    assert asyncio.run(forked(99)) == TALK
    assert asyncio.run(forked(0)) == ()


def test_take_back():
    """Questions are hidden one by one, the journal only grows, and a conflict raises."""

    async def taken_back() -> None:
        engine = ContextEngine()
        session = await engine.create_session()
        for message in (*TALK, Message.system("Be kind.")):
            await engine.add_message(session, message)
        assert await take_back(engine, session) == TALK[6]
        shown = [TALK[0], Message.system("Be kind."), *TALK[1:6]]
        assert await engine.messages_for_request(session) == shown
        assert await take_back(engine, session) == TALK[1]
        assert (await engine.history(session)).messages == (TALK[0], Message.system("Be kind."))
        await engine.add_message(session, Message.user("Plan a trip to Rome."))
        assert await take_back(engine, session) == Message.user("Plan a trip to Rome.")
        length = (await engine.store.info(session)).records
        assert await take_back(engine, session) is None
        assert (await engine.store.info(session)).records == length == len(TALK) + 5

    async def conflict() -> None:
        engine = ContextEngine(store=SomebodyElseWrites({"talk": map(MessageRecord, TALK)}))
        with pytest.raises(SessionConflict):
            await take_back(engine, "talk")

    asyncio.run(taken_back())
    asyncio.run(conflict())
