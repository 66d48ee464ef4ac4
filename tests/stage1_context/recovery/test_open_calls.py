import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    ContextEngine,
    OpenCalls,
    SessionNotFound,
    Transcript,
)
from stage1_context.recovery.open_calls import open_calls

A, B, C = ToolCall("a", "f"), ToolCall("b", "g"), ToolCall("c", "h")
ASKS = Message.assistant("", [A, B, C])


def pending(call):
    return ApprovalPendingRecord(call.id, call.name, call.arguments)


@pytest.mark.parametrize(
    ("notes", "started", "waits"),
    [
        ([], "", ""),
        ([CallStartedRecord("b", "g")], "b", ""),
        ([pending(B), pending(C)], "", "bc"),
        ([pending(B), CallStartedRecord("b", "g")], "b", ""),
        ([CallStartedRecord("a", "f"), CallFinishedRecord("a", "completed")], "", ""),
        ([CallStartedRecord("z", "f"), pending(ToolCall("y", "f"))], "", ""),
    ],
    ids=["nothing known", "begun", "waiting", "consented and begun", "answered", "calls of before"],
)
def test_what_is_known_of_calls_without_a_result(notes, started, waits):
    found = open_calls([ASKS, Message.tool("ok", "a")], notes)
    assert found == OpenCalls(ASKS, (B, C), frozenset(started), frozenset(waits))


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message.user("hi")],
        [Message.user("hi"), Message.assistant("hello")],
        [ASKS, *(Message.tool("ok", each.id) for each in (A, B, C)), Message.user("more")],
    ],
    ids=["empty", "a question", "a reply", "answered long ago"],
)
async def test_a_conversation_without_open_calls_says_so(messages):
    assert await Transcript.of(messages).open_calls() is None


async def test_a_transcript_finds_its_open_calls_and_what_was_noted_of_them():
    transcript = Transcript.of([Message.user("hi"), ASKS])
    await transcript.append(CallStartedRecord("a", "f"), pending(C))
    assert await transcript.open_calls() == OpenCalls(
        ASKS, (A, B, C), frozenset("a"), frozenset("c")
    )
    await transcript.append(Message.tool("ok", "a"))
    assert await transcript.open_calls() == OpenCalls(ASKS, (B, C), frozenset(), frozenset("c"))


async def test_calls_that_were_closed_are_not_open():
    transcript = Transcript.of([ASKS])
    await transcript.close_open_calls()
    assert await transcript.open_calls() is None


async def test_notes_are_not_messages():
    transcript = Transcript.of([Message.user("hi")])
    assert await transcript.append(CallStartedRecord("a", "f")) == 2
    assert await transcript.for_request() == [Message.user("hi")]
    assert (await transcript.history()).check_history() == []


async def test_of_a_session_that_is_not_there_nothing_is_known():
    with pytest.raises(SessionNotFound):
        await ContextEngine().transcript("nobody").open_calls()
