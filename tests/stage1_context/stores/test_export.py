import json

import pytest

from stage0_gateway import ImagePart, JsonPart, Message, TextPart, ThinkingPart, ToolCall
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    MemoryStore,
    MessageRecord,
    RepairRecord,
    SessionExists,
    SessionNotFound,
    SqliteStore,
    SummaryRecord,
    VariableDeletedRecord,
    VariableRecord,
)
from stage1_context.journal import KINDS
from stage1_context.stores.export import export_session, import_session
from tests.stage1_context.sessions import HELLO, HI, MORE, SYSTEM, engine_with, store_of
from tests.tables import for_each

SEPARATORS = "one\u2028two\u2029three\x85four\x0bfive\x0csix\r\nseven\rAcht\n"
RECORDS = [
    MessageRecord(Message.system(SEPARATORS)),
    MessageRecord(Message.user((TextPart("看"), ImagePart(url="https://example.com/cat.png")))),
    MessageRecord(
        Message.assistant(
            (
                ThinkingPart("hm", provider_data={"anthropic": {"signature": "s"}}),
                JsonPart([None, {"a": 1.5}]),
            ),
            [ToolCall("a", "f", '{"x": "\u2028"}', {"gemini": {"thoughtSignature": "t"}})],
            raw_text='{"tool": "f"}',
        )
    ),
    CallStartedRecord("a", "f"),
    ApprovalPendingRecord("a", "f", '{"x": "\u2028"}'),
    CallFinishedRecord("a", "completed"),
    MessageRecord(Message.tool("no such city", "a", is_error=True, name="f")),
    MessageRecord(Message.assistant("half \ud83d")),
    SummaryRecord(SEPARATORS, 2),
    RepairRecord(((6, Message.tool(SEPARATORS, "b")),), (6, 7)),
    VariableRecord({SEPARATORS: [SEPARATORS, None, True, 1.5]}),
    VariableDeletedRecord("var_11"),
]


def kinds(records):
    return {record.kind for record in records}


def test_the_records_above_include_every_kind():
    assert kinds(RECORDS) == {*KINDS}


async def test_an_imported_session_has_the_same_records(tmp_path):
    one, other = store_of(*RECORDS), SqliteStore(tmp_path / "s.db")
    text = await export_session(one, "s")
    assert await import_session(other, text) == "s"
    assert await other.read("s") == list(enumerate(RECORDS))
    assert await export_session(other, "s") == text
    assert await import_session(one, text, "copy") == "copy"
    assert await one.read("copy") == await one.read("s")
    await other.aclose()


async def test_an_export_has_a_header_line_and_one_line_of_json_for_each_record():
    text = await export_session(store_of(*RECORDS), "s")
    header, *lines = text.removesuffix("\n").split("\n")
    assert json.loads(header) == {
        "format": "llm-stages session",
        "version": 1,
        "session_id": "s",
        "records": len(RECORDS),
    }
    assert [json.loads(line)["kind"] for line in lines] == [record.kind for record in RECORDS]
    assert "看" in text


async def test_an_export_can_be_stored_in_a_file_with_unix_or_windows_line_endings(tmp_path):
    store = store_of(*RECORDS)
    for newline in ("\n", "\r\n"):
        (tmp_path / "s.jsonl").write_text(
            await export_session(store, "s"), "utf-8", newline=newline
        )
        with (tmp_path / "s.jsonl").open(encoding="utf-8", newline="") as file:
            await import_session(store, file.read(), f"copy {newline!r}")
        assert await store.read(f"copy {newline!r}") == await store.read("s")


async def test_an_empty_session_with_an_unusual_id_can_be_exported():
    store, other = MemoryStore({SEPARATORS: []}), MemoryStore()
    assert await import_session(other, await export_session(store, SEPARATORS)) == SEPARATORS
    assert await other.read(SEPARATORS) == []


async def test_an_imported_copy_sends_the_same_messages_to_a_model():
    engine = await engine_with(SYSTEM, HI, HELLO, MORE)
    id = await engine.variables.put("s", [1])
    await engine.transcript("s").set_summary("they met", until=3)
    await engine.import_session(await engine.export_session("s"), "copy")
    assert await engine.messages_for_request("copy") == await engine.messages_for_request("s")
    assert (await engine.history("copy")).messages == (await engine.history("s")).messages
    assert await engine.variables.get("copy", id) == [1]


async def test_exporting_an_unknown_session_raises_an_error():
    with pytest.raises(SessionNotFound):
        await export_session(MemoryStore(), "s")


async def test_importing_under_an_existing_id_is_rejected_and_does_not_change_that_session():
    store = MemoryStore({"s": RECORDS, "t": RECORDS[:1]})
    text = await export_session(store, "s")
    for given, taken in ((None, "s"), ("t", "t")):
        before = await store.read(taken)
        with pytest.raises(SessionExists, match=f"'{taken}' exists already"):
            await import_session(store, text, given)
        assert await store.read(taken) == before


GOOD = '{"format": "llm-stages session", "version": 1, "session_id": "s", "records": 3}'
USER_LINE = '{"kind": "message", "role": "user", "content": "hi"}'


@for_each(
    "first",
    [
        "",
        "hello",
        "[]",
        "{}",
        USER_LINE,
        '{"format": "something else", "version": 1, "session_id": "s"}',
        '{"format": "llm-stages session", "version": 2, "session_id": "s"}',
        '{"format": "llm-stages session", "version": 1}',
        '{"format": "llm-stages session", "version": 1, "session_id": "s"}',
        "[" * 100_000,
    ],
)
@for_each("session_id", [None, "mine"])
async def test_a_text_that_is_not_an_export_raises_an_error_that_quotes_its_first_line(
    first, session_id
):
    store = MemoryStore()
    with pytest.raises(
        ValueError, match="This is not an exported session of version 1: its first line is"
    ) as caught:
        await import_session(store, f"{first}\n{USER_LINE}\n", session_id)
    assert len(str(caught.value)) < 200
    assert await store.sessions() == []


@for_each(
    "damaged",
    [
        USER_LINE[:-5],
        "hello",
        "[]",
        "5",
        "{}",
        '{"kind": "poem"}',
        '{"kind": ["message"]}',
        '{"kind": "message"}',
        '{"kind": "message", "role": "boss"}',
        '{"kind": "message", "role": "user", "content": 5}',
        '{"kind": "summary"}',
        '{"kind": "summary", "text": "x", "until": 5, "more": 1}',
        '{"kind": "repair", "inserted": 5}',
        '{"kind": "clearing", "until": 1, "longer_than": 1}',
        "[" * 100_000,
    ],
)
async def test_a_damaged_export_is_rejected_as_a_whole(damaged):
    store = MemoryStore()
    with pytest.raises(ValueError, match=r"record|role|content"):
        await import_session(store, f"{GOOD}\n{USER_LINE}\n\n{damaged}\n{USER_LINE}\n")
    assert await store.sessions() == []


async def test_an_export_with_missing_records_is_rejected():
    store = store_of(*RECORDS)
    text = await export_session(store, "s")
    cut = text.removesuffix("\n").rpartition("\n")[0]
    with pytest.raises(
        ValueError, match=rf"has {len(RECORDS) - 1} records, not {len(RECORDS)}: a part is"
    ):
        await import_session(store, cut, "copy")
    assert [session.id for session in await store.sessions()] == ["s"]
