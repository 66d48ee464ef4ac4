import json
from dataclasses import FrozenInstanceError

import pytest

from stage0_gateway import Gateway, Message, ToolCall
from stage3_tools import (
    LoopEnded,
    ReplyStreamed,
    ToolAnswered,
    ToolError,
    ToolProgressed,
    ToolResult,
    ToolRetried,
    TurnEnded,
    TurnStarted,
)
from tests.stage3_tools.conversation import DONE, Recorder, call
from tests.tables import for_each

CALL = call()


@for_each(
    "replies, names",
    [
        ([DONE], "turn_start decision turn_end loop_end"),
        (
            [CALL, DONE],
            "turn_start decision tool_call tool_result turn_end turn_start decision turn_end loop_end",
        ),
        (["?", DONE], "turn_start feedback turn_end turn_start decision turn_end loop_end"),
        (
            ['{"tool": null, "reply": ""}', DONE],
            "turn_start feedback turn_end turn_start decision turn_end loop_end",
        ),
    ],
)
async def test_the_events_of_a_run_have_the_documented_order(new_conversation, replies, names):
    conversation = new_conversation(replies, Recorder().tool)
    await conversation.ask()
    assert " ".join(event.name for event in conversation.events) == names


async def test_turns_are_numbered_from_one(new_conversation):
    conversation = new_conversation([CALL, DONE, DONE], Recorder().tool)
    await conversation.ask()
    assert [event.turn for event in conversation.events] == [1, 1, 1, 1, 1, 2, 2, 2, 2]
    result = await conversation.ask()
    ended = LoopEnded(turn=1, status="completed", reply="done", result=result)
    assert conversation.events[-1] == ended


async def test_turn_start_contains_exactly_the_messages_of_the_request(new_conversation):
    conversation = new_conversation([DONE])
    await conversation.ask("Hello?")
    started = conversation.events[0]
    assert isinstance(started, TurnStarted)
    assert started.messages == conversation.model.requests[0].messages
    assert started.messages[1] == Message.user("Hello?")


def test_the_timestamp_of_an_event_is_not_compared():
    assert TurnEnded(turn=1, usage=None, timestamp=1.0) == TurnEnded(
        turn=1, usage=None, timestamp=2.0
    )
    assert TurnEnded(turn=1, usage=None).timestamp > 1.7e9


def test_events_are_frozen():
    with pytest.raises(FrozenInstanceError):
        TurnEnded(turn=1, usage=None).turn = 2


# ---- events as JSON


async def test_every_event_can_be_written_as_json_with_name_and_fields(new_conversation):
    conversation = new_conversation([CALL, "no JSON", DONE], Recorder(returns={"n": 1}).tool)
    result = await conversation.ask()
    plain = [json.loads(event.to_json()) for event in conversation.events]
    assert [each["name"] for each in plain] == [event.name for event in conversation.events]
    by_name = {each["name"]: each for each in plain}
    assert by_name["turn_start"]["messages"][0]["role"] == "system"
    assert by_name["tool_call"]["call"]["name"] == "f"
    assert by_name["tool_result"]["result"]["output"] == '{"n":1}'
    assert by_name["feedback"]["text"] == "no JSON"
    assert by_name["loop_end"]["result"]["history"][0]["result"]["status"] == "completed"
    assert (by_name["loop_end"]["status"], by_name["loop_end"]["reply"]) == (
        "completed",
        result.reply,
    )


@for_each(
    "value, plain",
    [
        ({"n": float("nan")}, {"n": "NaN"}),
        (object(), "object"),
        ({1, 2}, [1, 2]),
        (iter([1]), "list_iterator"),
        (b"\xff", "_w=="),
        ("half \ud800", "half \ud800"),
    ],
)
def test_a_value_without_a_json_form_is_written_as_its_type_name(value, plain):
    call = ToolCall("c", "f", "{}")
    event = ToolProgressed(turn=1, call=call, value=value)
    assert json.loads(event.to_json())["value"] == plain


def test_json_of_events_omits_the_stream_and_redacted_values():
    hidden = ToolResult("c", "f", "[hidden]", value="s3cret")
    assert "s3cret" not in ToolAnswered(turn=1, result=hidden).to_json()
    event = ReplyStreamed(turn=1, stream=Gateway("offline:teacher").stream([Message.user("Hi.")]))
    assert set(json.loads(event.to_json())) == {"name", "turn", "timestamp"}


def test_the_json_of_an_error_has_kind_message_and_hint():
    error = ToolError("execution", "Broken.", hint="Ask Ann.", details={"traceback": "line 1"})
    event = ToolRetried(turn=1, call=ToolCall("c", "f", "{}"), error=error, attempt=2)
    plain = json.loads(event.to_json())
    assert plain["error"] == {"kind": "execution", "message": "Broken.", "hint": "Ask Ann."}
    assert plain["attempt"] == 2
