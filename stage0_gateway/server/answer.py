"""`Answer`: an HTTP response as a value: status, headers and the chunks of its body.

This module knows neither sockets nor an HTTP library, so a server on a port and a transport in the
process send the same bytes. The models of `offline/` create answers, and `offline/faults.py`
changes them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stage0_gateway.response import ChatResponse
from stage0_gateway.server.format import ServerFormat

EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to one request.

    Attributes:
        status: The HTTP status.
        chunks: The body: one chunk, or one chunk for each event of a stream.
        content_type: The media type of the body.
        is_cut: Whether the connection breaks before the end of the body.
    """

    status: int
    chunks: tuple[bytes, ...] = ()
    content_type: str = "application/json"
    is_cut: bool = False

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""
        return self.content_type == EVENT_STREAM

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.chunks)


def json_answer(status: int, value: Mapping[str, Any]) -> Answer:
    """Return an answer with a JSON value. ASCII can represent half of a surrogate pair."""
    return Answer(status, (json.dumps(value).encode("ascii"),))


def reply_answer(
    form: ServerFormat, reply: ChatResponse, *, stream: bool, piece: int = 8
) -> Answer:
    """Return an answer with a whole or streamed reply.

    Args:
        form: The format.
        reply: The reply.
        stream: Whether the reply is streamed.
        piece: The maximum number of characters in one event.
    """
    if not stream:
        return json_answer(200, form.encode_reply(reply))
    # Half of a surrogate pair becomes \ud83d, as in JSON.
    events = form.encode_stream(reply, piece=piece)
    chunks = tuple(event.encode(errors="backslashreplace") for event in events)
    return Answer(200, chunks, EVENT_STREAM)
