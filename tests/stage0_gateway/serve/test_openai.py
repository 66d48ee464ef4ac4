import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from stage0_gateway.messages import ImagePart, Message, TextPart, ThinkingPart, ToolCall
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse
from stage0_gateway.serve.openai import decode_request, encode_error, encode_reply
from stage0_gateway.usage import Usage
from stage0_gateway.wire import openai as wire

CALL = ToolCall("call_1", "get_weather", '{"city": "Paris"}')
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
FIELDS = st.sampled_from(
    [
        *(
            "messages",
            "role",
            "content",
            "tools",
            "tool_calls",
            "function",
            "name",
            "arguments",
            "id",
            "type",
        ),
        *("stop", "tool_choice", "response_format", "json_schema", "schema", "image_url", "url", "text"),
    ]
)
LIKELY = st.recursive(
    st.none() | st.integers() | st.sampled_from(["user", "tool", "text", "json_schema", "function", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=30,
)


def test_what_the_client_side_encodes_is_decoded_to_the_same_request() -> None:
    request = ChatRequest(
        model="m",
        messages=(
            Message.system("Be brief."),
            Message.user(
                (TextPart("What is this?"), ImagePart("aGk=", "image/png"), ImagePart(url="http://x/y"))
            ),
            Message.assistant("", [CALL]),
            Message.tool("sunny", "call_1"),
        ),
        tools=(ToolSpec("get_weather", "Weather of a city.", {"type": "object", "properties": {}}),),
        tool_choice="get_weather",
        temperature=0.5,
        max_tokens=7,
        response_schema={"type": "object"},
        stop=("END",),
        provider_options={"seed": 3},
    )
    assert decode_request(wire.encode(request)) == request


def test_a_developer_message_null_content_and_a_single_stop_are_read() -> None:
    body = {
        "model": "m",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant"},
        ],
        "max_completion_tokens": 9,
        "stop": "END",
    }
    messages = (Message.system((TextPart("a"),)), Message.assistant(""))
    assert decode_request(body) == ChatRequest("m", messages, max_tokens=9, stop=("END",))


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_tool_choice_in_one_word_is_kept(choice: str) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "tool_choice": choice}
    assert decode_request(body).tool_choice == choice


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "'messages' must hold at least one message."),
        ({"messages": "hi"}, "'messages' must be a list, not str."),
        ({"messages": [1]}, "messages[0] must be a JSON object, not int."),
        (
            {"messages": [{"role": "king"}]},
            "messages[0] has the role 'king'; the roles are system, user, assistant and tool.",
        ),
        ({"messages": [{"role": "tool"}]}, "A tool message needs the tool_call_id of the call it answers."),
        ({"messages": [{"role": "user"}], "stop": [1]}, "'stop' must be text, not int."),
        (
            {"messages": [{"role": "user"}], "max_tokens": True},
            "'max_tokens' must be a whole number, not bool.",
        ),
        ({"messages": [{"role": "user"}], "tools": [{"function": {}}]}, "tools[0].function needs a 'name'."),
    ],
)
def test_what_is_not_a_request_is_refused_with_the_field_that_is_wrong(
    body: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        decode_request(body)
    assert str(caught.value) == said


@given(
    JSON | LIKELY | st.fixed_dictionaries({"messages": LIKELY}, optional={"tools": LIKELY, "stop": LIKELY})
)
def test_any_json_value_is_a_request_or_a_value_error(value: object) -> None:
    with contextlib.suppress(ValueError):  # and nothing but a ValueError
        decode_request(value)  # type: ignore[arg-type]


def test_a_reply_with_text_is_a_whole_chat_completion() -> None:
    reply = ChatResponse(Message.assistant("Hello."), usage=Usage(3, 4), model="m", request_id="r-1")
    assert encode_reply(reply, created=5) == {
        "id": "r-1",
        "object": "chat.completion",
        "created": 5,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello.", "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatResponse(Message.assistant("a")), "stop"),
        (ChatResponse(Message.assistant("", [CALL])), "tool_calls"),
        (ChatResponse(Message.assistant("", [CALL]), finish_reason="length"), "length"),
        (ChatResponse(Message.assistant("a"), finish_reason="refusal", refusal="No."), "content_filter"),
        (ChatResponse(Message.assistant("a"), raw_finish_reason="function_call"), "function_call"),
        (
            ChatResponse(Message.assistant((ThinkingPart("hm"), TextPart("a"))), usage=Usage(1, 2, 3, 4)),
            "stop",
        ),
    ],
)
def test_every_reply_validates_as_openais_own_type(reply: ChatResponse, reason: str) -> None:
    completion = ChatCompletion.model_validate(encode_reply(reply), strict=True)
    assert completion.choices[0].finish_reason == reason
    assert wire.decode(encode_reply(reply)).message == reply.message


def test_usage_that_is_not_known_is_left_out() -> None:
    assert "usage" not in encode_reply(ChatResponse(Message.assistant("a"), usage=Usage(3, None)))


def test_an_error_has_openais_shape() -> None:
    error = {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}
    assert encode_error(400, "No.") == {"error": error}
    assert encode_error(500, "No.") == {"error": error | {"type": "server_error"}}
    assert encode_error(400, "No.", kind="mine") == {"error": error | {"type": "mine"}}
