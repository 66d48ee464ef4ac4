import pytest

from stage0_gateway.messages import Message
from stage0_gateway.parts import JsonPart, TextPart, ThinkingPart
from stage0_gateway.server.encoding import arguments_value, event, parts_of, split, without_none


def test_the_parts_of_a_message_are_in_order_and_a_json_part_is_its_text():
    message = Message.assistant((ThinkingPart("hm"), JsonPart({"a": 1}), TextPart("b")))
    assert parts_of(message) == [ThinkingPart("hm"), TextPart('{"a": 1}'), TextPart("b")]


def test_a_plain_text_is_one_part_and_an_empty_text_has_none():
    assert parts_of(Message.assistant("a")) == [TextPart("a")]
    assert parts_of(Message.assistant("")) == []


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
    assert split("abcde", 2) == ["ab", "cd", "e"]
    assert split("", 2) == []


def test_an_event_is_one_line_of_json_with_its_name_where_it_has_one():
    assert event({"a": "\n天"}) == 'data: {"a":"\\n天"}\n\n'
    assert event({"a": 1}, "ping") == 'event: ping\ndata: {"a":1}\n\n'


def test_only_none_is_left_out_of_fields():
    assert without_none({"a": None, "b": 0, "c": ""}) == {"b": 0, "c": ""}
