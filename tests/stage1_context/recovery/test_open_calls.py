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
from tests.stage1_context.sessions import HELLO, HI, MORE, result
from tests.tables import for_each

A, B, C = ToolCall("a", "f"), ToolCall("b", "g"), ToolCall("c", "h")
CALLING = Message.assistant("", [A, B, C])


def pending(call):
    return ApprovalPendingRecord(call.id, call.name, call.arguments)


@for_each(
    "records, started, waits",
    [
        ([], "", ""),
        ([CallStartedRecord("b", "g")], "b", ""),
        ([pending(B), pending(C)], "", "bc"),
        ([pending(B), CallStartedRecord("b", "g")], "b", ""),
        ([CallStartedRecord("a", "f"), CallFinishedRecord("a", "completed")], "", ""),
        ([CallStartedRecord("z", "f"), pending(ToolCall("y", "f"))], "", ""),
    ],
)
def test_open_calls_finds_calls_without_a_result_and_their_state(records, started, waits):
    found = open_calls([CALLING, result("a")], records)
    assert found == OpenCalls(CALLING, (B, C), frozenset(started), frozenset(waits))


@for_each(
    "messages",
    [
        [],
        [HI],
        [HI, HELLO],
        [CALLING, *(result(call.id) for call in (A, B, C)), MORE],
    ],
)
async def test_a_conversation_without_open_calls_returns_none(messages):
    assert await Transcript.of(messages).open_calls() is None


async def test_a_transcript_finds_its_open_calls_and_their_records():
    transcript = Transcript.of([HI, CALLING])
    await transcript.append(CallStartedRecord("a", "f"), pending(C))
    assert await transcript.open_calls() == OpenCalls(
        CALLING, (A, B, C), frozenset("a"), frozenset("c")
    )
    await transcript.append(result("a"))
    assert await transcript.open_calls() == OpenCalls(CALLING, (B, C), frozenset(), frozenset("c"))


async def test_closed_calls_are_not_open():
    transcript = Transcript.of([CALLING])
    await transcript.close_open_calls()
    assert await transcript.open_calls() is None


async def test_call_records_are_not_messages():
    transcript = Transcript.of([HI])
    assert await transcript.append(CallStartedRecord("a", "f")) == 2
    assert await transcript.for_request() == [HI]
    assert (await transcript.history()).check_history() == []


async def test_open_calls_of_an_unknown_session_raises_an_error():
    with pytest.raises(SessionNotFound):
        await ContextEngine().transcript("unknown").open_calls()
