"""Nonstandard output of some servers: errors outside `error`, and bodies without a reply."""

import pytest

from stage0_gateway.errors import (
    GatewayError,
    InvalidRequest,
    MalformedResponse,
    ServerFailed,
    StreamInterrupted,
)
from stage0_gateway.response import Usage
from stage0_gateway.wire import anthropic, gemini, openai, openai_responses
from tests.stage0_gateway.replies import candidate, chunk, completion, read_events
from tests.tables import for_each

IN_A_STREAM = {
    "vLLM's": {"object": "error", "message": "boom", "code": 400},
    "Groq's": {"choices": [], "x_groq": {"error": "boom"}},
    "OpenRouter's": {"choices": [{"delta": {}, "error": {"code": 502, "message": "boom"}}]},
    "a message alone": {"message": "boom", "code": 500},
    "a detail alone": {"detail": "boom"},
}


@for_each("event", IN_A_STREAM.values())
def test_an_error_of_any_shape_in_a_stream_is_raised_with_its_message(event):
    with pytest.raises(GatewayError, match="boom"):
        read_events(openai, chunk(content="half of"), event)


@for_each("wire", [openai, anthropic, gemini, openai_responses])
@for_each("body", [{"detail": "boom"}, {"message": "boom"}, {"error": {"message": "boom"}}])
def test_an_error_with_status_200_is_raised(wire, body):
    with pytest.raises(GatewayError, match="boom"):
        wire.reader().decode_whole(body)
    with pytest.raises(GatewayError, match="boom"):
        wire.reader().read_event(body)


@for_each(
    "wire, body",
    [
        (openai, {}),
        (openai, {"choices": None}),
        (openai, {"choices": 3}),
        (openai, {"choices": []}),
        (openai, {"choices": [{}]}),
        (openai, {"choices": [{"message": 5}]}),
        (openai, {"choices": [{"message": None, "finish_reason": "stop"}]}),
        (openai, completion({"a": 1})),
        (openai, completion("a", reasoning=["b"])),
        (openai, completion(refusal=7)),
        (anthropic, {}),
        (anthropic, {"content": None, "stop_reason": "end_turn"}),
        (anthropic, {"content": 5}),
        (anthropic, {"content": ["x"]}),
        (anthropic, {"content": [{"type": "text", "text": 5}]}),
        (gemini, {}),
        (gemini, {"candidates": None}),
        (gemini, {"candidates": []}),
        (gemini, {"candidates": [{}]}),
        (gemini, {"candidates": [5]}),
        (gemini, candidate("x")),
        (gemini, candidate({"functionCall": {"args": {}}})),
        (gemini, candidate({"functionCall": 5})),
        (openai_responses, {}),
        (openai_responses, {"choices": []}),
        (openai_responses, {"output": None, "status": "completed"}),
        (openai_responses, {"output": {}}),
        (openai_responses, {"output": [5]}),
    ],
)
def test_a_body_that_is_not_a_reply_of_its_format_is_malformed(wire, body):
    with pytest.raises(MalformedResponse, match=f"This is not a reply in the {wire.NAME} format"):
        wire.decode(body)


def test_an_error_with_status_200_has_the_class_of_its_code_and_keeps_the_status():
    with pytest.raises(InvalidRequest, match="HTTP 200, but 400 inside") as caught:
        openai.reader().read_event(IN_A_STREAM["vLLM's"])
    assert caught.value.status == 200
    with pytest.raises(ServerFailed):
        openai.reader().read_event(IN_A_STREAM["OpenRouter's"])


def test_an_empty_finish_reason_does_not_complete_a_stream():
    with pytest.raises(StreamInterrupted):
        read_events(openai, chunk("", content="half"))


def test_a_whole_message_beside_an_empty_delta_is_not_duplicated():
    message = {"content": "x"}
    choices = [
        {"delta": {"content": "x"}, "message": message},
        {"delta": {}, "message": message, "finish_reason": "stop"},
    ]
    assert read_events(openai, *({"choices": [each]} for each in choices)).content == "x"


def test_a_token_count_that_a_later_chunk_omits_is_kept():
    first = {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}}
    last = {**candidate(finishReason="STOP"), "usageMetadata": {"promptTokenCount": 3}}
    assert read_events(gemini, first, last).usage == Usage(3, 4)
