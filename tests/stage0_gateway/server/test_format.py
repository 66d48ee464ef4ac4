"""What all server formats promise."""

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.errors import error_for_status
from stage0_gateway.messages import Message, as_content
from stage0_gateway.parts import ImagePart, JsonPart, ProviderPart, TextPart, ToolCall
from stage0_gateway.request import ToolSpec
from stage0_gateway.response import ChatResponse
from stage0_gateway.server.routing import wants_stream
from stage0_gateway.wire.error_body import error_for_body
from tests.stage0_gateway.server.formats import (
    ANTHROPIC,
    FORMAT_BY_NAME,
    FORMATS,
    GEMINI,
    OPENAI,
    OPENAI_RESPONSES,
)
from tests.stage0_gateway.server.strategies import anthropic, gemini, openai, openai_responses
from tests.tables import for_each

each_format = pytest.mark.parametrize(
    ("form", "strategies"),
    [*zip(FORMATS, (openai, anthropic, gemini, openai_responses), strict=True)],
    ids=[form.wire.NAME for form in FORMATS],
)

# ---- replies


@each_format
@given(st.data(), st.integers(1, 40))
def test_a_client_reads_the_same_reply_from_a_body_and_from_a_stream(form, strategies, data, piece):
    reply = data.draw(strategies.REPLIES)
    assert form.read_body(reply) == reply
    assert form.read_stream(reply, piece) == reply


@for_each("arguments", ['{"a": 1', '{"a": NaN}', "[1]", '"x"', "nonsense", "[" * 100_000])
@for_each("form", FORMATS)
def test_arguments_that_are_not_an_object_arrive_as_text(form, arguments):
    message = Message.assistant("", [ToolCall("call_0", "f", arguments)])
    reply = ChatResponse(message, "tool_calls")
    for read in (form.read_body(reply), form.read_stream(reply, 1000)):
        assert (read.message, read.finish_reason) == (message, "tool_calls")


@for_each("form", FORMATS)
def test_half_a_surrogate_pair_is_preserved(form):
    reply = ChatResponse(Message.assistant("a\ud83db"), "stop")
    for read in (form.read_body(reply), form.read_stream(reply, 3)):
        assert (read.message, read.finish_reason) == (reply.message, "stop")


@for_each("form", FORMATS)
def test_unsupported_parts_are_omitted_and_json_parts_become_text(form):
    parts = (
        ImagePart("QQ=="),
        ImagePart(url="gs://x"),
        ProviderPart("another-provider", {"executableCode": {}}),
        JsonPart({"a": 1}),
    )
    reply = ChatResponse(Message.assistant(parts))
    assert form.server.encode_reply(reply) == form.server.encode_reply(
        ChatResponse(Message.assistant('{"a": 1}'))
    )


@for_each("status", [400, 401, 403, 404, 413, 429, 500, 503, 529])
@for_each("form", FORMATS)
def test_a_client_raises_the_error_that_the_server_encoded(form, status):
    read = error_for_body(status, form.server.encode_error(status, "No."))
    error = error_for_status(status, "No.")
    assert (type(read), str(read), read.retryable) == (type(error), str(error), error.retryable)


# ---- requests


@each_format
@given(st.data(), st.booleans())
def test_an_encoded_request_is_decoded_to_the_same_request(form, strategies, data, stream):
    request = data.draw(strategies.REQUESTS)
    body = json.loads(json.dumps(form.wire.encode(request, stream=stream)))
    path = "/v1" + form.wire.path(request.model, stream=stream)
    decoded = form.server.decode_request(body, path)
    if form is not OPENAI_RESPONSES:  # it alone needs the fields, for items that clients copy
        decoded, request = without_provider_data(decoded), without_provider_data(request)
    assert decoded == request
    assert wants_stream(path, body) is stream


def without_provider_data(request):
    """Return a request without the fields of a single provider, which a server ignores."""
    messages = tuple(
        replace(
            message,
            content=as_content(map(without_data, parts_of(message))),
            tool_calls=tuple(map(without_data, message.tool_calls)),
        )
        for message in request.messages
    )
    return replace(request, messages=messages, provider_options=None)


def parts_of(message):
    return (TextPart(message.content),) if isinstance(message.content, str) else message.content


def without_data(part):
    return part if isinstance(part, ProviderPart) else replace(part, provider_data=None)


def test_recorded_requests_are_decoded_and_survive_a_second_round_trip(recorded):
    checked = set()
    for row in recorded("wire.jsonl")[0]:
        form, path, body = (
            FORMAT_BY_NAME[row["provider"]],
            row["request"]["path"],
            row["request"]["body"],
        )
        if not (path and body):
            continue
        assert form.server.is_path(path)
        once = form.wire.encode(form.server.decode_request(body, path))
        if form is ANTHROPIC and "tools" not in body:
            # Unsigned thinking is not sent, and the text that remains is then sent as plain text.
            once = form.wire.encode(form.server.decode_request(once, path))
        assert form.wire.encode(form.server.decode_request(once, path)) == once
        checked.add(form)
    assert checked == {OPENAI, ANTHROPIC, GEMINI}


USER = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object"}


@for_each(
    "form, body",
    [
        (
            OPENAI,
            {
                "messages": USER,
                "tools": [
                    {"type": "web_search"},
                    {
                        "type": "function",
                        "function": {"name": "f", "parameters": SCHEMA, "strict": True},
                    },
                ],
            },
        ),
        (
            ANTHROPIC,
            {
                "messages": USER,
                "tools": [
                    {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
                    {"name": "f", "input_schema": SCHEMA, "defer_loading": True},
                ],
            },
        ),
        (
            GEMINI,
            {
                "contents": [],
                "tools": [
                    {"googleSearch": {}},
                    {"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}]},
                ],
            },
        ),
        (
            OPENAI_RESPONSES,
            {
                "input": "hi",
                "tools": [
                    {"type": "web_search"},
                    {"type": "function", "name": "f", "parameters": SCHEMA},
                ],
            },
        ),
    ],
)
def test_server_side_tools_are_ignored(form, body):
    tools = form.server.decode_request(body, form.path).tools
    assert tools == (ToolSpec("f", "", SCHEMA),)


def gemini_choice(**config):
    return {"contents": [], "toolConfig": {"functionCallingConfig": config}}


@for_each(
    "form, body, choice",
    [
        (OPENAI, {"messages": USER, "tool_choice": "any"}, None),
        (
            OPENAI,
            {"messages": USER, "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}},
            None,
        ),
        (
            ANTHROPIC,
            {
                "messages": USER,
                "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
            },
            "required",
        ),
        (GEMINI, gemini_choice(mode="ANY", allowedFunctionNames=["f", "g"]), "required"),
        (GEMINI, gemini_choice(mode="VALIDATED"), None),
        (
            OPENAI_RESPONSES,
            {"input": "hi", "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
            None,
        ),
    ],
)
def test_a_tool_choice_of_another_client_is_decoded(form, body, choice):
    assert form.server.decode_request(body, form.path).tool_choice == choice


@for_each(
    "form, part",
    [
        (OPENAI, {"type": "image_url", "image_url": "http://x/y"}),
        (OPENAI, {"type": "file", "file": {"file_id": "f1"}}),
        (OPENAI, {"type": "input_audio", "input_audio": {}}),
        (OPENAI, {"type": "of_next_year"}),
        (ANTHROPIC, {"type": "document", "source": {"type": "file", "file_id": "f"}}),
        (
            ANTHROPIC,
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a"},
            },
        ),
        (ANTHROPIC, {"type": "image", "source": {"type": "url"}}),
        (ANTHROPIC, {"type": "search_result", "content": []}),
        (GEMINI, {"fileData": {"fileUri": "https://youtu.be/x"}}),
        (GEMINI, {"ofNextYear": {}}),
        (OPENAI_RESPONSES, {"type": "input_image", "file_id": "f", "detail": "high"}),
        (OPENAI_RESPONSES, {"type": "input_audio", "input_audio": {}}),
    ],
)
def test_a_part_of_an_unknown_type_is_kept_unchanged(form, part):
    parts = "parts" if form is GEMINI else "content"
    body = {form.wire.MESSAGES: [{"role": "user", parts: [part]}]}
    request = form.server.decode_request(body, form.path)
    assert request.messages == (Message.user((ProviderPart(form.wire.NAME, part),)),)
    assert form.wire.encode(request)[form.wire.MESSAGES] == body[form.wire.MESSAGES]


@for_each(
    "form, body, call_id",
    [
        (
            ANTHROPIC,
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "tool_use", "id": "1", "name": "f", "input": {}},
                            {"type": "text", "text": "Wait."},
                        ],
                    }
                ]
            },
            "1",
        ),
        (
            GEMINI,
            {
                "contents": [
                    {"role": "model", "parts": [{"functionCall": {"name": "f"}}, {"text": "Wait."}]}
                ]
            },
            "call_0",
        ),
    ],
)
def test_text_after_a_call_is_moved_before_the_calls(form, body, call_id):
    message = Message.assistant("Wait.", [ToolCall(call_id, "f")])
    assert form.server.decode_request(body, form.path).messages == (message,)


@for_each(
    "form, body, expected",
    [
        (OPENAI, {}, "'messages' must hold at least one message."),
        (OPENAI, {"messages": "hi"}, "'messages' must be a list, not str."),
        (OPENAI, {"messages": [1]}, "A message must be a JSON object, not int."),
        (
            OPENAI,
            {"messages": [{"role": "king"}]},
            "A message has the role 'king'; the roles are system, user, assistant and tool.",
        ),
        (
            OPENAI,
            {"messages": [{"role": "tool"}]},
            "A tool message needs the tool_call_id of the call it answers.",
        ),
        (
            OPENAI,
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]},
            "Each of 'tool_calls' needs an 'id' and a 'function' with 'name' and 'arguments'.",
        ),
        (OPENAI, {"messages": USER, "stop": [1]}, "'stop' must be text, not int."),
        (
            OPENAI,
            {"messages": USER, "max_tokens": True},
            "'max_tokens' must be a whole number, not bool.",
        ),
        (
            OPENAI,
            {"messages": USER, "tools": [{"function": {}}]},
            "Each of 'tools' needs a 'function' with a 'name'.",
        ),
        (ANTHROPIC, {}, "'messages' is missing."),
        (ANTHROPIC, {"messages": "hi"}, "'messages' must be a list, not str."),
        (ANTHROPIC, {"messages": [1]}, "A message must be a JSON object, not int."),
        (
            ANTHROPIC,
            {"messages": [{"role": "tool"}]},
            "A message has the role 'tool'; the roles are system, user and assistant.",
        ),
        (
            ANTHROPIC,
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            "A tool message needs the tool_call_id of the call it answers.",
        ),
        (
            ANTHROPIC,
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]}]},
            "A 'tool_use' needs an 'id', a 'name' and an object as its 'input'.",
        ),
        (
            ANTHROPIC,
            {"messages": [], "tools": [{"name": "f"}]},
            "Each of 'tools' needs a 'name' and an object as its 'input_schema'.",
        ),
        (
            ANTHROPIC,
            {"messages": [], "max_tokens": "9"},
            "'max_tokens' must be a whole number, not str.",
        ),
        (GEMINI, {}, "'contents' is missing."),
        (GEMINI, {"contents": "hi"}, "'contents' must be a list, not str."),
        (GEMINI, {"contents": [1]}, "A content must be a JSON object, not int."),
        (
            GEMINI,
            {"contents": [{"role": "system"}]},
            "A content has the role 'system'; the roles are user and model.",
        ),
        (
            GEMINI,
            {"contents": [{"parts": [{"functionResponse": {}}]}]},
            "'functionResponse' needs a 'name'.",
        ),
        (
            GEMINI,
            {"contents": [{"role": "model", "parts": [{"functionCall": {}}]}]},
            "'functionCall' needs a 'name'.",
        ),
        (
            GEMINI,
            {"contents": [], "generationConfig": {"maxOutputTokens": 1.5}},
            "'maxOutputTokens' must be a whole number, not float.",
        ),
        (
            GEMINI,
            {"contents": [], "tools": [{"functionDeclarations": [{}]}]},
            "A function declaration needs a 'name'.",
        ),
        (OPENAI_RESPONSES, {}, "'input' must hold at least one message."),
        (OPENAI_RESPONSES, {"input": []}, "'input' must hold at least one message."),
        (OPENAI_RESPONSES, {"input": 5}, "'input' must be a list, not int."),
        (OPENAI_RESPONSES, {"input": [1]}, "An item of 'input' must be a JSON object, not int."),
        (
            OPENAI_RESPONSES,
            {"input": [{"role": "king"}]},
            "A message has the role 'king'; the roles are system, developer, user and assistant.",
        ),
        (
            OPENAI_RESPONSES,
            {"input": [{"type": "function_call_output", "output": "a"}]},
            "A tool message needs the tool_call_id of the call it answers.",
        ),
        (
            OPENAI_RESPONSES,
            {"input": [{"type": "function_call", "name": "f"}]},
            "A 'function_call' needs 'call_id', 'name' and 'arguments'.",
        ),
        (
            OPENAI_RESPONSES,
            {"input": "hi", "max_output_tokens": True},
            "'max_output_tokens' must be a whole number, not bool.",
        ),
        (
            OPENAI_RESPONSES,
            {"input": "hi", "tools": [{"type": "function"}]},
            "Each of 'tools' needs a 'type', and a function a 'name'.",
        ),
        (
            OPENAI_RESPONSES,
            {"input": [{"role": "assistant", "content": [5]}]},
            "An item of 'input' is invalid: 'int' object has no attribute 'get'.",
        ),
        (
            OPENAI_RESPONSES,
            {"input": "hi", "instructions": 5},
            "'instructions' must be text, not int.",
        ),
    ],
)
def test_an_invalid_request_raises_an_error_that_names_the_field(form, body, expected):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared below
        form.server.decode_request(body, form.path)
    assert str(caught.value) == expected


@each_format
@given(st.data())
def test_any_json_value_is_decoded_or_raises_a_value_error(form, strategies, data):
    with contextlib.suppress(ValueError):  # and nothing but a ValueError
        form.server.decode_request(data.draw(strategies.BODIES), form.path)
