import weakref

import pytest

from stage0_gateway import Message, ToolCall, Usage
from stage1_context import (
    ContextEngine,
    KeepSystemAndRecent,
    MemoryStore,
    SessionExists,
    SessionNotFound,
    SqliteStore,
    WindowTooSmall,
)
from stage1_context.engine import MAX_TRANSCRIPTS
from stage1_context.journal import MessageRecord
from tests.stage1_context.sessions import (
    HELLO,
    HI,
    MORE,
    SHORT,
    SYSTEM,
    RecordingStore,
    calls,
    engine_with,
    result,
    summary_message,
    user,
)
from tests.tables import for_each


async def test_a_session_begins_with_its_system_prompt():
    engine = ContextEngine()
    assert await engine.create_session("s", system_prompt="be brief") == "s"
    assert (await engine.history("s")).messages == (SYSTEM,)


async def test_a_session_that_may_exist_is_continued_unchanged():
    engine = ContextEngine()
    for system_prompt in ("be brief", "be long"):
        assert await engine.create_session("s", system_prompt, exist_ok=True) == "s"
    assert (await engine.history("s")).messages == (SYSTEM,)


async def test_a_session_without_an_id_gets_a_unique_id():
    engine = ContextEngine()
    first, second = await engine.create_session(), await engine.create_session()
    assert first != second
    await engine.add_message(first, HI)
    assert (await engine.history(second)).messages == ()


async def test_add_message_appends_the_message_and_returns_the_length_of_the_journal():
    engine = await engine_with(SYSTEM)
    before = await engine.history("s")
    assert [await engine.add_message("s", each) for each in (HI, HELLO, HI)] == [2, 3, 4]
    assert (await engine.history("s")).messages == (*before, HI, HELLO, HI)
    assert len(before) == 1


async def test_several_messages_are_added_in_one_append():
    engine = await engine_with(store=RecordingStore())
    mapping = {"role": "user", "content": "more"}
    assert await engine.add_messages("s", HI, HELLO, mapping) == 3
    assert engine.store.writes == [("create", 0), ("append", 3)]
    assert (await engine.history("s")).messages == (HI, HELLO, MORE)


async def test_no_messages_to_add_change_nothing():
    engine = await engine_with(SYSTEM)
    assert await engine.add_messages("s") == 1
    assert len(await engine.history("s")) == 1


async def test_of_several_messages_none_is_added_if_one_is_invalid():
    engine = await engine_with()
    with pytest.raises(ValueError, match="role"):
        await engine.add_messages("s", HI, {"content": "hi"})
    assert (await engine.history("s")).messages == ()


async def test_a_message_may_be_a_mapping():
    engine = await engine_with()
    await engine.add_message("s", {"role": "user", "content": "hi"})
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    await engine.add_message("s", {"role": "assistant", "content": None, "tool_calls": [call]})
    assert (await engine.history("s")).messages == (
        HI,
        Message.assistant("", [ToolCall("a", "f", '{"x":1}')]),
    )


@for_each("wrong", [{"content": "hi"}, {"role": "boss"}, "hi", None])
async def test_an_invalid_message_is_rejected_and_not_stored(wrong):
    engine = await engine_with()
    with pytest.raises(ValueError, match=r"message|role"):
        await engine.add_message("s", wrong)
    assert (await engine.history("s")).messages == ()


async def test_an_existing_session_id_is_rejected_with_advice():
    engine = await engine_with(SYSTEM)
    with pytest.raises(SessionExists, match=r"'s' exists already\. Choose another id, or"):
        await engine.create_session("s", system_prompt="be long")
    assert (await engine.history("s")).messages == (SYSTEM,)


@for_each(
    "use",
    [
        lambda engine: engine.add_message("x", HI),
        lambda engine: engine.add_messages("x", HI),
        lambda engine: engine.messages_for_request("x"),
        lambda engine: engine.explain("x"),
        lambda engine: engine.history("x"),
        lambda engine: engine.details("x"),
        lambda engine: engine.repair_history("x"),
        lambda engine: engine.set_summary("x", "They met."),
        lambda engine: engine.set_summary("x", ""),
        lambda engine: engine.get_summary("x"),
        lambda engine: engine.export_session("x"),
        lambda engine: engine.delete_session("x"),
    ],
)
async def test_an_unknown_session_raises_an_error_that_lists_the_existing_sessions(use):
    with pytest.raises(SessionNotFound) as caught:
        await use(await engine_with())
    assert (
        str(caught.value) == "Unknown session 'x'. Sessions: 's'. Create one with create_session()."
    )


async def test_without_a_window_all_messages_are_sent():
    engine = await engine_with(*[HI] * 100)
    assert await engine.messages_for_request("s", reserve_tokens=10**9) == [HI] * 100


async def test_a_window_uses_the_token_counter_of_the_engine_and_leaves_the_reserve_free():
    system = Message.system("x")
    engine = await engine_with(system, HI, MORE, window=KeepSystemAndRecent(max_tokens=27))
    assert await engine.messages_for_request("s", reserve_tokens=8) == [system, HI, MORE]
    assert await engine.messages_for_request("s", reserve_tokens=9) == [system, MORE]
    with pytest.raises(WindowTooSmall):
        await engine.messages_for_request("s", reserve_tokens=15)


async def test_the_engine_returns_the_same_transcript_of_a_session_every_time():
    engine = await engine_with()
    assert engine.transcript("s") is engine.transcript("s")
    await engine.transcript("s").append(HI)
    assert await engine.messages_for_request("s") == [HI]


async def test_two_engines_with_one_store_read_each_others_messages():
    store = MemoryStore()
    one, other = ContextEngine(store=store), ContextEngine(store=store)
    await one.create_session("s")
    await other.add_message("s", HI)
    await one.add_message("s", HELLO)
    assert (
        await one.messages_for_request("s") == await other.messages_for_request("s") == [HI, HELLO]
    )


class SizedStore(MemoryStore):
    def __len__(self):
        return len(self._journals)


async def test_an_empty_store_with_a_length_of_zero_is_used():
    store = SizedStore()
    await ContextEngine(store=store).create_session("s")
    assert await store.read("s") == []


async def test_create_session_writes_the_session_and_its_system_prompt_in_one_step():
    store = RecordingStore()
    await ContextEngine(store=store).create_session("s", system_prompt="be brief")
    assert store.writes == [("create", 1)]


async def test_the_engine_closes_its_store_at_the_end_of_an_async_with_block():
    store = RecordingStore()
    async with ContextEngine(store=store) as engine:
        assert not store.closed
        await engine.create_session("s")
    assert store.closed
    with pytest.raises(KeyError):
        async with ContextEngine(store=(failing := RecordingStore())):
            raise KeyError
    assert failing.closed


# ---- sessions


async def test_sessions_are_listed_by_their_last_write_with_the_newest_first():
    engine = ContextEngine()
    for session_id in ("a", "b", "c"):
        await engine.create_session(session_id)
    await engine.add_message("a", HI)
    assert [(each.id, each.records) for each in await engine.sessions()] == [
        ("a", 1),
        ("c", 0),
        ("b", 0),
    ]


async def test_the_id_of_a_deleted_session_can_be_used_for_a_new_session():
    engine = await engine_with(SYSTEM, HI)
    assert await engine.messages_for_request("s") == [SYSTEM, HI]
    await engine.delete_session("s")
    with pytest.raises(SessionNotFound):
        await engine.messages_for_request("s")
    await engine.create_session("s")
    assert await engine.messages_for_request("s") == []
    await engine.add_message("s", MORE)
    assert await engine.messages_for_request("s") == [MORE]
    assert await engine.get_summary("s") is None


async def test_the_transcript_of_a_deleted_session_is_released_from_memory(collect):
    engine = await engine_with()
    transcript = weakref.ref(engine.transcript("s"))
    await engine.delete_session("s")
    collect()
    assert transcript() is None


async def test_an_exported_session_can_be_imported_into_another_engine():
    one, other = await engine_with(SYSTEM, HI), ContextEngine()
    await one.set_summary("s", "they met")
    text = await one.export_session("s")
    assert await other.import_session(text) == "s"
    assert await other.import_session(text, "copy") == "copy"
    with pytest.raises(SessionExists):
        await other.import_session(text)
    for session_id in ("s", "copy"):
        assert await other.messages_for_request(session_id) == await one.messages_for_request("s")


# ---- transcripts that are released from memory


async def test_only_the_most_recently_used_transcripts_stay_in_memory(collect):
    engine = ContextEngine()
    transcripts = []
    for number in range(MAX_TRANSCRIPTS + 10):
        await engine.create_session(str(number))
        await engine.add_message(str(number), user(number))
        await engine.messages_for_request(str(number))
        transcripts.append(weakref.ref(engine.transcript(str(number))))
        await engine.messages_for_request("0")
    collect()
    alive = [number for number, transcript in enumerate(transcripts) if transcript() is not None]
    assert alive == [0, *range(11, MAX_TRANSCRIPTS + 10)]
    assert await engine.messages_for_request("5") == [user(5)]


async def test_a_transcript_in_use_stays_the_same_object_when_many_others_are_opened():
    engine = await engine_with()
    transcript = engine.transcript("s")
    for number in range(MAX_TRANSCRIPTS + 10):
        engine.transcript(str(number))
    assert engine.transcript("s") is transcript


# ---- the summary


async def test_a_summary_is_sent_behind_the_system_messages_until_it_is_removed():
    engine = await engine_with(SYSTEM, HI)
    assert await engine.get_summary("s") is None
    await engine.set_summary("s", SHORT)
    assert await engine.get_summary("s") == SHORT
    assert await engine.messages_for_request("s") == [SYSTEM, summary_message(), HI]
    assert await engine.messages_for_request("s", include_summary=False) == [SYSTEM, HI]
    assert (await engine.history("s")).messages == (SYSTEM, HI)
    for nothing in ("", None):
        await engine.set_summary("s", nothing)
        assert await engine.get_summary("s") is None
        assert await engine.messages_for_request("s") == [SYSTEM, HI]
        await engine.set_summary("s", SHORT)


# ---- other methods of the engine


async def test_an_explanation_lists_every_message_including_those_not_read_for_the_request():
    window = KeepSystemAndRecent(max_messages=2)
    engine = await engine_with(*map(user, range(500)), window=window)
    await engine.messages_for_request("s")
    explanation = await engine.explain("s")
    assert len(explanation.messages) == 500
    assert [each.preview for each in explanation.messages if each.sent] == [
        "message 498",
        "message 499",
    ]


async def test_the_reported_usage_scales_the_next_window():
    engine = await engine_with(HI, HELLO, MORE, window=KeepSystemAndRecent(max_tokens=30))
    assert await engine.messages_for_request("s") == [HI, HELLO, MORE]
    engine.report_usage("s", Usage(input_tokens=46))  # the engine counted 23
    assert await engine.messages_for_request("s") == [MORE]
    engine.report_usage("s", None)
    assert await engine.messages_for_request("s") == [MORE]


async def test_repair_history_repairs_a_broken_history_and_returns_its_problems():
    engine = await engine_with(calls("a"), HI)
    assert await engine.repair_history("s") == [
        "user message between a call and its result: a",
        "call without a result: a",
    ]
    assert await engine.repair_history("s") == []
    assert [each.role for each in await engine.messages_for_request("s")] == [
        "assistant",
        "tool",
        "user",
    ]


async def test_details_are_stored_with_tool_results_and_never_sent_to_the_model(tmp_path):
    records = [
        MessageRecord(calls("a", "b")),
        MessageRecord(result("a"), {"log": "x" * 1_000}),
        MessageRecord(result("b")),
    ]
    async with ContextEngine(store=SqliteStore(tmp_path / "s.db")) as first:
        await first.create_session("s")
        await first.transcript("s").append(*records)
        exported = await first.export_session("s")
    async with ContextEngine(store=SqliteStore(tmp_path / "s.db")) as engine:
        assert await engine.details("s") == {"a": {"log": "x" * 1_000}}
        assert await engine.messages_for_request("s") == [record.message for record in records]
        await engine.create_session("plain")
        await engine.transcript("plain").append(*(record.message for record in records))
        assert str(await engine.explain("s")) == str(await engine.explain("plain"))
        await engine.import_session(exported, "t")
        assert await engine.details("t") == await engine.details("s")


async def test_details_that_are_not_json_are_rejected_by_a_memory_store_too():
    engine = await engine_with()
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        await engine.transcript("s").append(MessageRecord(Message.user("hi"), {"log": object()}))


async def test_another_engine_continues_a_session_from_its_file(tmp_path):
    async with await engine_with(SYSTEM, HI, store=SqliteStore(tmp_path / "s.db")) as engine:
        await engine.set_summary("s", SHORT)
    async with ContextEngine(store=SqliteStore(tmp_path / "s.db")) as engine:
        assert await engine.messages_for_request("s") == [SYSTEM, summary_message(), HI]
        assert [each.id for each in await engine.sessions()] == ["s"]


async def test_a_session_that_is_deleted_and_recreated_keeps_the_lock_of_its_transcript():
    engine = await engine_with()
    transcript = engine.transcript("s")
    await engine.delete_session("s")
    await engine.create_session("s")
    assert engine.transcript("s") is transcript


def test_a_path_instead_of_a_store_raises_an_error_that_suggests_sqlite_store():
    with pytest.raises(TypeError, match=r"such as SqliteStore\('sessions\.db'\), or None, not "):
        ContextEngine(store="sessions.db")


@for_each("wrong", [42, 0, False, b""])
async def test_a_session_id_that_is_not_text_is_rejected(wrong):
    with pytest.raises(ValueError, match=f"A session id is text, not {type(wrong).__name__}"):
        await ContextEngine().create_session(wrong)


async def test_an_empty_session_id_is_rejected():
    engine = ContextEngine()
    with pytest.raises(ValueError, match="A session id is non-empty text"):
        await engine.create_session("")
    text = await engine.export_session(await engine.create_session("s"))
    with pytest.raises(ValueError, match="A session id is non-empty text"):
        await engine.import_session(text, "")
    assert [info.id for info in await engine.sessions()] == ["s"]
