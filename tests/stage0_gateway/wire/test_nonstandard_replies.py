"""Nonstandard output of some servers: errors outside `error`, and other finish reasons."""

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
from tests.tables import for_each

CALL = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
IN_A_STREAM = {
    "vLLM's": {"object": "error", "message": "boom", "code": 400},
    "Groq's": {"choices": [], "x_groq": {"error": "boom"}},
    "OpenRouter's": {"choices": [{"delta": {}, "error": {"code": 502, "message": "boom"}}]},
    "a message alone": {"message": "boom", "code": 500},
    "a detail alone": {"detail": "boom"},
}


@pytest.mark.parametrize("event", IN_A_STREAM.values(), ids=IN_A_STREAM)
def test_an_error_of_any_shape_in_a_stream_is_raised_with_its_message(event):
    reader = openai.reader()
    reader.read_event({"choices": [{"delta": {"content": "half of"}}]})
    with pytest.raises(GatewayError, match="boom"):
        reader.read_event(event)


@for_each("wire", [openai, anthropic, gemini, openai_responses])
@for_each("body", [{"detail": "boom"}, {"message": "boom"}, {"error": {"message": "boom"}}])
def test_an_error_with_status_200_is_raised(wire, body):
    with pytest.raises(GatewayError, match="boom"):
        wire.reader().decode_whole(body)
    with pytest.raises(GatewayError, match="boom"):
        wire.reader().read_event(body)


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (openai, {"choices": None}),
        (openai, {"choices": [{"message": None, "finish_reason": "stop"}]}),
        (anthropic, {"content": None, "stop_reason": "end_turn"}),
        (gemini, {"candidates": None}),
        (gemini, {"candidates": [{}]}),
        (openai_responses, {"output": None, "status": "completed"}),
    ],
)
def test_a_body_without_a_reply_is_not_an_empty_reply(wire, body):
    with pytest.raises(MalformedResponse, match="This is not a reply in the"):
        wire.decode(body)


def test_an_error_with_status_200_has_the_class_of_its_code_and_keeps_the_status():
    with pytest.raises(InvalidRequest, match="HTTP 200, but 400 inside") as caught:
        openai.reader().read_event(IN_A_STREAM["vLLM's"])
    assert caught.value.status == 200
    with pytest.raises(ServerFailed):
        openai.reader().read_event(IN_A_STREAM["OpenRouter's"])


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("model_length", "length"),
        ("max_tokens", "length"),
        ("abort", "error"),
        ("end_turn", "tool_calls"),
    ],
)
def test_nonstandard_finish_reasons_are_translated(raw, expected):
    body = {"choices": [{"message": {"tool_calls": [CALL]}, "finish_reason": raw}]}
    assert openai.decode(body).finish_reason == expected


def test_an_empty_finish_reason_does_not_complete_a_stream():
    reader = openai.reader()
    reader.read_event({"choices": [{"delta": {"content": "half"}, "finish_reason": ""}]})
    with pytest.raises(StreamInterrupted):
        reader.end()


def test_a_whole_message_beside_an_empty_delta_is_not_duplicated():
    reader = openai.reader()
    reader.read_event({"choices": [{"delta": {"content": "x"}, "message": {"content": "x"}}]})
    reader.read_event(
        {"choices": [{"delta": {}, "message": {"content": "x"}, "finish_reason": "stop"}]}
    )
    assert reader.end().content == "x"


def test_a_token_count_that_a_later_chunk_omits_is_kept():
    reader = gemini.reader()
    reader.read_event({"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}})
    reader.read_event(
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3}}
    )
    assert reader.end().usage == Usage(3, 4)
