from stage0_gateway.messages import Message
from stage0_gateway.parts import JsonPart, TextPart, ThinkingPart
from stage0_gateway.server.encoding import arguments_value, event, parts_of, split, without_none
from tests.tables import for_each


def test_message_parts_keep_their_order_and_json_parts_become_text():
    message = Message.assistant((ThinkingPart("hm"), JsonPart({"a": 1}), TextPart("b")))
    assert parts_of(message) == [ThinkingPart("hm"), TextPart('{"a": 1}'), TextPart("b")]


def test_a_plain_text_is_one_part_and_an_empty_text_has_no_parts():
    assert parts_of(Message.assistant("a")) == [TextPart("a")]
    assert parts_of(Message.assistant("")) == []


@for_each(
    "text, value",
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
def test_arguments_are_parsed_to_an_object_or_stay_text(text, value):
    assert arguments_value(text) == value


def test_a_text_is_split_without_losing_characters():
    assert split("abcde", 2) == ["ab", "cd", "e"]
    assert split("", 2) == []


def test_an_event_is_one_line_of_json_after_its_optional_name():
    assert event({"a": "\n天"}) == 'data: {"a":"\\n天"}\n\n'
    assert event({"a": 1}, "ping") == 'event: ping\ndata: {"a":1}\n\n'


def test_only_none_is_omitted_from_fields():
    assert without_none({"a": None, "b": 0, "c": ""}) == {"b": 0, "c": ""}
