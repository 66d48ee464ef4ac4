import json

from stage0_gateway.messages import Message
from stage0_gateway.parts import (
    Citation,
    ImagePart,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server.anthropic import (
    decode_request,
    encode_error,
    encode_reply,
    encode_stream,
)
from tests.stage0_gateway.server.strategies.anthropic import own
from tests.tables import for_each

# ---- replies


def test_a_whole_reply_is_a_message():
    parts = (
        ThinkingPart("hm", own(signature="s")),
        TextPart("Hello.", (Citation("http://x", "X", "x"),)),
    )
    message = Message.assistant(parts, [ToolCall("1", "f", '{"a": 1}')])
    reply = ChatResponse(message, usage=Usage(3, 4, 5, 2, 6), model="m", request_id="r-1")
    note = {
        "type": "web_search_result_location",
        "url": "http://x",
        "title": "X",
        "cited_text": "x",
    }
    assert encode_reply(reply) == {
        "id": "r-1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Hello.", "citations": [note]},
            {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 6,
            "cache_read_input_tokens": 5,
            "output_tokens": 4,
            "output_tokens_details": {"thinking_tokens": 2},
        },
    }


def test_a_stream_starts_fills_and_stops_each_block():
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}}
    parts = (
        ThinkingPart("hm", own(signature="s")),
        TextPart("Hello."),
        ProviderPart("anthropic", search),
    )
    message = Message.assistant(parts, [ToolCall("1", "f", '{"a": 1}')])
    events = list(
        encode_stream(ChatResponse(message, usage=Usage(3, 4), model="m", request_id="r"), piece=5)
    )
    pairs = [
        event.removeprefix("event: ").removesuffix("\n\n").split("\ndata: ") for event in events
    ]
    data = [json.loads(text) for _, text in pairs]
    assert [name for name, _ in pairs] == [each["type"] for each in data]
    assert data[0] == {
        "type": "message_start",
        "message": {
            **{"id": "r", "type": "message", "role": "assistant", "model": "m", "content": []},
            **{
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 3, "output_tokens": 4},
            },
        },
    }
    assert [
        each.get("delta") or each.get("content_block") or each["type"] for each in data[1:]
    ] == [
        "ping",
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "s"},
        "content_block_stop",
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "Hello"},
        {"type": "text_delta", "text": "."},
        "content_block_stop",
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"q":'},
        {"type": "input_json_delta", "partial_json": " 1}"},
        "content_block_stop",
        {"type": "tool_use", "id": "1", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"a":'},
        {"type": "input_json_delta", "partial_json": " 1}"},
        "content_block_stop",
        {"stop_reason": "tool_use", "stop_sequence": None},
        "message_stop",
    ]
    assert data[-2]["usage"] == {"input_tokens": 3, "output_tokens": 4}


@for_each(
    "reply, reason",
    [
        (ChatResponse(Message.assistant("a")), "end_turn"),
        (ChatResponse(Message.assistant("", [ToolCall("1", "f")])), "tool_use"),
        (
            ChatResponse(Message.assistant("", [ToolCall("1", "f")]), finish_reason="length"),
            "max_tokens",
        ),
        (ChatResponse(Message.assistant("a"), finish_reason="pause"), "pause_turn"),
        (ChatResponse(Message.assistant("a"), finish_reason="refusal"), "refusal"),
        (ChatResponse(Message.assistant("a"), refusal="No."), "refusal"),
        (ChatResponse(Message.assistant("a"), raw_finish_reason="something_new"), "something_new"),
    ],
)
def test_the_finish_reason_is_translated_to_anthropics_stop_reason(reply, reason):
    assert encode_reply(reply)["stop_reason"] == reason


def test_an_error_has_anthropics_shape():
    error = {"type": "invalid_request_error", "message": "No."}
    assert encode_error(400, "No.") == {"type": "error", "error": error}
    assert encode_error(529, "No.") == {
        "type": "error",
        "error": error | {"type": "overloaded_error"},
    }
    assert encode_error(500, "No.") == {"type": "error", "error": error | {"type": "api_error"}}


# ---- requests


def test_a_message_with_several_results_becomes_one_message_per_result():
    text = {"type": "text", "text": "sunny", "cache_control": {"type": "ephemeral"}}
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="},
    }
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": [text, image]},
        {"type": "tool_result", "tool_use_id": "2", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "3"},
    ]
    content = [
        *results,
        {"type": "text", "text": "go on"},
        {"type": "container_upload", "file_id": "f"},
    ]
    assert decode_request(
        {"model": "m", "messages": [{"role": "user", "content": content}]}
    ).messages == (
        Message.tool(
            (TextPart("sunny"), ImagePart("QQ==")),
            "1",
        ),
        Message.tool("no", "2", is_error=True),
        Message.tool((), "3"),
        Message.user((TextPart("go on"), ProviderPart("anthropic", content[-1]))),
    )


def test_the_tool_choice_and_the_schema_are_decoded_beside_other_settings():
    choice = {"type": "any", "disable_parallel_tool_use": True}
    output = {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    body |= {"tool_choice": choice, "output_config": output}
    request = decode_request(body)
    assert (request.tool_choice, request.response_schema) == ("required", {"type": "object"})


def test_a_system_message_between_other_messages_is_decoded():
    messages = [
        {"role": "user", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "b"}]},
    ]
    read = (Message.system("s"), Message.user("a"), Message.system((TextPart("b"),)))
    assert decode_request({"model": "m", "system": "s", "messages": messages}).messages == read
