import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import (
    CallStartedRecord,
    MessageRecord,
    RepairRecord,
    SessionConflict,
    Transcript,
    VariableRecord,
)
from stage1_context.claims import calls_of

A, B = CallStartedRecord("a", "f"), CallStartedRecord("b", "f")


def result_of(call_id, text="ok"):
    return MessageRecord(Message.tool(text, call_id))


@pytest.fixture
def transcript():
    return Transcript.of(
        [Message.user("Go."), Message.assistant("", [ToolCall("a", "f"), ToolCall("b", "f")])]
    )


@pytest.mark.parametrize(
    ("record", "calls"),
    [
        (A, {"a"}),
        (result_of("a"), {"a"}),
        (RepairRecord(((1, Message.tool("stopped", "a")), (1, Message.user("x")))), {"a"}),
        (MessageRecord(Message.user("hi")), set()),
        (VariableRecord(1), set()),
    ],
    ids=["begun", "answered", "closed", "a question", "a value"],
)
def test_what_a_record_says_of_calls(record, calls):
    assert calls_of(record) == calls


async def test_what_nobody_else_has_written_is_added(transcript):
    seen = await transcript.claim(A, seen=2)
    assert await transcript.claim(B, result_of("a"), seen=seen) == 5


@pytest.mark.parametrize("rival", [A, result_of("a"), RepairRecord(((1, Message.tool("stopped", "a")),))])
@pytest.mark.parametrize("claimed", [A, result_of("a")], ids=["begin", "answer"])
async def test_whoever_comes_second_is_told_and_adds_nothing(transcript, rival, claimed):
    store = transcript._store
    await store.append("", rival)
    with pytest.raises(SessionConflict, match="Somebody else goes on with these calls"):
        await transcript.claim(claimed, seen=2)
    assert (await store.info("")).records == 3


async def test_what_is_about_something_else_is_no_rival(transcript):
    await transcript._store.append("", B, VariableRecord(1), MessageRecord(Message.user("hi")))
    assert await transcript.claim(A, seen=2) == 6


async def test_what_others_have_taken_may_be_left_out(transcript):
    await transcript._store.append("", result_of("a", "theirs"))
    assert await transcript.claim(result_of("a"), result_of("b"), seen=2, skip=True) == 4
    assert [each.text for each in await transcript.history()][2:] == ["theirs", "ok"]
    assert await transcript.claim(result_of("a"), seen=2, skip=True) == 4


async def test_what_the_writer_knows_does_not_count(transcript):
    seen = await transcript.claim(A, seen=2)
    assert await transcript.claim(A, seen=seen) == 4
