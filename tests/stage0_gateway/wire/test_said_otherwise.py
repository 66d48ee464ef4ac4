"""What some servers say in words of their own: errors that are not under `error`, other finish
reasons."""

import pytest

from stage0_gateway.errors import GatewayError, InvalidRequest, ServerFailed, StreamInterrupted
from stage0_gateway.response import Usage
from stage0_gateway.wire import anthropic, gemini, openai

CALL = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
IN_A_STREAM = {
    "vLLM's": {"object": "error", "message": "boom", "code": 400},
    "Groq's": {"choices": [], "x_groq": {"error": "boom"}},
    "OpenRouter's": {"choices": [{"delta": {}, "error": {"code": 502, "message": "boom"}}]},
    "a message alone": {"message": "boom", "code": 500},
    "a detail alone": {"detail": "boom"},
}


@pytest.mark.parametrize("event", IN_A_STREAM.values(), ids=IN_A_STREAM)
def test_an_error_in_any_shape_is_raised_with_its_words(event):
    reader = openai.reader()
    reader.read_event({"choices": [{"delta": {"content": "half of"}}]})
    with pytest.raises(GatewayError, match="boom"):
        reader.read_event(event)


@pytest.mark.parametrize("wire", [openai, anthropic, gemini])
@pytest.mark.parametrize(
    "body", [{"detail": "boom"}, {"message": "boom"}, {"error": {"message": "boom"}}]
)
def test_an_error_that_came_as_if_all_were_well_is_told(wire, body):
    with pytest.raises(GatewayError, match="boom"):
        wire.reader().decode_whole(body)
    with pytest.raises(GatewayError, match="boom"):
        wire.reader().read_event(body)


def test_such_an_error_is_of_the_kind_it_should_have_been_and_keeps_the_status_it_had():
    with pytest.raises(InvalidRequest, match="HTTP 200, but 400 inside") as caught:
        openai.reader().read_event(IN_A_STREAM["vLLM's"])
    assert caught.value.status == 200
    with pytest.raises(ServerFailed):
        openai.reader().read_event(IN_A_STREAM["OpenRouter's"])


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("model_length", "length"),
        ("max_tokens", "length"),
        ("abort", "error"),
        ("end_turn", "tool_calls"),
    ],
)
def test_a_cut_reply_is_one_whatever_the_server_calls_it(said, meant):
    body = {"choices": [{"message": {"tool_calls": [CALL]}, "finish_reason": said}]}
    assert openai.decode(body).finish_reason == meant


def test_an_empty_finish_reason_is_none_and_does_not_complete_a_stream():
    reader = openai.reader()
    reader.read_event({"choices": [{"delta": {"content": "half"}, "finish_reason": ""}]})
    with pytest.raises(StreamInterrupted):
        reader.end()


def test_a_whole_message_beside_an_empty_delta_is_not_said_twice():
    reader = openai.reader()
    reader.read_event({"choices": [{"delta": {"content": "x"}, "message": {"content": "x"}}]})
    reader.read_event(
        {"choices": [{"delta": {}, "message": {"content": "x"}, "finish_reason": "stop"}]}
    )
    assert reader.end().content == "x"


def test_a_count_that_a_later_chunk_leaves_out_stays():
    reader = gemini.reader()
    reader.read_event({"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}})
    reader.read_event(
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3}}
    )
    assert reader.end().usage == Usage(3, 4)
