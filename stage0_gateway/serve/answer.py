"""`Answer`: what goes back to whoever sent a request, as a value: status, headers, and the bytes in order.

Knows neither sockets nor an HTTP library, so the same answer leaves over a port (`serve/tcp.py`) and inside
the process (`serve/in_process.py`), byte for byte. Made by the embedded and the scripted model, and spoiled
on purpose by `offline/broken_answer.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stage0_gateway.response import ChatResponse
from stage0_gateway.serve import ServerFormat

EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request.

    Attributes:
        status: The HTTP status; None where the line breaks before anything is said.
        chunks: The body: in one piece, or one piece for each event of a stream.
        content_type: What the body is.
        headers: Further headers.
        is_cut: Whether the line breaks after the last chunk, although more was to come.
    """

    status: int | None
    chunks: tuple[bytes, ...] = ()
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_cut: bool = False

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events, whose length is not told beforehand."""
        return self.content_type == EVENT_STREAM

    @property
    def body(self) -> bytes:
        """All of the body."""
        return b"".join(self.chunks)


def json_answer(status: int, value: Mapping[str, Any]) -> Answer:
    """A JSON value as an answer; plain ASCII, so that half of a surrogate pair in a text breaks nothing."""
    return Answer(status, (json.dumps(value).encode("ascii"),))


def reply_answer(form: ServerFormat, reply: ChatResponse, *, stream: bool, piece: int = 8) -> Answer:
    """A reply in a format, whole or as a stream.

    Args:
        form: The format.
        reply: The reply.
        stream: Whether the client asked for a stream.
        piece: The most letters in one event.
    """
    if not stream:
        return json_answer(200, form.encode_reply(reply))
    # What UTF-8 cannot hold becomes \ud83d, which is how JSON writes it.
    events = (event.encode(errors="backslashreplace") for event in form.encode_stream(reply, piece=piece))
    return Answer(200, tuple(events), EVENT_STREAM, {"Cache-Control": "no-cache"})
