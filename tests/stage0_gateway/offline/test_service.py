import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.http.endpoint import resolve
from stage0_gateway.messages import Message
from stage0_gateway.offline.faults import FAULTS, fault_plan
from stage0_gateway.offline.service import MODEL, answer_http, estimate_usage
from stage0_gateway.parts import ToolCall
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import Usage
from stage0_gateway.server.routing import format_of
from tests.stage0_gateway.replies import read_stream
from tests.tables import for_each

ASKED = b'{"messages": [{"role": "user", "content": "Tea \\ud83d"}]}'
PATHS = {
    "openai": ["/v1/chat/completions"],
    "anthropic": ["/v1/messages"],
    "gemini": ["/v1beta/models/teacher:generateContent", "/models/m:streamGenerateContent?alt=sse"],
    "openai-responses": ["/v1/responses"],
}
EACH = [path for paths in PATHS.values() for path in paths]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def json_of(method: str, path: str, body: bytes = b"") -> tuple[int | None, Any]:
    """Return the status and the value of the body, which is always JSON in ASCII."""
    answer = answer_http(method, path, body)
    return answer.status, json.loads(answer.body.decode("ascii"))


def request_with(name: str) -> Any:
    """Return a strategy for requests with any content."""
    return lambda inner: {name: [{"role": "user", "content": inner, "parts": inner}]}


@for_each("path", ["/v1/models", "/models/", "/any/where/models?limit=1"])
def test_the_model_is_listed_under_any_prefix(path: str) -> None:
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "llm-stages"}
    assert json_of("GET", path) == (200, {"object": "list", "data": [model]})


def test_a_lone_surrogate_in_a_question_is_repeated_in_the_reply() -> None:
    text = (
        'You said: "Tea \ud83d" I see 1 message. '
        "I am a set of rules, not a language model, so I only repeat it."
    )
    message = {"role": "assistant", "content": text, "refusal": None}
    assert json_of("POST", "/v1/chat/completions?x=1", ASKED) == (
        200,
        {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [
                {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
            ],
            "usage": {
                "prompt_tokens": 1,
                "completion_tokens": len(text) // 4,
                "total_tokens": 1 + len(text) // 4,
            },
        },
    )


@for_each(
    "method, path",
    [
        ("GET", "/v1/files"),
        ("GET", "/v1/chat/completions"),
        ("POST", "/v1/models"),
        ("get", "/v1/models"),
    ],
)
def test_an_unknown_path_is_a_404_with_a_list_of_the_known_paths(method: str, path: str) -> None:
    status, value = json_of(method, path, ASKED)
    message = (
        f"Unknown {method} {path}. Use POST /v1/chat/completions, /v1/responses, /v1/messages or "
        "/v1beta/models/teacher:generateContent, or GET /v1/models. This server keeps no "
        "conversations, files or caches."
    )
    assert (status, value["error"]["message"]) == (404, message)


@for_each(
    "body, message",
    [
        (b"[]", "The body must be a JSON object, not list."),
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
)
@for_each("path, name", [(path, name) for name, paths in PATHS.items() for path in paths])
def test_an_invalid_request_is_a_400_in_the_format_of_the_path(
    path: str, name: str, body: bytes, message: str
) -> None:
    form = format_of(path)
    assert form is not None
    text = f"This is not a request in the {name} format: {message}"
    assert json_of("POST", path, body) == (400, form.encode_error(400, text))


@for_each("name, model", [(name, f"{name}:teacher") for name in PATHS])
def test_a_stream_and_a_whole_reply_are_equal(name: str, model: str) -> None:
    target = resolve(model, "key")
    request = ChatRequest(target.model, (Message.user("Tea \ud83d, 两位"),))
    whole = answer_http("POST", target.url, json.dumps(target.wire.encode(request)).encode())
    body = json.dumps(target.wire.encode(request, stream=True)).encode()
    streamed = answer_http("POST", target.stream_url, body)
    assert (whole.is_stream, streamed.is_stream, streamed.status) == (False, True, 200)
    reply = read_stream(target.wire, streamed.chunks)
    assert reply == target.wire.decode(json.loads(whole.body))
    assert "Tea \ud83d, 两位" in reply.content


def test_usage_is_estimated_from_the_lengths_of_texts_and_calls() -> None:
    call = ToolCall("call_1", "read", '{"a": 1}')
    request = ChatRequest("teacher", (Message.user("x" * 40), Message.assistant("", [call])))
    assert estimate_usage(request, Message.assistant("y" * 4, [call])) == Usage(13, 4)
    assert estimate_usage(
        ChatRequest("teacher", (Message.user(""),)), Message.assistant("")
    ) == Usage(1, 1)


@pytest.mark.parametrize("path", EACH)
@given(
    JSON
    | st.sampled_from(["messages", "contents"]).flatmap(
        lambda name: st.builds(request_with(name), JSON)
    )
)
def test_any_json_is_answered_with_200_or_400(path: str, value: Any) -> None:
    answer = answer_http("POST", path, json.dumps(value).encode())
    assert answer.status in (200, 400)
    assert answer.is_stream or isinstance(json.loads(answer.body), dict)


@pytest.mark.parametrize("path", EACH)
@given(st.binary())
def test_any_bytes_are_answered(path: str, body: bytes) -> None:
    assert answer_http("POST", path, body).status in (200, 400)


@for_each("path", EACH)
def test_deeply_nested_json_is_rejected(path: str) -> None:
    assert answer_http("POST", path, b"[" * 1_000_000).status == 400


@for_each("depth", [900, 950, 970, 980, 985, 990, 2_000])
def test_a_result_nested_to_any_depth_is_answered(depth: int) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {
        "messages": [
            {"role": "user", "content": "f?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": "1",
                "content": '{"z": ' + "[" * depth + "]" * depth + "}",
            },
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    assert answer_http("POST", "/v1/chat/completions", json.dumps(body).encode()).status == 200


@for_each("depth", [900, 950, 970, 980, 985, 990, 2_000])
@for_each("fault", FAULTS)
def test_a_call_nested_to_any_depth_is_answered_with_every_fault(depth: int, fault: str) -> None:
    arguments = '{"z": ' + "[" * depth + "]" * depth + "}"
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    body = {
        "messages": [
            {"role": "user", "content": "f?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "ok"},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    answer = answer_http(
        "POST", "/v1/chat/completions", json.dumps(body).encode(), fault_plan([fault])
    )
    assert answer.status in (200, 503)


def test_only_chat_requests_take_a_fault_from_the_plan() -> None:
    plan = fault_plan(["overloaded", None, "overloaded"])
    asked: list[tuple[str, str]] = [
        ("GET", "/v1/models"),
        ("POST", "/v1/files"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/messages"),
        ("POST", "/v1/chat/completions"),
    ]
    statuses = [answer_http(method, path, ASKED, plan).status for method, path in asked]
    assert statuses == [200, 404, 503, 200, 503]
