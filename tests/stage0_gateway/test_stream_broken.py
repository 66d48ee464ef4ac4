"""Streams whose connection breaks: the reply is complete, or an error reports that it is not.

A server may send text, arguments and token counts after the finish reason. So a finish reason alone
does not make a reply complete: the end marker of the format does, or the proper end of the HTTP
body.
"""

import pytest

from stage0_gateway import (
    Gateway,
    GatewayError,
    RequestTimeout,
    StreamInterrupted,
    Timeouts,
)
from tests.stage0_gateway.replies import (
    DONE,
    STOP,
    block,
    candidate,
    chunk,
    event,
    item_event,
    text,
)
from tests.stage0_gateway.requests import MODELS, QUESTION
from tests.stage0_gateway.servers import CHUNKED, HEAD, Answers, Server, as_chunk, running
from tests.tables import for_each

ARGUMENTS = '{"only": "tmp"}'


def call_delta(arguments, finish_reason=None):
    call = {"index": 0, "id": "c", "function": {"name": "delete", "arguments": arguments}}
    return event(chunk(finish_reason, tool_calls=[call]))


OPENAI_TEXT = [text("Do NOT "), text("press ", "stop"), text("it."), DONE]
OPENAI_CALL = [
    text("Deleting."),
    call_delta("", "tool_calls"),
    call_delta(ARGUMENTS),
    DONE,
]
ANTHROPIC = [
    *map(
        event,
        [
            {
                "type": "message_start",
                "message": {"id": "r", "model": "m", "usage": {"input_tokens": 3}},
            },
            *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Deleting."}),
            *block(
                1,
                {"type": "tool_use", "id": "c", "name": "delete", "input": {}},
                {"type": "input_json_delta", "partial_json": ARGUMENTS},
            ),
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 7},
            },
            {"type": "message_stop"},
        ],
    )
]
GEMINI = [
    event(candidate({"text": "Do NOT "})),
    event(candidate({"text": "press "}, finishReason="STOP")),
    event(
        candidate({"text": "it."}, {"functionCall": {"name": "delete", "args": {"only": "tmp"}}})
    ),
]
CALL_ITEM = {"type": "function_call", "id": "c", "call_id": "c", "name": "delete"}
RESPONSES = [
    event(item_event("output_text.delta", 0, delta="Do NOT press it.")),
    event(item_event("output_item.added", 1, item={**CALL_ITEM, "arguments": ""})),
    event(item_event("function_call_arguments.delta", 1, delta=ARGUMENTS)),
    event({"type": "response.completed", "response": {"status": "completed", "output": []}}),
]
STREAMS = {
    "OpenAI text": ("openai:m", OPENAI_TEXT),
    "OpenAI call": ("openai:m", OPENAI_CALL),
    "Anthropic": ("anthropic:m", ANTHROPIC),
    "Gemini": ("gemini:m", GEMINI),
    "Responses": ("openai-responses:m", RESPONSES),
}
each_stream = for_each("model, events", STREAMS.values())


async def complete_reply(model, events):
    """Return the reply of a complete stream."""
    gateway = Gateway(model, transport=Answers(events), max_retries=0)
    return await gateway.stream(QUESTION).final_message()


async def outcome(model, network, events, *, then, ends=False, framing="chunked", timeouts=None):
    """Return the reply, or the error, after a server sends events and then leaves the connection.

    Args:
        model: Determines the format.
        network: The class of the transport.
        events: The bytes of the events.
        then: What the server does after them: see `Server`.
        ends: Whether the server sends the end of the chunks.
        framing: "chunked", or "close" for a body that only the connection ends.
        timeouts: Those of the gateway.
    """
    if framing == "chunked":
        response = CHUNKED + b"".join(map(as_chunk, [*events, b""] if ends else events))
    else:
        response = HEAD + b"connection: close\r\n\r\n" + b"".join(events)
    async with running(Server(response, then=then)) as url:
        options = {"base_url": url, "transport": network(), "max_retries": 0, "timeout": timeouts}
        async with Gateway(model, api_key="sk-1", **options) as gateway:
            try:
                return await gateway.stream(QUESTION).final_message()
            except GatewayError as error:
                return error


@each_stream
@for_each("then", ["resets", "closes"])
async def test_a_connection_that_breaks_before_the_end_marker_interrupts_the_reply(
    model, events, network, then
):
    complete = await complete_reply(model, events)
    for sent in range(len(events) - 2, len(events) + 1):
        reply = await outcome(model, network, events[:sent], then=then)
        if sent == len(events) and model != "gemini:m":  # Gemini's format has no end marker
            assert reply == complete
        else:
            assert type(reply) is StreamInterrupted


@each_stream
async def test_a_reset_of_a_body_that_only_the_connection_ends_interrupts_the_reply(
    model, events, network
):
    reply = await outcome(model, network, events[:-1], then="resets", framing="close")
    assert type(reply) is StreamInterrupted


@each_stream
@for_each("framing", ["chunked", "close"])
async def test_a_body_that_ends_properly_needs_no_end_marker(model, events, network, framing):
    end = {"then": "closes", "ends": True}
    expected = await complete_reply(model, events)
    assert await outcome(model, network, events, **end) == expected
    if model == "openai-responses:m":  # its end marker contains the status and the token counts
        reply = await outcome(model, network, events[:-1], **end)
        assert type(reply) is StreamInterrupted
    elif model != "gemini:m":
        events = events[:-1]
    assert await outcome(model, network, events, framing=framing, **end) == expected


async def test_a_server_that_stops_sending_before_the_end_marker_is_a_timeout(network):
    timeouts = Timeouts(read=0.02)
    reply = await outcome("openai:m", network, OPENAI_TEXT[:2], then="hangs", timeouts=timeouts)
    assert type(reply) is RequestTimeout


FINISHED_LAST = {
    "openai:m": [text("yes"), call_delta('{"x": 1}'), STOP, DONE],
    "anthropic:m": ANTHROPIC,
    "gemini:m": [GEMINI[0], event(candidate({"text": "it."}, finishReason="STOP"))],
    "openai-responses:m": RESPONSES,
}
"""Streams in which nothing follows the finish reason but the end marker."""


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
@for_each("model", MODELS)
async def test_a_body_cut_at_any_byte_gives_the_whole_message_or_an_error(model, step):
    body = b"".join(FINISHED_LAST[model])
    complete = (await complete_reply(model, [body])).message
    cuts = 0
    for length in range(0, len(body), step):
        try:
            assert (await complete_reply(model, [body[:length]])).message == complete
        except StreamInterrupted:
            cuts += 1
    assert cuts > len(body) / step / 2
