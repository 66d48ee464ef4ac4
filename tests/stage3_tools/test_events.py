from dataclasses import FrozenInstanceError

import pytest

from stage0_gateway import Message
from stage3_tools import LoopEnded, TurnEnded, TurnStarted

CALL = '{"tool": "f", "arguments": {}}'
DONE = '{"tool": null, "reply": "done"}'


@pytest.mark.parametrize(
    ("replies", "names"),
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
    ids=["answer", "call", "unusable", "empty"],
)
async def test_the_events_of_a_run_come_in_the_order_that_is_drawn(
    conversation, recorder, replies, names
):
    talk = conversation(replies, recorder().tool)
    await talk.ask()
    assert " ".join(event.name for event in talk.events) == names


async def test_the_turns_are_counted_from_one(conversation, recorder):
    talk = conversation([CALL, DONE, DONE], recorder().tool)
    await talk.ask()
    assert [event.turn for event in talk.events] == [1, 1, 1, 1, 1, 2, 2, 2, 2]
    result = await talk.ask()
    ended = LoopEnded(turn=1, status="completed", reply="done", result=result)
    assert talk.events[-1] == ended


async def test_turn_start_holds_exactly_what_the_model_saw(conversation):
    talk = conversation([DONE])
    await talk.ask("Hello?")
    started = talk.events[0]
    assert isinstance(started, TurnStarted)
    assert started.messages == talk.model.requests[0].messages
    assert started.messages[1] == Message.user("Hello?")


def test_the_time_is_told_and_not_compared():
    assert TurnEnded(turn=1, usage=None, timestamp=1.0) == TurnEnded(
        turn=1, usage=None, timestamp=2.0
    )
    assert TurnEnded(turn=1, usage=None).timestamp > 1.7e9


def test_an_event_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        TurnEnded(turn=1, usage=None).turn = 2
