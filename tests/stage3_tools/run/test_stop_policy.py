from stage0_gateway import Message, ToolCall
from stage1_context import ContextEngine, Transcript
from stage2_output import Issue, OutputController
from stage3_tools import (
    FinalReply,
    RunState,
    ToolCalls,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
)
from stage3_tools.dialects.protocol import InvalidReply
from stage3_tools.run.state import ProviderStop, Turn
from stage3_tools.run.stop_policy import (
    MAX_PAUSES,
    MAX_REJECTED_TURNS,
    Ending,
    StopPolicy,
    awaiting_approval,
)
from tests.tables import for_each

CALL = ToolCall("c1", "send")
FEEDBACK = "The model gave no valid reply in {} attempts. The last feedback: No JSON."


async def unused_chat(messages, **keywords):
    """Fail: the run makes no request."""
    raise AssertionError


def turn(interpretation, **rest):
    return Turn(ToolRegistry(), interpretation=interpretation, **rest)


def policy(**options):
    deps = ToolLoopDeps(unused_chat, ContextEngine(), OutputController(), ToolRegistry())
    return StopPolicy(RunState(deps, Transcript.of([]), ToolLoopOptions(**options)))


def endings(interpretation, count, **options):
    stop = policy(**options)
    return [stop.after(turn(interpretation)) for _ in range(count)]


def test_a_reply_ends_the_run():
    assert endings(FinalReply(Message.assistant("hi")), 1) == [Ending("completed", "hi")]


def test_a_second_empty_reply_ends_the_run():
    assert endings(FinalReply(Message.assistant(" ")), 2) == [
        None,
        Ending("completed", "", "The model's reply was empty, twice."),
    ]


@for_each("retries", [0, 2])
def test_invalid_replies_end_the_run_when_the_retries_are_exhausted(retries):
    found = endings(
        InvalidReply(Message.assistant("x"), "No JSON."), retries + 1, max_parse_retries=retries
    )
    assert found == [None] * retries + [Ending("parse_failed", None, FEEDBACK.format(retries + 1))]


def test_a_call_resets_the_count_of_invalid_replies():
    stop, unusable = (
        policy(max_parse_retries=1),
        turn(InvalidReply(Message.assistant("x"), "No JSON.")),
    )
    found = [
        stop.after(each)
        for each in (unusable, turn(ToolCalls(Message.assistant(""))), unusable, unusable)
    ]
    assert found == [None, None, None, Ending("parse_failed", None, FEEDBACK.format(2))]


def test_a_call_beside_text_has_a_count_of_its_own_with_the_same_limit():
    invalid = turn(InvalidReply(Message.assistant("x"), "No JSON."))
    issue = Issue("", "send was not run.", "whole_reply")
    beside_text = turn(InvalidReply(Message.assistant("x"), "No JSON.", (issue,)))
    stop = policy(max_parse_retries=1)
    assert [stop.after(each) for each in (invalid, beside_text)] == [None, None]
    assert stop.after(beside_text) == Ending("parse_failed", None, FEEDBACK.format(2))
    stop = policy(max_parse_retries=1)
    alone = turn(ToolCalls(Message.assistant("")))
    turns = [beside_text, invalid, alone, beside_text, invalid]
    assert [stop.after(each) for each in turns] == [None] * 5
    assert stop.after(invalid) == Ending("parse_failed", None, FEEDBACK.format(2))


def test_after_too_many_turns_with_only_rejected_calls_the_next_request_is_the_last():
    stop, calls = policy(), turn(ToolCalls(Message.assistant("")))
    last = []
    for _ in range(MAX_REJECTED_TURNS):
        assert stop.after(calls) is None
        last.append(stop.last)
    assert last == [False] * (MAX_REJECTED_TURNS - 1) + [True]
    reason = f"In {MAX_REJECTED_TURNS} turns in a row, every call was rejected."
    assert stop.after(turn(FinalReply(Message.assistant("So.")))) == Ending("limit", "So.", reason)


def test_a_refusal_ends_the_run_with_the_text_of_the_model():
    assert endings(ProviderStop(Message.assistant("I must not."), "refusal"), 1) == [
        Ending("refused", None, "I must not.")
    ]
    assert (
        endings(ProviderStop(Message.assistant(""), "refusal"), 1)[0].reason
        == "The model refused to answer."
    )


def test_too_many_pauses_end_the_run():
    found = endings(ProviderStop(Message.assistant(""), "pause"), MAX_PAUSES + 1)
    assert found == [None] * MAX_PAUSES + [Ending("limit", None, "The model paused too often.")]


def test_calls_that_wait_for_approval_end_the_run_and_are_named():
    found = policy().after(turn(ToolCalls(Message.assistant("")), waiting=(CALL,)))
    assert found == awaiting_approval((CALL,))
    assert (found.status, found.reply, found.waiting) == ("awaiting_approval", None, (CALL,))
    assert found.reason.startswith("Waiting for approval: send.")
