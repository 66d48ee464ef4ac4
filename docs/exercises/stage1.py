"""Stage 1: three exercises. Each function waits for you, and has a test below.

    .venv/bin/python -m pytest docs/exercises/stage1.py

All three tests fail with NotImplementedError until you write the functions; do them one after the
other (`-k first_and_recent` runs only the first). You need nothing but the faces of the two stages.
If you are stuck, read `window.py` again (what is an exchange, and where does it begin?), and for
the last `journal.py`.
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
    """A window that forgets the middle: the task stays, and so does what happened last.

    It sends all system messages, the first exchanges, and the newest exchanges. No exchange is
    parted, and none is sent twice where the two ends meet. Tokens do not matter here, so it need
    not look at the room.

    Args:
        first: How many exchanges to keep from the beginning.
        recent: How many exchanges to keep from the end; at least 1.

    Returns:
        Something to pass as `window=`.
    """
    raise NotImplementedError


async def fork(engine: ContextEngine, session_id: str, length: int) -> str:
    """Begin a new session with the first messages of another one, to try something different from
    there.

    The old session is left as it is. A fork must be fit to be sent: if a tool call within `length`
    would be left without one of its results, cut before that call.

    Args:
        engine: Keeps both sessions.
        session_id: The session to copy from.
        length: How many of its messages to copy, at most.

    Returns:
        The id of the new session.

    Raises:
        SessionNotFound: There is no such session.
    """
    raise NotImplementedError


async def take_back(engine: ContextEngine, session_id: str) -> Message | None:
    """Take back the last question, and all that was said after it.

    Nothing in a journal is edited: add one record that hides what is taken back (`RepairRecord`),
    and let the store refuse it if somebody else wrote to the session after you had read it. System
    messages stay. A second call takes back the question before.

    Args:
        engine: Keeps the session; its `store` reads records with their indices.
        session_id: The session.

    Returns:
        The question that was taken back; None if there is none left, and then nothing is written.

    Raises:
        SessionConflict: Somebody else wrote to the session in between.
    """
    raise NotImplementedError


class SomebodyElseWrites(MemoryStore):
    """A store in which somebody else is always quicker: what you have read is old at once."""

    async def read(
        self,
        session_id: str,
        start: int = 0,
        end: int | None = None,
        *,
        kinds: Collection[str] | None = None,
    ) -> list[tuple[int, Record]]:
        """What is there, before somebody else adds to it."""
        found = await super().read(session_id, start, end, kinds=kinds)
        await self.append(session_id, MessageRecord(Message.user("Wait!")))
        return found


def test_first_and_recent():
    """The two ends apart, touching, and overlapping."""

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
    """Cut at a whole exchange, and in the middle of one."""

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
    """Twice, then nothing is left; the journal keeps it all; and not behind somebody's back."""

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
