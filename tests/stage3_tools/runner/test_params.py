"""Tests of runner parameters, and of edits that apply at the end of a turn, without a run."""

from dataclasses import FrozenInstanceError, replace

import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import Transcript
from stage3_tools import RegistrationError, RunnerParams, ToolLoopOptions, ToolRegistry
from stage3_tools.dialects.escaping import feedback_message
from stage3_tools.runner.params import Edits
from tests.tables import for_each

A, B, C = map(Message.user, "abc")


def texts(messages):
    return "".join(each.text for each in messages)


class Conversation:
    """A conversation in memory, and its edits."""

    def __init__(self, *messages):
        self.now = messages
        self.edits = Edits(RunnerParams(messages=messages), lambda: self.now)

    def end_turn(self):
        """Apply the edits, as a run does at the end of a turn."""
        rewritten = self.edits.take_replaced()
        self.now = (*(self.now if rewritten is None else rewritten), *self.edits.pushed)
        self.edits.remove_pushed(len(self.edits.pushed))
        return texts(self.now)


def session(*messages):
    return Edits(RunnerParams(messages=messages, session_id="s"), None)


# ---- parameters


def test_messages_may_be_mappings_and_become_a_frozen_tuple():
    params = RunnerParams(messages=[A, {"role": "user", "content": "b"}])
    assert params.messages == params.conversation == (A, B)
    with pytest.raises(FrozenInstanceError):
        params.messages = ()


def test_a_single_message_instead_of_a_list_raises_a_value_error():
    for one in (A, {"role": "user", "content": "a"}):
        with pytest.raises(ValueError, match="messages must be a text or a list of messages"):
            RunnerParams(messages=one)


def test_an_invalid_message_raises_a_value_error():
    with pytest.raises(ValueError, match=r"A message is a Message, or a mapping such as .*, not 1"):
        RunnerParams(messages=[1])


def test_tools_are_converted_to_a_registry_and_wrong_types_raise_an_error():
    def look(): ...

    registry = ToolRegistry(look)
    assert RunnerParams().tools is None
    assert RunnerParams(tools=registry).tools is registry
    assert RunnerParams(tools=[look]).tools.names == ("look",)
    assert RunnerParams(tools=[]).tools.names == ()
    with pytest.raises(TypeError, match=r"tools must be a list such as tools=\[get_weather\], or"):
        RunnerParams(tools=look)
    with pytest.raises(RegistrationError, match="5 is not a function"):
        RunnerParams(tools=[5])


def test_params_extend_the_loop_options_without_a_round_limit():
    assert RunnerParams().max_tool_rounds is None
    assert isinstance(RunnerParams(), ToolLoopOptions)
    with pytest.raises(ValueError, match="max_tool_rounds is -1"):
        RunnerParams(max_tool_rounds=-1)


# ---- edits of a conversation in memory


def test_pushed_messages_are_visible_at_once_and_applied_in_order():
    conversation = Conversation(A)
    conversation.edits.push([B])
    conversation.edits.push([{"role": "user", "content": "c"}])
    assert conversation.edits.params.messages == (A, B, C)
    assert (conversation.edits.pushed, conversation.edits.changed_messages) == ([B, C], True)
    assert (
        conversation.end_turn(),
        conversation.edits.pushed,
        conversation.edits.changed_messages,
    ) == ("abc", [], False)


def test_messages_pushed_while_others_are_applied_are_kept_for_the_next_turn():
    conversation = Conversation(A)
    conversation.edits.push([B])
    taken = len(conversation.edits.pushed)
    conversation.edits.push([C])
    conversation.edits.remove_pushed(taken)
    assert conversation.edits.pushed == [C]


def test_messages_appended_to_the_current_ones_are_pushed():
    conversation = Conversation(A)
    conversation.edits.change(lambda now: replace(now, messages=[*now.messages, B]))
    assert (conversation.edits.pushed, conversation.edits.take_replaced()) == ([B], None)
    assert conversation.edits.latest.temperature is None


def test_different_messages_replace_the_current_ones():
    conversation = Conversation(A)
    conversation.edits.change(replace(conversation.edits.params, messages=[B]))
    conversation.now = (A, C)  # the current turn has added a message
    assert texts(conversation.edits.params.messages) == "bc"
    assert conversation.end_turn() == "bc"
    assert conversation.edits.take_replaced() is None


def test_replacements_and_pushes_can_be_combined():
    conversation = Conversation(A, B)
    conversation.edits.push([C])
    conversation.edits.change(lambda now: replace(now, messages=now.messages[1:]))  # b c
    conversation.edits.push([A])
    conversation.now = (A, B, Message.user("d"))
    conversation.edits.change(lambda now: replace(now, messages=[*now.messages[1:], B]))
    assert texts(conversation.edits.params.messages) == conversation.end_turn() == "cdab"


def test_a_function_that_raises_or_returns_a_wrong_type_changes_nothing():
    conversation = Conversation(A)
    conversation.edits.push([B])
    for wrong, error in (
        (lambda now: 1 / 0, ZeroDivisionError),
        (lambda now: ToolLoopOptions(), TypeError),
    ):
        with pytest.raises(error):
            conversation.edits.change(wrong)
    assert conversation.edits.params.messages == (A, B)


@for_each("message", [Message.tool("r", "c"), Message.assistant("", [ToolCall("c", "f", "{}")])])
def test_calls_and_results_raise_a_value_error_and_their_whole_edit_is_dropped(message):
    conversation = Conversation(A)
    with pytest.raises(ValueError, match="Calls and results cannot be pushed"):
        conversation.edits.push([B, message])
    with pytest.raises(ValueError, match="Calls and results cannot be pushed"):
        conversation.edits.change(
            lambda now: replace(now, temperature=1, messages=[*now.messages, B, message])
        )
    assert conversation.edits.params == RunnerParams(messages=[A])


def test_the_question_is_the_newest_user_message_among_the_pushed_ones():
    conversation = Conversation(A)
    assert conversation.edits.question is None
    conversation.edits.push([B, C, Message.assistant("hm")])
    assert conversation.edits.question == C


async def test_feedback_and_a_summary_are_not_the_question():
    transcript = Transcript.of([])
    await transcript.set_summary("They met.")
    (summary,) = await transcript.for_request()
    edits = session(A, summary, feedback_message("No JSON was found."))
    assert edits.question == A
    assert session(summary).question is None


# ---- edits of a session


def test_messages_of_a_session_are_treated_as_pushed():
    edits = session(A)
    assert (edits.pushed, edits.question) == ([A], A)
    edits.push([B])
    edits.remove_pushed(2)
    edits.push([C])
    assert (edits.pushed, edits.params.messages) == ([C], (A, B, C))


def test_messages_of_a_session_cannot_be_replaced():
    edits = session(A)
    with pytest.raises(ValueError, match="cannot be replaced"):
        edits.change(lambda now: replace(now, messages=[B]))
    edits.change(lambda now: replace(now, temperature=1, messages=[*now.messages, B]))
    assert (edits.pushed, edits.latest.temperature) == ([A, B], 1)
    assert edits.take_replaced() is None


def test_the_session_of_a_runner_cannot_change():
    for edits in (session(A), Conversation(A).edits):
        with pytest.raises(ValueError, match="cannot change its session"):
            edits.change(lambda now: replace(now, session_id="other"))
