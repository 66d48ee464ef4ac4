import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import (
    ContextEngine,
    KeepSystemAndRecent,
    MemoryStore,
    SessionExists,
    SessionNotFound,
    WindowTooSmall,
)

HI, HELLO, MORE = Message.user("hi"), Message.assistant("hello"), Message.user("more")


class Letters:
    def count(self, text):
        return len(text)


async def test_a_session_begins_with_its_system_prompt():
    engine = ContextEngine()
    assert await engine.create_session("s", system_prompt="be brief") == "s"
    assert (await engine.history("s")).messages == (Message.system("be brief"),)


async def test_a_session_without_a_name_gets_one_of_its_own():
    engine = ContextEngine()
    first, second = await engine.create_session(), await engine.create_session()
    assert first != second
    await engine.add_message(first, HI)
    assert (await engine.history(second)).messages == ()


async def test_messages_are_only_added_and_the_journals_length_comes_back():
    engine = ContextEngine()
    await engine.create_session("s", system_prompt="be brief")
    before = await engine.history("s")
    assert [await engine.add_message("s", each) for each in (HI, HELLO, HI)] == [2, 3, 4]
    assert (await engine.history("s")).messages == (*before, HI, HELLO, HI)
    assert len(before) == 1


async def test_a_message_may_be_a_mapping():
    engine = ContextEngine()
    await engine.create_session("s")
    await engine.add_message("s", {"role": "user", "content": "hi"})
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    await engine.add_message("s", {"role": "assistant", "content": None, "tool_calls": [call]})
    assert (await engine.history("s")).messages == (
        HI,
        Message.assistant("", [ToolCall("a", "f", '{"x":1}')]),
    )


@pytest.mark.parametrize("wrong", [{"content": "hi"}, {"role": "boss"}, "hi", None])
async def test_what_is_no_message_is_refused_and_not_kept(wrong):
    engine = ContextEngine()
    await engine.create_session("s")
    with pytest.raises(ValueError, match=r"message|role"):
        await engine.add_message("s", wrong)
    assert (await engine.history("s")).messages == ()


async def test_an_id_that_is_taken_is_refused_with_what_to_do():
    engine = ContextEngine()
    await engine.create_session("s", system_prompt="be brief")
    with pytest.raises(SessionExists, match=r"'s' already\. Use it, or choose another id"):
        await engine.create_session("s", system_prompt="be long")
    assert (await engine.history("s")).messages == (Message.system("be brief"),)


async def test_an_unknown_session_is_refused_with_the_sessions_there_are():
    engine = ContextEngine()
    await engine.create_session("here")
    text = "There is no session 'gone'. Sessions: 'here'. Create one with create_session()."
    for ask in (engine.history("gone"), engine.messages_for_request("gone"), engine.add_message("gone", HI)):
        with pytest.raises(SessionNotFound) as caught:
            await ask
        assert str(caught.value) == text


async def test_without_a_window_everything_is_sent():
    engine = ContextEngine()
    await engine.create_session("s")
    for _ in range(100):
        await engine.add_message("s", HI)
    assert await engine.messages_for_request("s", reserve_tokens=10**9) == [HI] * 100


async def test_a_window_counts_with_the_engines_counter_and_leaves_the_reserve_free():
    engine = ContextEngine(window=KeepSystemAndRecent(max_tokens=27), token_counter=Letters())
    await engine.create_session("s", system_prompt="x")
    await engine.add_message("s", HI)
    await engine.add_message("s", MORE)
    assert await engine.messages_for_request("s", reserve_tokens=8) == [Message.system("x"), HI, MORE]
    assert await engine.messages_for_request("s", reserve_tokens=9) == [Message.system("x"), MORE]
    with pytest.raises(WindowTooSmall):
        await engine.messages_for_request("s", reserve_tokens=15)


async def test_a_session_has_one_transcript_whoever_asks():
    engine = ContextEngine()
    await engine.create_session("s")
    assert engine.transcript("s") is engine.transcript("s")
    await engine.transcript("s").append(HI)
    assert await engine.messages_for_request("s") == [HI]


async def test_two_engines_on_one_store_see_each_others_messages():
    store = MemoryStore()
    one, other = ContextEngine(store=store), ContextEngine(store=store)
    await one.create_session("s")
    await other.add_message("s", HI)
    await one.add_message("s", HELLO)
    assert await one.messages_for_request("s") == await other.messages_for_request("s") == [HI, HELLO]


class Sized(MemoryStore):
    def __len__(self):
        return len(self._journals)


async def test_an_empty_store_that_knows_its_length_is_used():
    store = Sized()
    await ContextEngine(store=store).create_session("s")
    assert await store.read("s") == []
