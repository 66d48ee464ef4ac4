import pytest

from stage0_gateway import ChatResponse, Message, ToolCall
from stage3_tools import ToolCalls, FinalReply, Turn
from stage3_tools.dialects.protocol import InvalidReply
from stage3_tools.run.stop_policy import (
    MOST_FRUITLESS,
    MOST_PAUSES,
    Ending,
    Tally,
    awaiting,
    ending_of,
)
from stage3_tools.turn import Stopped

CALL = ToolCall("c1", "send")
TOLD = "The model gave no valid reply in {} attempts. The last feedback: No JSON."


def turn(reading, **rest):
    return Turn(ChatResponse(Message.assistant("")), reading, **rest)


def endings(reading, count, retries=2):
    tally = Tally()
    return [ending_of(turn(reading), tally, retries) for _ in range(count)]


def test_a_reply_is_an_ending():
    assert endings(FinalReply(Message.assistant("hi")), 1) == [Ending("completed", "hi")]


def test_an_empty_reply_is_one_the_second_time():
    assert endings(FinalReply(Message.assistant(" ")), 2) == [
        None,
        Ending("completed", "", "The model's reply was empty, twice."),
    ]


@pytest.mark.parametrize("retries", [0, 2])
def test_a_reply_that_cannot_be_used_is_one_when_the_retries_are_used_up(retries):
    found = endings(InvalidReply(Message.assistant("x"), "No JSON."), retries + 1, retries)
    assert found == [None] * retries + [Ending("parse_failed", None, TOLD.format(retries + 1))]


def test_a_call_in_between_begins_the_count_of_unusable_replies_anew():
    tally, unusable = Tally(), turn(InvalidReply(Message.assistant("x"), "No JSON."))
    found = [
        ending_of(each, tally, 1)
        for each in (unusable, turn(ToolCalls(Message.assistant(""))), unusable, unusable)
    ]
    assert found == [None, None, None, Ending("parse_failed", None, TOLD.format(2))]


def test_calls_are_none_but_refused_ones_are_counted():
    tally = Tally()
    for _ in range(MOST_FRUITLESS):
        assert ending_of(turn(ToolCalls(Message.assistant(""))), tally, 2) is None
    assert tally.fruitless == MOST_FRUITLESS


def test_a_refusal_is_an_ending_with_the_models_own_words():
    assert endings(Stopped(Message.assistant("I must not."), "refusal"), 1) == [
        Ending("refused", None, "I must not.")
    ]
    assert (
        endings(Stopped(Message.assistant(""), "refusal"), 1)[0].reason
        == "The model refused to answer."
    )


def test_pauses_are_one_when_there_are_too_many():
    found = endings(Stopped(Message.assistant(""), "pause"), MOST_PAUSES + 1)
    assert found == [None] * MOST_PAUSES + [Ending("limit", None, "The model paused too often.")]


def test_calls_that_wait_for_consent_are_an_ending_that_names_them():
    [found] = [ending_of(turn(ToolCalls(Message.assistant("")), waiting=(CALL,)), Tally(), 2)]
    assert found == awaiting((CALL,))
    assert (found.status, found.reply, found.waiting) == ("awaiting_approval", None, (CALL,))
    assert found.reason.startswith("Waiting for approval: send.")
