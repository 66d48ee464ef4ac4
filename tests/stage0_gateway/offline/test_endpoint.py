import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.messages import Message, ToolCall
from stage0_gateway.offline.endpoint import FINGERPRINT, MODEL, answer_http, estimate_usage
from stage0_gateway.request import ChatRequest
from stage0_gateway.usage import Usage

ASKED = b'{"messages": [{"role": "user", "content": "Tea \\ud83d"}]}'
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def told(method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    """The status and the value of the body, which is always JSON in ASCII."""
    status, answer = answer_http(method, path, body)
    return status, json.loads(answer.decode("ascii"))


@pytest.mark.parametrize("path", ["/v1/models", "/models/", "/any/where/models?limit=1"])
def test_the_one_model_is_listed_under_any_prefix(path: str) -> None:
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "llm-stages"}
    assert told("GET", path) == (200, {"object": "list", "data": [model]})


def test_a_question_with_half_a_character_gets_a_whole_completion() -> None:
    text = (
        'You said: "Tea \ud83d". I see 1 message. '
        "I am a set of rules, not a language model, so I only repeat it."
    )
    message = {"role": "assistant", "content": text, "refusal": None}
    assert told("POST", "/v1/chat/completions?x=1", ASKED) == (
        200,
        {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {
                "prompt_tokens": 1,
                "completion_tokens": len(text) // 4,
                "total_tokens": 1 + len(text) // 4,
            },
            "system_fingerprint": FINGERPRINT,
        },
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/files"), ("GET", "/v1/chat/completions"), ("POST", "/v1/models"), ("get", "/v1/models")],
)
def test_what_is_not_offered_is_a_404_that_says_what_is(method: str, path: str) -> None:
    status, value = told(method, path, ASKED)
    said = f"There is no {method} {path}. There are POST /v1/chat/completions and GET /v1/models."
    assert (status, value["error"]["message"]) == (404, said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "This is not a chat completion request: The body must be a JSON object, not list."),
        (b'{"seed": NaN}', "This is not a chat completion request: NaN is not JSON."),
        (b'{"seed": -Infinity}', "This is not a chat completion request: -Infinity is not JSON."),
        (b'{"seed": 1e999}', "This is not a chat completion request: A number is too large."),
        (
            b'{"stream": true,' + ASKED[1:],
            "This teaching model does not stream; leave out stream, or send false.",
        ),
    ],
)
def test_what_cannot_be_answered_is_a_400_with_the_reason(body: bytes, said: str) -> None:
    error = {"message": said, "type": "invalid_request_error", "param": None, "code": None}
    assert told("POST", "/v1/chat/completions", body) == (400, {"error": error})


def test_usage_is_estimated_from_lengths_with_the_calls_and_never_zero() -> None:
    call = ToolCall("call_1", "read", '{"a": 1}')
    request = ChatRequest("teacher", (Message.user("x" * 40), Message.assistant("", [call])))
    assert estimate_usage(request, Message.assistant("y" * 4, [call])) == Usage(13, 4)
    assert estimate_usage(ChatRequest("teacher", (Message.user(""),)), Message.assistant("")) == Usage(1, 1)


@given(JSON | st.builds(lambda inner: {"messages": [{"role": "user", "content": inner}]}, JSON))
def test_any_json_is_answered_with_200_or_400(value: Any) -> None:
    status, body = answer_http("POST", "/v1/chat/completions", json.dumps(value).encode())
    assert status in (200, 400)
    assert json.loads(body)["object" if status == 200 else "error"]


@given(st.binary())
def test_any_bytes_are_answered(body: bytes) -> None:
    assert answer_http("POST", "/v1/chat/completions", body)[0] in (200, 400)


def test_deeply_nested_json_is_refused() -> None:
    assert answer_http("POST", "/v1/chat/completions", b"[" * 1_000_000)[0] == 400


@pytest.mark.parametrize("depth", [900, 950, 970, 980, 985, 990, 2_000])
def test_a_result_nested_to_any_depth_is_answered(depth: int) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {
        "messages": [
            {"role": "user", "content": "f?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": '{"z": ' + "[" * depth + "]" * depth + "}"},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    assert answer_http("POST", "/v1/chat/completions", json.dumps(body).encode())[0] == 200
