from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import CompletionCreateParams
from pydantic import TypeAdapter

from stage0_gateway import (
    AuthenticationFailed,
    ChatRequest,
    ChatResponse,
    ContextOverflow,
    DocumentPart,
    GatewayError,
    ImagePart,
    InvalidRequest,
    JsonPart,
    MalformedResponse,
    Message,
    RateLimited,
    ServerFailed,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolSpec,
    Usage,
)
from stage0_gateway.wire import openai

SPEC = ToolSpec("f", "does it", {"type": "object", "properties": {"a": {"type": "integer"}}})
TALK = (
    Message.system("be brief"),
    Message.user((TextPart("what is this?"), ImagePart("AAAA"), DocumentPart("BBBB", name="a.pdf"))),
    Message.assistant((ThinkingPart("hm"), TextPart("let me see")), [ToolCall("1", "f", '{"a": 1}')]),
    Message.tool((JsonPart({"b": 2}),), "1", name="f"),
)


def test_a_whole_conversation_is_encoded_as_the_documentation_shows_it():
    body = openai.encode(ChatRequest("m", TALK, tools=(SPEC,), temperature=0.0, max_tokens=9, stop=("END",)))
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": "let me see",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
                ],
            },
            {"role": "tool", "content": '{"b": 2}', "tool_call_id": "1"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": "does it", "parameters": dict(SPEC.parameters)},
            }
        ],
        "temperature": 0.0,
        "max_tokens": 9,
        "stop": ["END"],
    }


def test_the_official_clients_own_types_accept_what_is_encoded():
    request = ChatRequest("m", TALK, tools=(SPEC,), tool_choice="f", response_schema={"type": "object"})
    TypeAdapter(CompletionCreateParams).validate_python(openai.encode(request))


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_general_tool_choice_is_sent_as_it_is(choice):
    assert openai.encode(ChatRequest("m", (), tool_choice=choice))["tool_choice"] == choice


def test_provider_options_are_put_into_the_body():
    request = ChatRequest("m", (), provider_options={"seed": 7})
    assert openai.encode(request) == {"model": "m", "messages": [], "seed": 7}


def test_only_a_given_key_is_sent():
    assert openai.headers("k") == {"Authorization": "Bearer k"}
    assert openai.headers(None) == {}


def reply(message, **more):
    return {"choices": [{"message": message, "finish_reason": "stop"}], "model": "m", **more}


def test_a_whole_reply_is_read():
    body = reply({"content": "yes"}, id="r1", usage={"prompt_tokens": 3, "completion_tokens": 4})
    assert openai.decode(body) == ChatResponse(
        Message.assistant("yes"), "stop", "stop", Usage(3, 4), "m", request_id="r1"
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": None}, Message.assistant("")),
        ({}, Message.assistant("")),
        ({"content": "a", "tool_calls": None}, Message.assistant("a")),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            Message.assistant("ab"),
        ),
        (
            {"content": "a", "reasoning_content": "hm"},
            Message.assistant((ThinkingPart("hm"), TextPart("a"))),
        ),
        (
            {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": None}}]},
            Message.assistant("", [ToolCall("1", "f", "{}")]),
        ),
        (
            {"tool_calls": [{"id": "", "function": {"name": "f", "arguments": ""}}]},
            Message.assistant("", [ToolCall("call_0", "f", "{}")]),
        ),
        (
            {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"a": 1}}}]},
            Message.assistant("", [ToolCall("1", "f", '{"a": 1}')]),
        ),
        (
            {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a": '}}]},
            Message.assistant("", [ToolCall("1", "f", '{"a": ')]),
        ),
    ],
    ids=[
        "content null",
        "content absent",
        "calls null",
        "content in parts",
        "reasoning",
        "arguments null",
        "id and arguments empty",
        "arguments as an object",
        "arguments that do not parse are kept",
    ],
)
def test_what_servers_send_is_read(message, expected):
    assert openai.decode(reply(message)).message == expected


@pytest.mark.parametrize(
    ("raw", "with_calls", "expected"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("", True, "tool_calls"),
        (None, False, "unknown"),
        ("length", True, "length"),
        ("content_filter", False, "refusal"),
        ("weird", False, "unknown"),
    ],
)
def test_the_calls_decide_on_the_finish_reason_unless_the_reply_was_cut(raw, with_calls, expected):
    calls = [{"id": "1", "function": {"name": "f", "arguments": "{}"}}] if with_calls else []
    body = {"choices": [{"message": {"content": "", "tool_calls": calls}, "finish_reason": raw}]}
    response = openai.decode(body)
    assert (response.finish_reason, response.raw_finish_reason) == (expected, raw or None)


def test_a_refusal_is_told_apart_from_an_answer():
    response = openai.decode(reply({"content": None, "refusal": "I will not."}))
    assert (response.finish_reason, response.refusal) == ("refusal", "I will not.")


def test_an_error_inside_a_successful_answer_is_raised():
    with pytest.raises(GatewayError, match="overloaded"):
        openai.decode({"error": {"message": "overloaded"}})


@pytest.mark.parametrize(
    "body", [{}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": 5}]}, {"choices": 3}]
)
def test_what_is_no_completion_is_malformed(body):
    with pytest.raises(MalformedResponse, match="not a chat completion"):
        openai.decode(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
near_replies = st.fixed_dictionaries(
    {},
    optional={
        name: json_values | st.lists(st.fixed_dictionaries({"message": json_values}), max_size=2)
        for name in ("choices", "usage", "error", "model", "id")
    },
)


@given(
    near_replies
    | st.fixed_dictionaries({"choices": st.just([{"message": {"content": "x"}}]), "usage": json_values})
)
def test_any_json_object_is_a_response_or_a_gateway_error(body):
    with suppress(GatewayError):
        assert isinstance(openai.decode(body), ChatResponse)


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (401, {"error": {"message": "bad key", "code": "invalid_api_key"}}, AuthenticationFailed, "bad key"),
        (401, {"detail": "Unauthorized"}, AuthenticationFailed, "Unauthorized"),
        (400, {"error": "no model"}, InvalidRequest, "no model"),
        (400, {"error": {"message": "long", "code": "context_length_exceeded"}}, ContextOverflow, "long"),
        (429, {"error": {"message": "slow down", "code": 429}}, RateLimited, "slow down"),
        (502, "<html>Bad gateway</html>", ServerFailed, "<html>Bad gateway</html>"),
        (500, ["odd"], ServerFailed, '["odd"]'),
        (500, None, ServerFailed, "null"),
    ],
)
def test_each_shape_of_error_keeps_the_servers_words(status, body, kind, said):
    error = openai.decode_error(status, body)
    assert type(error) is kind
    assert str(error).startswith(f"{said} (HTTP {status})")


@pytest.mark.parametrize(
    "message",
    [
        {"content": {"a": 1}},
        {"content": "a", "reasoning": ["b"]},
        {"tool_calls": [{"id": 5, "function": {"name": "f"}}]},
        {"tool_calls": [{"id": "1", "function": {"name": None}}]},
        {"refusal": 7},
    ],
)
def test_a_field_of_the_wrong_type_is_malformed_and_never_made_into_text(message):
    with pytest.raises(MalformedResponse, match="not a chat completion"):
        openai.decode(reply(message))


def test_counts_that_are_none_are_unknown():
    usage = {"prompt_tokens": "5", "completion_tokens": None, "prompt_tokens_details": [1]}
    assert openai.decode(reply({"content": "a"}, usage=usage)).usage == Usage()


def test_a_long_error_is_cut_between_two_words_so_that_no_half_of_a_key_is_left():
    words = f"{'x' * 490} sk-secret-key"
    assert (
        str(openai.decode_error(500, words)) == f"{'x' * 490} … (HTTP 500) Try again later, or another model."
    )
