import json

from stage0_gateway.messages import Message
from stage0_gateway.parts import (
    Citation,
    DocumentPart,
    ImagePart,
    JsonPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server.openai import decode_request, encode_error, encode_reply, encode_stream
from tests.tables import for_each

CALL = ToolCall("call_1", "get_weather", '{"city": "Paris"}')


# ---- replies


def test_a_whole_reply_with_text_is_a_chat_completion():
    reply = ChatResponse(
        Message.assistant("Hello."), usage=Usage(3, 4), model="m", request_id="r-1"
    )
    assert encode_reply(reply) == {
        "id": "r-1",
        "object": "chat.completion",
        "created": 0,
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


def test_a_stream_sends_the_role_the_deltas_the_finish_reason_the_usage_and_the_end_marker():
    message = Message.assistant((ThinkingPart("hm"), TextPart("Hello.")), [CALL])
    events = list(encode_stream(ChatResponse(message, usage=Usage(3, 4)), piece=9))
    assert events[-1] == "data: [DONE]\n\n"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": ""},
    }
    assert [choice["delta"] for chunk in chunks for choice in chunk["choices"]] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "hm"},
        {"content": "Hello."},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Paris"}'}}]},
        {},
    ]
    assert [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]] == [
        None
    ] * 6 + ["tool_calls"]
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["total_tokens"]) == ([], 7)


def test_thinking_and_citations_without_provider_data_use_the_default_field_names():
    parts = (
        ThinkingPart("hm"),
        TextPart("a", (Citation("http://x", "X", "x"),)),
        JsonPart({"b": 1}),
    )
    message = encode_reply(ChatResponse(Message.assistant(parts)))["choices"][0]["message"]
    note = {
        "type": "url_citation",
        "url_citation": {"url": "http://x", "title": "X", "content": "x"},
    }
    assert message["reasoning_content"] == "hm"
    assert (message["content"], message["annotations"]) == ('a{"b": 1}', [note])


def test_unknown_usage_is_omitted():
    assert "usage" not in encode_reply(ChatResponse(Message.assistant("a"), usage=Usage(3, None)))


def test_an_error_has_openais_shape():
    error = {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}
    assert encode_error(400, "No.") == {"error": error}
    assert encode_error(500, "No.") == {"error": error | {"type": "server_error"}}


# ---- requests


@for_each(
    "part, read",
    [
        (
            {"type": "text", "text": "a", "cache_control": {}},
            TextPart("a"),
        ),
        (
            {
                "type": "image_url",
                "image_url": {"url": "data:image/png;base64,QQ==", "detail": "low"},
            },
            ImagePart("QQ=="),
        ),
        (
            {"type": "file", "file": {"filename": "a", "file_data": "data:text/plain;base64,QQ=="}},
            DocumentPart("QQ==", "text/plain", "a"),
        ),
    ],
)
def test_other_fields_of_a_part_are_ignored(part, read):
    other = {"type": "image_url", "image_url": {"url": "http://x/y"}}
    body = {"model": "m", "messages": [{"role": "user", "content": [part, other]}]}
    assert decode_request(body).messages == (Message.user((read, ImagePart(url="http://x/y"))),)


def test_developer_messages_null_content_and_a_single_stop_text_are_decoded():
    body = {
        "model": "m",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant"},
        ],
        "max_completion_tokens": 9,
        "stop": "END",
    }
    messages = (Message.system("a"), Message.assistant(""))
    assert decode_request(body) == ChatRequest("m", messages, max_tokens=9, stop=("END",))


def test_the_key_of_the_prompt_cache_and_one_of_two_thinking_fields_are_read():
    thinking = {"role": "assistant", "reasoning_content": "hm", "reasoning": "hm", "content": "a"}
    request = decode_request({"messages": [thinking], "prompt_cache_key": "s"})
    assert request.cache_key == "s"
    assert request.messages == (Message.assistant((ThinkingPart("hm"), TextPart("a"))),)
