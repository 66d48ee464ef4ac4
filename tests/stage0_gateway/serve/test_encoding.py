import pytest

from stage0_gateway.messages import Message
from stage0_gateway.parts import JsonPart, TextPart, ThinkingPart, ToolCall
from stage0_gateway.serve.encoding import arguments_value, cut, event, in_order


def call(number, at=None):
    return ToolCall(str(number), "f", provider_data=None if at is None else {"anthropic": {"at": at}})


def test_parts_and_calls_come_in_the_order_in_which_they_stood():
    calls = [call(1, 0), call(2, 1), call(3, 1), call(4)]
    message = Message.assistant((ThinkingPart("hm"), JsonPart({"a": 1})), calls)
    text = TextPart('{"a": 1}')
    assert list(in_order(message, "anthropic")) == [
        calls[0],
        ThinkingPart("hm"),
        calls[1],
        calls[2],
        text,
        calls[3],
    ]
    assert list(in_order(message, "gemini")) == [ThinkingPart("hm"), text, *calls]


def test_a_plain_text_is_a_part_and_an_empty_one_is_none():
    assert list(in_order(Message.assistant("a", [call(1)]), "gemini")) == [TextPart("a"), call(1)]
    assert list(in_order(Message.assistant("", [call(1)]), "gemini")) == [call(1)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ("", {}),
        ('{"a": 1', '{"a": 1'),
        ("[1]", "[1]"),
        ("null", "null"),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1e999}', '{"a": 1e999}'),
    ],
)
def test_arguments_are_an_object_or_stay_their_text(text, value):
    assert arguments_value(text) == value


def test_a_text_is_cut_and_nothing_of_it_is_lost():
    assert cut("abcde", 2) == ["ab", "cd", "e"]
    assert cut("", 2) == []


def test_an_event_is_one_line_of_json_with_its_name_where_it_has_one():
    assert event({"a": "\n天"}) == 'data: {"a":"\\n天"}\n\n'
    assert event({"a": 1}, "ping") == 'event: ping\ndata: {"a":1}\n\n'
