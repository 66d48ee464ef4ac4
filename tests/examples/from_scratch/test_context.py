"""The steps of examples/from_scratch/context.py."""

import pytest

from examples.from_scratch.context import (
    INTERRUPTED,
    History,
    WindowTooSmall,
    count_tokens,
    feedback,
    repair,
    system,
    tool_result,
    user,
    window,
)


def assistant(text, *ids):
    message = {"role": "assistant", "content": text}
    calls = [{"id": each, "function": {"name": "f", "arguments": "{}"}} for each in ids]
    return message | ({"tool_calls": calls} if calls else {})


OLD = [user("old"), assistant("", "a"), tool_result("a", "1"), assistant("one")]
NEW = [user("new"), assistant("", "a"), tool_result("a", "2")]


def tokens(messages):
    return sum(count_tokens(message) for message in messages)


# ---- Steps 1 and 2: Messages, Count


def test_a_result_names_its_call():
    assert tool_result("a", "1") == {"role": "tool", "tool_call_id": "a", "content": "1"}


def test_four_ascii_characters_are_one_token_and_a_chinese_character_is_one():
    assert count_tokens(user("a" * 8)) - count_tokens(user("")) == 2
    assert count_tokens(user("天气")) - count_tokens(user("")) == 2


def test_the_arguments_of_calls_are_counted():
    assert count_tokens(assistant("", "a")) > count_tokens(assistant(""))


def test_a_message_without_text_is_counted():
    assert count_tokens({"role": "assistant", "content": None}) == 4


def test_a_message_may_have_null_instead_of_calls():
    message = assistant("Hi.") | {"tool_calls": None}
    assert count_tokens(message) == count_tokens(assistant("Hi."))
    assert repair([message]) == [message]


# ---- Step 3: Window


def test_everything_that_fits_is_selected_in_its_order():
    messages = [system("s"), *OLD, *NEW]
    assert window(messages, tokens(messages)) == messages


def test_an_exchange_is_dropped_as_a_whole():
    messages = [system("s"), *OLD, *NEW]
    assert window(messages, tokens(messages) - 1) == [system("s"), *NEW]


def test_feedback_stays_with_its_question():
    messages = [*OLD, user("new"), assistant("?"), feedback("Not JSON.")]
    assert window(messages, tokens(messages) - 1) == messages[4:]
    with pytest.raises(WindowTooSmall):  # feedback alone would not say what was asked
        window(messages, tokens(messages[4:]) - 1)


def test_an_older_exchange_that_fits_is_not_selected_behind_one_that_does_not():
    messages = [user("a"), user("b" * 400), user("c")]
    assert window(messages, 50) == [user("c")]


def test_a_question_that_does_not_fit_is_an_error():
    with pytest.raises(WindowTooSmall):
        window([user("a" * 400)], 50)


# ---- Step 4: Repair


def test_complete_messages_are_not_changed():
    assert repair([*OLD, *NEW]) == [*OLD, *NEW]


def test_an_open_call_gets_a_result():
    messages = [user("q"), assistant("", "a", "b"), tool_result("a", "1")]
    assert repair(messages) == [*messages, tool_result("b", INTERRUPTED)]


def test_a_second_result_and_a_result_without_a_call_are_removed():
    messages = [tool_result("x", "0"), *NEW, tool_result("a", "3")]
    assert repair(messages) == NEW


def test_a_result_moves_behind_its_call():
    question, call, result = NEW
    assert repair([question, call, user("Hello?"), result]) == [
        question,
        call,
        result,
        user("Hello?"),
    ]


def test_a_result_of_later_calls_with_the_same_id_stays_there():
    messages = [user("q"), assistant("", "a"), *NEW]
    assert repair(messages) == [*messages[:2], tool_result("a", INTERRUPTED), *NEW]


# ---- Step 5: Store


def test_a_stored_conversation_is_loaded(tmp_path):
    history = History(tmp_path / "h.jsonl")
    for message in [*OLD, user("天气 \u2028")]:
        history.add(message)
    assert History(tmp_path / "h.jsonl").messages == [*OLD, user("天气 \u2028")]


def test_an_incomplete_last_line_is_removed_before_the_next_message(tmp_path):
    path = tmp_path / "h.jsonl"
    History(path).add(user("a"))
    with path.open("a") as file:
        file.write('{"role": "us')
    History(path).add(user("b"))
    assert History(path).messages == [user("a"), user("b")]


def test_a_call_that_a_crash_interrupted_has_a_result_after_loading(tmp_path):
    path = tmp_path / "h.jsonl"
    History(path).add(assistant("", "a"))
    assert History(path).messages[-1] == tool_result("a", INTERRUPTED)


def test_a_damaged_line_in_the_middle_is_an_error(tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_text('{"role\n{}\n')
    with pytest.raises(ValueError, match="Unterminated"):
        History(path)
