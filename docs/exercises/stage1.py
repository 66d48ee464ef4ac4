"""Stage 1: three exercises. Each function waits for you, and has a test below.

    .venv/bin/python -m pytest docs/exercises/stage1.py

All three tests fail with NotImplementedError until you write the functions; do them one after the other
(`-k first_and_recent` runs only the first). You need nothing but the faces of the two stages. If you are
stuck, read `window.py` again: what is an exchange, and where does it begin?
"""

import asyncio
from collections.abc import Sequence

import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import (
    ContextEngine,
    KeepSystemAndRecent,
    MessageHistory,
    SessionNotFound,
    TokenCounter,
    Transcript,
    WindowPolicy,
)

TALK = (
    Message.system("Be brief."),
    Message.user("Plan a trip to Oslo."),
    Message.assistant("", [ToolCall("call_1", "weather", "{}"), ToolCall("call_2", "hotels", "{}")]),
    Message.tool("Snow.", "call_1"),
    Message.tool("Full.", "call_2"),
    Message.assistant("Wait until May."),
    Message.user("And the train?"),
    Message.assistant("", [ToolCall("call_3", "trains", "{}")]),
    Message.tool("At nine.", "call_3"),
)


def first_and_recent(first: int, recent: int) -> WindowPolicy:
    """A window that forgets the middle: the task stays, and so does what happened last.

    It sends all system messages, the first exchanges, and the newest exchanges. No exchange is parted, and
    none is sent twice where the two ends meet. Tokens do not matter here.

    Args:
        first: How many exchanges to keep from the beginning.
        recent: How many exchanges to keep from the end; at least 1.

    Returns:
        Something to pass as `window=`.
    """
    raise NotImplementedError


async def fork(engine: ContextEngine, session_id: str, length: int) -> str:
    """Begin a new session with the first messages of another one, to try something different from there.

    The old session is left as it is. A fork must be fit to be sent: if a tool call within `length` would be
    left without one of its results, cut before that call.

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


def calibrated(counter: TokenCounter, reported: Sequence[tuple[str, int]]) -> TokenCounter:
    """A counter that was taught by a server's own numbers.

    Multiply what the given counter says by one fixed factor, and round up. Of all factors with which no
    reported text is counted too low, take the smallest. A text that the given counter counts as 0 teaches
    nothing; nothing to learn from means a factor of 1.

    Args:
        counter: Counts somehow, perhaps badly.
        reported: Texts, and how many tokens the server counted in each.

    Returns:
        Something to pass as `token_counter=`.
    """
    raise NotImplementedError


class FourLettersAToken:
    """The rule of thumb that every tutorial gives; far too low for Chinese."""

    def count(self, text: str) -> int:
        """A quarter of the letters."""
        return len(text) // 4


def test_first_and_recent():
    """The two ends apart, touching, and overlapping."""

    def shown(first: int, recent: int) -> tuple[Message, ...]:
        return tuple(asyncio.run(Transcript.of(TALK, first_and_recent(first, recent)).for_request()))

    assert shown(1, 1) == (*TALK[:2], *TALK[7:])
    assert shown(2, 2) == (*TALK[:5], *TALK[6:])
    assert shown(0, 2) == (TALK[0], *TALK[6:])
    assert shown(9, 9) == TALK
    assert shown(3, 2) == TALK
    assert MessageHistory(shown(2, 1)).check_history() == []


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


def test_calibrated():
    """No reported text is counted too low; a window then shows less."""
    chinese = "请帮我查一下明天上海的天气吧"  # 14 letters: the rule of thumb says 3
    reported = [(chinese, 12), ("What is the weather?", 5), ("Hi.", 1)]
    counter = calibrated(FourLettersAToken(), reported)
    assert [counter.count(text) for text, _ in reported] == [12, 20, 0]
    assert calibrated(FourLettersAToken(), [("abcdefgh", 3)]).count("abcd") == 2  # 1.5, rounded up
    assert calibrated(FourLettersAToken(), [("Hi.", 1)]).count(chinese) == 3

    async def shown(token_counter: TokenCounter) -> int:
        window = KeepSystemAndRecent(max_tokens=40)
        engine = ContextEngine(window=window, token_counter=token_counter)
        session = await engine.create_session()
        for _ in range(5):
            await engine.add_message(session, Message.user(chinese))
        return len(await engine.messages_for_request(session))

    assert asyncio.run(shown(FourLettersAToken())) == 5
    assert asyncio.run(shown(counter)) == 2
