"""What the tests of all rooms need: a stream as the client reads it, and what real clients sent."""

import json

import pytest

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
def asked_for_real(recorded):
    """`asked_for_real(name)` gives path and body of each recorded request in a format."""

    def requests(name):
        rows = (row["request"] for row in recorded("wire.jsonl")[0] if row["provider"] == name)
        return [(asked["path"], asked["body"]) for asked in rows if asked["path"] and asked["body"]]

    return requests
