"""What the tests of all rooms need: a stream as the client reads it, and what real clients sent."""

import json
from dataclasses import replace

import pytest

from stage0_gateway.messages import as_content
from stage0_gateway.parts import ProviderPart, TextPart
from stage0_gateway.streaming.sse import SseReader


@pytest.fixture(scope="session")
def heard():
    """`heard(wire, events, most)` reads events out of their bytes, a few bytes at a time."""

    def hear(wire, events, most):
        sse, reader = SseReader(), wire.reader()
        said = "".join(events).encode(errors="backslashreplace")
        for start in range(0, len(said), most):
            for data in sse.feed(said[start : start + most]):
                if data != "[DONE]":
                    reader.read_event(json.loads(data))
        return reader.end()

    return hear


@pytest.fixture(scope="session")
def plain():
    """`plain(request)` leaves out what only one provider understands, which a server does not
    read."""

    def without_data(part):
        return part if isinstance(part, ProviderPart) else replace(part, provider_data=None)

    def of_message(message):
        content = message.content
        parts = (TextPart(content),) if isinstance(content, str) else content
        calls = tuple(map(without_data, message.tool_calls))
        return replace(message, content=as_content(map(without_data, parts)), tool_calls=calls)

    def of_request(request):
        messages = tuple(map(of_message, request.messages))
        return replace(request, messages=messages, provider_options=None)

    return of_request


@pytest.fixture(scope="session")
def asked_for_real(recorded):
    """`asked_for_real(name)` gives path and body of each recorded request in a format."""

    def requests(name):
        rows = (row["request"] for row in recorded("wire.jsonl")[0] if row["provider"] == name)
        return [(asked["path"], asked["body"]) for asked in rows if asked["path"] and asked["body"]]

    return requests
