import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import (
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    as_message,
)
from stage0_gateway.messages import as_content
from tests.tables import for_each

texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=10)
contents = texts | st.lists(
    st.builds(TextPart, texts) | st.builds(ThinkingPart, texts), max_size=3
).map(tuple)
calls = st.lists(st.builds(ToolCall, names, names, texts.filter(bool)), max_size=2).map(tuple)
messages = st.one_of(
    st.builds(Message.system, contents),
    st.builds(Message.user, contents),
    st.builds(Message.assistant, contents, calls, raw_text=st.none() | names),
    st.builds(Message.tool, contents, names, is_error=st.booleans(), name=st.none() | names),
)


@given(messages)
def test_every_message_survives_a_round_trip_through_json(message):
    back = Message.from_dict(json.loads(json.dumps(message.to_dict())))
    assert back == message or (message.content == () and back.content == "")


def test_calls_in_a_list_become_a_tuple():
    call = ToolCall("1", "f")
    assert Message("assistant", "", [call]).tool_calls == (call,)


def test_a_message_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Message.user("hi").content = "ho"


def test_text_is_the_text_parts_without_thinking():
    message = Message.assistant((ThinkingPart("hm"), TextPart("a"), ImagePart("xx"), TextPart("b")))
    assert (message.text, message.thinking) == ("ab", "hm")


def test_a_list_of_parts_becomes_a_tuple():
    assert Message("user", [TextPart("a")]).content == (TextPart("a"),)


def test_openais_message_format_is_accepted():
    function = {"name": "f", "arguments": '{"a": 1}'}
    plain = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }
    assert Message.from_dict(plain) == Message.assistant("", [ToolCall("1", "f", '{"a": 1}')])


@for_each(
    "plain, expected",
    [
        # no role
        (
            {"content": "hi"},
            "Unknown role None. The roles are system, user, assistant, tool.",
        ),
        # unknown role
        (
            {"role": "boss", "content": "hi"},
            "Unknown role 'boss'. The roles are system, user, assistant, tool.",
        ),
        # result without call
        (
            {"role": "tool", "content": "x"},
            "A tool message needs the tool_call_id of the call it answers.",
        ),
        # unknown part
        (
            {"role": "user", "content": [{"type": "smell"}]},
            "Unknown part type 'smell'. "
            "The types are text, json, image, document, thinking, provider.",
        ),
        # number as content
        ({"role": "user", "content": 5}, "Message content is text or parts, not int."),
        # call without name
        (
            {"role": "assistant", "tool_calls": [{"id": "1"}]},
            "A tool call needs a 'name'.",
        ),
    ],
)
def test_an_invalid_message_raises_an_error_that_names_the_problem(plain, expected):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole text is compared)
        Message.from_dict(plain)
    assert str(caught.value) == expected


def test_content_that_is_not_parts_is_rejected():
    with pytest.raises(ValueError, match=r"A message part is one of TextPart, .*, not int"):
        Message("user", (1, 2))


def test_empty_fields_are_not_stored():
    assert Message.user("a").to_dict() == {"role": "user", "content": "a"}
    assert Message.tool((TextPart("a"),), "1", is_error=True).to_dict() == {
        "role": "tool",
        "content": [{"type": "text", "text": "a"}],
        "tool_call_id": "1",
        "is_error": True,
    }


def test_as_message_accepts_only_messages_and_mappings():
    assert as_message(Message.user("a")) == as_message({"role": "user", "content": "a"})
    with pytest.raises(ValueError, match="not 'hi'"):
        as_message("hi")


def test_parts_are_the_content_and_a_text_is_a_single_part():
    image = ImagePart("QQ==")
    assert Message.user("a").parts == (TextPart("a"),)
    assert Message.user((TextPart("a"), image)).parts == (TextPart("a"), image)


def test_a_single_plain_text_part_becomes_text():
    signed = TextPart("a", (), {"gemini": {"thoughtSignature": "s"}})
    assert as_content([]) == ""
    assert as_content([TextPart("a")]) == "a"
    assert as_content([signed]) == (signed,)
    assert as_content([TextPart("a"), TextPart("b")]) == (TextPart("a"), TextPart("b"))
