"""Replies of model servers: the events of each format, their bytes, and how they are decoded."""

import json

from stage0_gateway.streaming.sse import SseReader
from stage0_gateway.wire import anthropic, gemini, openai, openai_responses

WIRES = (openai, anthropic, gemini, openai_responses)
WIRE_BY_NAME = {wire.NAME: wire for wire in WIRES}

END_MARK = "[DONE]"
"""The data of the last event in OpenAI's format."""


def event(data):
    """Return the bytes of an event; its data is a text, or a value that becomes JSON."""
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


# ---- one event of each format


def chunk(finish_reason=None, **delta):
    """Return a chunk in OpenAI's format."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def block(index, start, *deltas):
    """Return the events of one block in Anthropic's format."""
    place = {"index": index}
    return [
        {"type": "content_block_start", **place, "content_block": start},
        *({"type": "content_block_delta", **place, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", **place},
    ]


def candidate(*parts, **fields):
    """Return a chunk, or a whole reply, in Gemini's format."""
    return {"candidates": [{"content": {"parts": list(parts)}, **fields}]}


def item_event(kind, index, **fields):
    """Return an event about one item in OpenAI's Responses format."""
    return {"type": f"response.{kind}", "output_index": index, **fields}


# ---- replies in OpenAI's format


def completion(content="yes", finish_reason="stop", **fields):
    """Return a whole reply; the fields are those of its message."""
    message = {"content": content, **fields}
    return {"choices": [{"message": message, "finish_reason": finish_reason}]}


def text(content, finish_reason=None):
    """Return the bytes of an event with text."""
    return event(chunk(finish_reason, content=content))


STOP = text("", "stop")
DONE = event(END_MARK)


def failure(message="broken", **fields):
    """Return the body of an error."""
    return {"error": {"message": message, **fields}}


# ---- decoding


def read_events(wire, *events, names=None):
    """Return the reply of these events; `END_MARK` ends it."""
    return feed(wire.reader(names), *events).end()


def events_read(wire, *events):
    """Return the events that a reader adds to its reply while it reads these events."""
    reader = feed(wire.reader(), *events)
    reader.end()
    return reader.builder.events


def read_stream(wire, chunks):
    """Return the reply of a stream of bytes."""
    return read_events(wire, *(load(data) for data in events_of(chunks)))


def events_of(chunks):
    """Return the data of each event in chunks of bytes."""
    sse = SseReader()
    return [data for each in chunks for data in sse.feed(each)] + sse.close()


def load(data):
    """Return the value of an event's data."""
    return data if data == END_MARK else json.loads(data)


def feed(reader, *events):
    """Let a reader read events, and return the reader."""
    for each in events:
        if each == END_MARK:
            reader.complete = reader.over = True
        elif not reader.over:
            reader.read_event(each)
    return reader


def split(body, size):
    """Return a body in chunks of this size."""
    return [body[at : at + size] for at in range(0, len(body), size)]
