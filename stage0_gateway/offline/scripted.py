"""`ScriptedModel`: a transport that replays given replies over the real wire format.

It is the replaceable model for tests, docs and lessons. It decodes the gateway's request and
encodes the next reply of the script in the same format, whole or as a stream. Only the network is
omitted. A request after the last reply fails the test. Closing the model with remaining replies
fails it, too.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any

import httpx

from stage0_gateway.http.redaction import Secret
from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server.answer import json_answer, reply_answer
from stage0_gateway.server.in_process import as_response

ScriptedReply = str | Message | ChatResponse | int | Exception
"""A reply of a `ScriptedModel`: a text, a message, a response, an HTTP status, or an exception."""


class ScriptError(AssertionError):
    """The requests do not match the script."""


class ScriptedModel(httpx.AsyncBaseTransport):
    """Answers the n-th request with the n-th reply, in the format of the request.

    Args:
        replies: Each is a text; a `Message` (with tool calls, thinking …); a `ChatResponse`, for a
            finish reason or usage; the HTTP status of an error; or an exception of the network
            (`httpx.ConnectError("…")`).
        piece: The maximum number of characters in one event of a stream.

    Attributes:
        requests: The decoded requests so far. Fields of a single provider are in `bodies` only.
        bodies: The JSON bodies of these requests, as they were sent.
    """

    def __init__(self, replies: Iterable[ScriptedReply], *, piece: int = 8) -> None:
        self.requests: list[ChatRequest] = []
        self.bodies: list[dict[str, Any]] = []
        if isinstance(replies, str) or not isinstance(replies, Iterable):
            raise TypeError(f"replies must be a list such as ['Hello.'], not {replies!r:.80}.")
        self._replies = list(replies)
        for reply in self._replies:
            if not isinstance(reply, ScriptedReply):
                raise TypeError(
                    "A reply is a text, a Message, a ChatResponse, the HTTP status of an error, or "
                    f"an exception, not {reply!r:.80}."
                )
        self._piece = piece

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the next reply."""
        # Imported with the first request: programs with a real model never need it.
        from stage0_gateway.server.routing import format_of, wants_stream

        path = Secret(request.url.raw_path.decode("ascii"))  # its query may contain a key
        form = format_of(path)
        if form is None:
            raise ScriptError(f"{request.url.path} is not the path of a wire format.")
        body = json.loads(await request.aread())
        self.requests.append(form.decode_request(body, path))
        self.bodies.append(body)
        number = len(self.requests)
        if number > len(self._replies):
            raise ScriptError(self._too_many_requests(number))
        reply = self._replies[number - 1]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, int):
            error = form.encode_error(reply, f"scripted failure {reply}")
            return as_response(json_answer(reply, error))
        response, stream = _response(reply, number), wants_stream(path, body)
        return as_response(reply_answer(form, response, stream=stream, piece=self._piece))

    def _too_many_requests(self, number: int) -> str:
        text = f"The script ends after reply {len(self._replies)}; this is request {number}."
        if not (messages := self.requests[-1].messages):
            return text
        return f"{text} Its last message is of the {messages[-1].role}: {messages[-1].text!r:.300}"

    def assert_finished(self) -> None:
        """Raise if replies remain.

        Raises:
            ScriptError: Replies remain. The text shows them.
        """
        if remaining := self._replies[len(self.requests) :]:
            raise ScriptError(f"These scripted replies were never requested: {remaining!r:.300}.")

    async def aclose(self) -> None:
        """Raise if replies remain. The gateway calls this when it is closed."""
        if sys.exc_info()[0] is None:  # an error in the block is more important
            self.assert_finished()


def _response(reply: str | Message | ChatResponse, number: int) -> ChatResponse:
    if isinstance(reply, ChatResponse):
        return reply
    message = Message.assistant(reply) if isinstance(reply, str) else reply
    request_id = f"scripted-{number}"
    return ChatResponse(message, usage=Usage(10, 5), model="scripted", request_id=request_id)
