import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.messages import Message, ToolCall
from stage0_gateway.offline.outcomes import Outcome, feedback_in, is_host_note, outcomes_in, read_json


def test_results_find_their_calls_in_whatever_order_they_come() -> None:
    messages = [
        Message.assistant("", [ToolCall("1", "add", '{"a": 1}'), ToolCall("2", "add", '{"a": 2}')]),
        Message.tool(" two ", "2"),
        Message.tool("one", "1", is_error=True),
    ]
    assert outcomes_in(messages) == (
        Outcome("add", {"a": 1}, "one", True),
        Outcome("add", {"a": 2}, "two"),
    )


def test_a_result_in_words_goes_to_the_oldest_call_of_its_tool_that_waits() -> None:
    messages = [
        Message.assistant('{"tool": "add", "arguments": {"a": 1}}'),
        Message.assistant('{"tool": "add", "arguments": {"a": 2}}'),
        Message.user("[Tool result for add]\none"),
        Message.user("[Tool result for add] \nErrors: none"),
    ]
    assert outcomes_in(messages) == (
        Outcome("add", {"a": 1}, "one"),
        Outcome("add", {"a": 2}, "Errors: none", True),
    )


def test_a_result_whose_call_is_out_of_sight_is_kept_under_the_name_it_has() -> None:
    messages = [Message.tool("a", "9"), Message.tool("b", "9", name="add")]
    assert outcomes_in(messages) == (Outcome("The tool", {}, "a"), Outcome("add", {}, "b"))


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "null", "[" * 100_000])
def test_arguments_that_are_no_object_are_none(arguments: str) -> None:
    assert outcomes_in([Message.assistant("", [ToolCall("1", "add", arguments)])]) == (Outcome("add"),)


@pytest.mark.parametrize(
    ("message", "note"),
    [
        (Message.user("[Tool result for add]\n3"), True),
        (Message.user("[Feedback]\nUnknown tool."), True),
        (Message.user("I saw:\n[Tool result for add]\n3"), False),
        (Message.user("[Tool result for ]\n3"), False),
        (Message.user(f"[Tool result for {'x' * 201}]\n3"), False),
        (Message.user("feedback"), False),
    ],
)
def test_a_note_of_the_host_is_told_from_what_the_person_says(message: Message, note: bool) -> None:
    assert is_host_note(message) is note


@pytest.mark.parametrize(
    ("messages", "feedback"),
    [
        ([], None),
        ([Message.user("[Feedback] No.\n")], "No."),
        ([Message.user("[Feedback] No."), Message.assistant("Well.")], None),
        ([Message.assistant("[Feedback] No.")], None),
    ],
)
def test_feedback_counts_only_as_the_hosts_last_word(messages: list[Message], feedback: str | None) -> None:
    assert feedback_in(messages) == feedback


@given(st.lists(st.text(alphabet="ab[] \n"), min_size=1, max_size=5))
def test_results_in_one_message_are_taken_apart_without_a_loss(texts: list[str]) -> None:
    said = "\n".join(f"[Tool result for t{number}]\n{text}" for number, text in enumerate(texts))
    assert outcomes_in([Message.user(said)]) == tuple(
        Outcome(f"t{number}", {}, text.strip()) for number, text in enumerate(texts)
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [(json.dumps({"a": [1]}), {"a": [1]}), ("no", None), ("[" * 100_000, None), ("1" * 5_000, None)],
    ids=["json", "words", "too deep", "too long a number"],
)
def test_text_that_is_not_json_is_none(text: str, value: object) -> None:
    assert read_json(text) == value
