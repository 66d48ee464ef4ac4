"""Shared fixtures: read the events of a reply as the client does, and requests of real clients."""

import json
from dataclasses import replace

import pytest

from stage0_gateway.messages import as_content
from stage0_gateway.parts import ProviderPart, TextPart
from stage0_gateway.streaming.sse import SseReader


@pytest.fixture(scope="session")
def read_back():
    """`read_back(wire, events, size)` parses events from their bytes, in chunks of `size` bytes."""

    def read(wire, events, size):
        sse, reader = SseReader(), wire.reader()
        body = "".join(events).encode(errors="backslashreplace")
        for start in range(0, len(body), size):
            for data in sse.feed(body[start : start + size]):
                if data != "[DONE]":
                    reader.read_event(json.loads(data))
        return reader.end()

    return read


@pytest.fixture(scope="session")
def without_provider_data():
    """`without_provider_data(request)` removes the fields of a single provider, which a server
    ignores."""

    def strip_part(part):
        return part if isinstance(part, ProviderPart) else replace(part, provider_data=None)

    def strip_message(message):
        content = message.content
        parts = (TextPart(content),) if isinstance(content, str) else content
        calls = tuple(map(strip_part, message.tool_calls))
        return replace(message, content=as_content(map(strip_part, parts)), tool_calls=calls)

    def strip_request(request):
        messages = tuple(map(strip_message, request.messages))
        return replace(request, messages=messages, provider_options=None)

    return strip_request


@pytest.fixture(scope="session")
def recorded_requests(recorded):
    """`recorded_requests(name)` returns path and body of each recorded request in a format."""

    def requests(name):
        rows = (row["request"] for row in recorded("wire.jsonl")[0] if row["provider"] == name)
        return [
            (request["path"], request["body"])
            for request in rows
            if request["path"] and request["body"]
        ]

    return requests
