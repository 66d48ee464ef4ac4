"""Streams whose connection breaks: the reply is complete, or an error reports that it is not.

A server may send text, arguments and token counts after the finish reason. So a finish reason alone
does not make a reply complete: the end marker of the format does, or the proper end of the HTTP
body.
"""

import asyncio
import json
import socket
import struct
from contextlib import suppress

import httpx
import pytest

from stage0_gateway import (
    Gateway,
    GatewayError,
    Message,
    RequestTimeout,
    StreamInterrupted,
    Timeouts,
)
from tests.tables import for_each

ASK = [Message.user("hi")]


def event(value):
    return f"data: {json.dumps(value)}\n\n".encode()


def chunk(finish_reason=None, **delta):
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def arguments(text):
    return {"index": 0, "id": "c", "function": {"name": "delete", "arguments": text}}


def candidate(*parts, **more):
    return event({"candidates": [{"content": {"parts": list(parts)}, **more}]})


DONE = b"data: [DONE]\n\n"
OPENAI_TEXT = [
    chunk(content="Do NOT "),
    chunk("stop", content="press "),
    chunk(content="it."),
    DONE,
]
OPENAI_CALL = [
    chunk(content="Deleting."),
    chunk("tool_calls", tool_calls=[arguments("")]),
    chunk(tool_calls=[arguments('{"only": "tmp"}')]),
    DONE,
]
ANTHROPIC = [
    event(
        {
            "type": "message_start",
            "message": {"id": "r", "model": "m", "usage": {"input_tokens": 3}},
        }
    ),
    event(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    ),
    event(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Deleting."},
        }
    ),
    event({"type": "content_block_stop", "index": 0}),
    event(
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "c", "name": "delete", "input": {}},
        }
    ),
    event(
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"only": "tmp"}'},
        }
    ),
    event({"type": "content_block_stop", "index": 1}),
    event(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 7},
        }
    ),
    event({"type": "message_stop"}),
]
GEMINI = [
    candidate({"text": "Do NOT "}),
    candidate({"text": "press "}, finishReason="STOP"),
    candidate({"text": "it."}, {"functionCall": {"name": "delete", "args": {"only": "tmp"}}}),
]
CALL_ITEM = {"type": "function_call", "id": "c", "call_id": "c", "name": "delete"}
RESPONSES = [
    event({"type": "response.output_text.delta", "output_index": 0, "delta": "Do NOT press it."}),
    event(
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**CALL_ITEM, "arguments": ""},
        }
    ),
    event(
        {
            "type": "response.function_call_arguments.delta",
            "output_index": 1,
            "delta": '{"only": "tmp"}',
        }
    ),
    event({"type": "response.completed", "response": {"status": "completed", "output": []}}),
]
STREAMS = {
    "OpenAI text": ("openai:m", OPENAI_TEXT),
    "OpenAI call": ("openai:m", OPENAI_CALL),
    "Anthropic": ("anthropic:m", ANTHROPIC),
    "Gemini": ("gemini:m", GEMINI),
    "Responses": ("openai-responses:m", RESPONSES),
}
EACH = pytest.mark.parametrize(("model", "events"), STREAMS.values(), ids=STREAMS)


def as_chunk(body):
    return b"%x\r\n%b\r\n" % (len(body), body)


async def reply_over_tcp(model, network, body, *, ending, framing="chunked", timeouts=None):
    """Return the reply or the error, after a server sends this part of a stream and ends the connection."""

    closed = asyncio.Event()

    async def answer(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        header = b"Transfer-Encoding: chunked" if framing == "chunked" else b"Connection: close"
        pieces = map(as_chunk, body) if framing == "chunked" else body
        last = b"0\r\n\r\n" if framing == "chunked" and ending == "proper end" else b""
        writer.write(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n" + b"".join(pieces) + last)
        await writer.drain()
        if ending == "silence":
            await reader.read()
        if ending == "reset":
            for _ in range(20):  # a reset that arrives with the data may overtake it
                await asyncio.sleep(0)  # the client reads, in the same event loop
            option = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
            writer.transport.abort()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        closed.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    options = {"transport": network(), "max_retries": 0, "timeout": timeouts}
    async with server:
        try:
            async with Gateway(model, api_key="sk-1", base_url=url, **options) as gateway:
                return await gateway.stream(ASK).final_message()
        except GatewayError as error:
            return error
        finally:
            await closed.wait()


@EACH
@for_each("ending", ["reset", "no last chunk"])
async def test_a_connection_that_breaks_before_the_end_marker_interrupts_the_reply(
    model, events, network, ending
):
    complete = await reply_over_tcp(model, network, events, ending="proper end")
    for sent in range(len(events) - 2, len(events) + 1):
        reply = await reply_over_tcp(model, network, events[:sent], ending=ending)
        if sent == len(events) and model != "gemini:m":  # Gemini's format has no end marker
            assert reply == complete
        else:
            assert type(reply) is StreamInterrupted


@EACH
async def test_a_reset_of_a_body_that_only_the_connection_ends_interrupts_the_reply(
    model, events, network
):
    reply = await reply_over_tcp(model, network, events[:-1], ending="reset", framing="close")
    assert type(reply) is StreamInterrupted


@EACH
@for_each("framing", ["chunked", "close"])
async def test_a_body_that_ends_properly_needs_no_end_marker(model, events, network, framing):
    expected = await reply_over_tcp(model, network, events, ending="proper end")
    if model == "openai-responses:m":  # its end marker contains the status and the token counts
        reply = await reply_over_tcp(model, network, events[:-1], ending="proper end")
        assert type(reply) is StreamInterrupted
    elif model != "gemini:m":
        events = events[:-1]
    reply = await reply_over_tcp(model, network, events, ending="proper end", framing=framing)
    assert reply == expected


async def test_a_server_that_stops_sending_before_the_end_marker_is_a_timeout(network):
    timeouts = Timeouts(read=0.02)
    reply = await reply_over_tcp(
        "openai:m", network, OPENAI_TEXT[:2], ending="silence", timeouts=timeouts
    )
    assert type(reply) is RequestTimeout


@pytest.mark.parametrize(
    "finished_last", ["openai:m", "anthropic:m", "gemini:m", "openai-responses:m"]
)
async def test_a_body_cut_at_any_byte_gives_the_whole_message_or_an_error(finished_last):
    events = {
        "openai:m": [
            chunk(content="yes"),
            chunk(tool_calls=[arguments('{"x": 1}')]),
            chunk("stop"),
            DONE,
        ],
        "anthropic:m": ANTHROPIC,
        "gemini:m": [GEMINI[0], candidate({"text": "it."}, finishReason="STOP")],
        "openai-responses:m": RESPONSES,
    }[finished_last]
    body = b"".join(events)

    async def read(length):
        transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body[:length]))
        gateway = Gateway(finished_last, api_key="sk-1", transport=transport, max_retries=0)
        return await gateway.stream(ASK).final_message()

    complete = (await read(len(body))).message
    for length in range(len(body)):
        with suppress(StreamInterrupted):
            assert (await read(length)).message == complete
