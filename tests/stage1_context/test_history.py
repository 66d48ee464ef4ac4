import math

import pytest

from stage0_gateway import JsonPart, Message, ThinkingPart, ToolCall
from stage1_context import MessageHistory
from tests.stage1_context.sessions import calls
from tests.tables import for_each

SYSTEM = Message.system("Be brief.")
FIRST = Message.user("one")
CALL = Message.assistant("", [ToolCall("a", "f"), ToolCall("b", "g")])
RESULT_A = Message.tool("1", "a")
RESULT_B = Message.tool("2", "b", is_error=True)
REPLY = Message.assistant((ThinkingPart("hm"), JsonPart({"é": [1, None]})))
SECOND = Message.user("two")
ALL = [SYSTEM, FIRST, CALL, RESULT_A, RESULT_B, REPLY, SECOND]
HISTORY = MessageHistory(ALL)


@for_each(
    "method, arguments, expected",
    [
        ("by_role", ["user"], [FIRST, SECOND]),
        ("by_role", ["tool"], [RESULT_A, RESULT_B]),
        ("recent", [2], [REPLY, SECOND]),
        ("recent", [99], ALL),
        ("recent", [0], []),
        ("recent", [-1], []),
        ("recent_by_role", ["assistant", 1], [REPLY]),
        ("recent_by_role", ["user", 9], [FIRST, SECOND]),
        ("recent_by_role", ["user", 0], []),
        ("range", [1, 3], [FIRST, CALL]),
        ("range", [5, 99], [REPLY, SECOND]),
        ("range", [3, 3], []),
        ("role_range", ["tool", 0, 1], [RESULT_A]),
        ("role_range", ["user", 1, 9], [SECOND]),
        ("count_by_role", ["tool"], 2),
        ("count_by_role", ["system"], 1),
        ("count_by_role", ["developer"], 0),
        ("__len__", [], 7),
    ],
)
def test_queries_return_messages_oldest_first(method, arguments, expected):
    assert getattr(HISTORY, method)(*arguments) == expected


def test_a_history_is_iterated_oldest_first():
    assert list(HISTORY) == ALL


def test_a_history_copies_its_messages():
    messages = [FIRST]
    history = MessageHistory(messages)
    messages.append(SECOND)
    history.recent(1).append(SECOND)
    assert history.messages == (FIRST,)


def test_a_history_is_restored_from_json():
    assert MessageHistory.from_json(HISTORY.to_json()).messages == HISTORY.messages


def test_json_keeps_non_ascii_text_readable():
    assert "北京" in MessageHistory([Message.user("北京")]).to_json()


def test_a_lone_surrogate_can_be_saved_to_a_file():
    history = MessageHistory([Message.user("北京 \ud83d")])
    assert (
        MessageHistory.from_json(history.to_json().encode().decode()).messages == history.messages
    )


@for_each("value", [math.nan, object(), {(1, 2): 3}])
def test_a_message_that_is_not_json_raises_a_value_error(value):
    with pytest.raises(ValueError, match=r"JSON|keys must be"):
        MessageHistory([Message.user((JsonPart(value),))]).to_json()


@for_each(
    "text, why",
    [
        ("{}", "a JSON list of messages, not dict"),
        ("no", "Expecting value"),
        ("[" * 200_000, "nested too deeply"),
        ('[{"content": "hi"}]', "Unknown role None"),
        ('[{"role": "boss"}]', "Unknown role 'boss'"),
        ('[{"role": "user", "content": 5}]', "text or parts, not int"),
    ],
)
def test_an_invalid_history_raises_a_value_error(text, why):
    with pytest.raises(ValueError, match=why):
        MessageHistory.from_json(text)


@for_each("text", ["[1]", "[null]", '[{"role": "assistant", "tool_calls": [1]}]'])
def test_a_list_with_other_values_than_messages_raises_a_value_error(text):
    with pytest.raises(ValueError, match=r"message|call"):
        MessageHistory.from_json(text)


@for_each(
    "messages, problems",
    [
        ([], []),
        (ALL, []),
        ([calls("a"), RESULT_A, calls("b"), RESULT_B], []),
        ([calls("a", "b"), RESULT_B, RESULT_A], []),
        ([RESULT_A], ["result without a call before it: a"]),
        (
            [RESULT_A, calls("a")],
            ["result without a call before it: a", "call without a result: a"],
        ),
        ([RESULT_A, calls("a"), RESULT_A], ["result without a call before it: a"]),
        ([calls("a", "b"), RESULT_B], ["call without a result: a"]),
        ([calls("a"), RESULT_A, RESULT_A], ["2 results for one call: a"]),
        (
            [calls("a"), RESULT_A, calls("a"), RESULT_A],
            ["duplicate call id: a", "2 results for one call: a"],
        ),
        (
            [calls("a", "a", "c"), RESULT_A, RESULT_B],
            [
                "result without a call before it: b",
                "duplicate call id: a",
                "call without a result: c",
            ],
        ),
    ],
)
def test_check_history_names_every_call_that_does_not_have_exactly_one_result(messages, problems):
    assert MessageHistory(messages).check_history() == problems


@for_each(
    "between, role",
    [
        (Message.user("by the way"), "user"),
        (SYSTEM, "system"),
        (calls("b"), "assistant"),
        (REPLY, "assistant"),
    ],
)
def test_a_message_between_a_call_and_its_result_is_a_problem(between, role):
    messages = [calls("a"), between, RESULT_A, *([RESULT_B] if between.tool_calls else [])]
    assert MessageHistory(messages).check_history() == [
        f"{role} message between a call and its result: a"
    ]


def test_a_call_id_on_a_message_that_is_not_a_result_is_ignored():
    history = MessageHistory([calls("a"), Message("user", "here", tool_call_id="a")])
    assert history.check_history() == [
        "user message between a call and its result: a",
        "call without a result: a",
    ]
