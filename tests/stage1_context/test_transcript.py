import asyncio
from collections import Counter

import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import (
    KeepSystemAndRecent,
    MemoryStore,
    MessageRecord,
    SessionNotFound,
    Transcript,
    WindowTooSmall,
)

SYSTEM, HI, HELLO = Message.system("be brief"), Message.user("hi"), Message.assistant("hello")
MORE = Message.user("more")


class Counting:
    def __init__(self):
        self.seen = Counter()

    def count(self, text):
        self.seen[text] += 1
        return len(text)


async def test_what_is_appended_is_what_is_sent():
    transcript = Transcript.of([SYSTEM, HI])
    assert await transcript.append(HELLO, MORE) == 4
    assert await transcript.for_request() == [SYSTEM, HI, HELLO, MORE]


async def test_system_messages_are_sent_first_but_kept_where_they_were_said():
    transcript = Transcript.of([HI, SYSTEM, HELLO])
    assert await transcript.for_request() == [SYSTEM, HI, HELLO]
    assert (await transcript.history()).messages == (HI, SYSTEM, HELLO)


async def test_a_transcript_reads_on_what_another_writer_appends():
    store = MemoryStore({"s": []})
    mine, other = Transcript(store, "s"), Transcript(store, "s")
    await mine.append(HI)
    assert await other.for_request() == [HI]
    await other.append(HELLO)
    await store.append("s", MessageRecord(MORE))
    assert await mine.for_request() == await other.for_request() == [HI, HELLO, MORE]


async def test_each_message_is_counted_once_whatever_the_number_of_requests():
    counter = Counting()
    transcript = Transcript.of([SYSTEM, HI], KeepSystemAndRecent(max_tokens=1000), counter)
    for _ in range(3):
        await transcript.for_request(alongside="tools")
    await transcript.append(HELLO)
    await transcript.for_request(alongside="tools")
    await transcript.history()
    assert counter.seen == {"be brief": 1, "hi": 1, "tools": 1, "hello": 1}


async def test_what_stands_outside_the_window_is_still_history():
    transcript = Transcript.of([HI, HELLO, MORE], KeepSystemAndRecent(max_messages=1))
    assert await transcript.for_request() == [MORE]
    assert (await transcript.history()).messages == (HI, HELLO, MORE)


@pytest.mark.parametrize(
    ("alongside", "reserve", "sent"),
    [
        ("", 0, [HI, MORE]),
        ("1234", 0, [HI, MORE]),
        ("12345", 0, [MORE]),
        ("", 4, [HI, MORE]),
        ("", 5, [MORE]),
        ("12", 2, [HI, MORE]),
        ("123", 2, [MORE]),
    ],
)
async def test_text_alongside_and_the_reserve_take_room(alongside, reserve, sent):
    # HI takes 4 + 2 tokens, MORE takes 4 + 4.
    transcript = Transcript.of([HI, MORE], KeepSystemAndRecent(max_tokens=18), Counting())
    assert await transcript.for_request(alongside=alongside, reserve_tokens=reserve) == sent


async def test_text_alongside_that_changes_is_counted_anew():
    transcript = Transcript.of([HI], KeepSystemAndRecent(max_tokens=18), Counting())
    assert await transcript.for_request(alongside="x" * 12) == [HI]
    with pytest.raises(WindowTooSmall):
        await transcript.for_request(alongside="x" * 13)
    assert await transcript.for_request(alongside="x" * 12) == [HI]


async def test_a_wanted_call_id_is_given_once_and_taken_ones_are_replaced():
    transcript = Transcript.of([Message.assistant("", [ToolCall("a", "f"), ToolCall("call_3", "f")])])
    ids = [await transcript.unused_call_id(wanted) for wanted in ("b", "b", "a", "", "", "call_3")]
    assert ids[0] == "b"
    assert all(ids)
    assert len({*ids, "a", "call_3"}) == len(ids) + 2


async def test_an_id_that_another_writer_used_is_not_given_out():
    store = MemoryStore({"s": []})
    transcript = Transcript(store, "s")
    await Transcript(store, "s").append(Message.assistant("", [ToolCall("call_1", "f")]))
    assert await transcript.unused_call_id() != "call_1"
    assert await transcript.unused_call_id("call_1") != "call_1"


async def test_a_session_that_is_not_there_is_named():
    transcript = Transcript(MemoryStore(), "s")
    for ask in (transcript.for_request(), transcript.history(), transcript.append(HI)):
        with pytest.raises(SessionNotFound, match="no session 's'"):
            await ask


class Yielding(MemoryStore):
    """Lets others run while it reads, as a database does."""

    async def read(self, session_id, start=0):
        records = await super().read(session_id, start)
        await asyncio.sleep(0)
        return records


async def test_two_readers_at_once_see_each_message_once():
    transcript = Transcript(Yielding({"s": [MessageRecord(HI)]}), "s")
    await asyncio.gather(transcript.history(), transcript.for_request())
    assert (await transcript.history()).messages == (HI,)
