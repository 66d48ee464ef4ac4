"""`ScriptedModel`: a transport that replays given replies over the real wire, whole or as a stream.

The replaceable model for tests, docs and lessons. It decodes the gateway's request and encodes the
next reply of the script in the same format; only the network is skipped. A request after the last
reply fails the test, and so does closing the model with replies left over.
"""

import json
import sys
from collections.abc import Iterable

import httpx

from stage0_gateway.http.redaction import Secret
from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server.answer import json_answer, reply_answer
from stage0_gateway.server.in_process import as_response

Reply = str | Message | ChatResponse | int | Exception


class ScriptError(AssertionError):
    """The requests do not match the script."""


class ScriptedModel(httpx.AsyncBaseTransport):
    """Answers the n-th request with the n-th reply, in the format of the request.

    Args:
        replies: Text; a `Message` (with tool calls, thinking …); a `ChatResponse`, where finish
            reason or usage matter; an HTTP status to fail with; or an exception to raise as the
            network would (`httpx.ConnectError("…")`).
        piece: The maximum number of characters in one event of a stream.

    Attributes:
        requests: The decoded requests so far.
    """

    def __init__(self, replies: Iterable[Reply], *, piece: int = 8) -> None:
        self.requests: list[ChatRequest] = []
        self._replies = list(replies)
        self._piece = piece

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Play the next reply."""
        # Imported with the first request, because programs that use a real model never need it.
        from stage0_gateway.server.routing import format_of

        path = Secret(request.url.raw_path.decode("ascii"))  # its query may hold a key
        form = format_of(path)
        if form is None:
            raise ScriptError(f"{request.url.path} is not a path at which a model replies.")
        body = json.loads(await request.aread())
        self.requests.append(form.decode_request(body, path))
        reply = self._next()
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, int):
            return as_response(
                json_answer(reply, form.encode_error(reply, f"scripted failure {reply}"))
            )
        stream = form.wants_stream(path, body)
        return as_response(
            reply_answer(
                form, _response(reply, len(self.requests)), stream=stream, piece=self._piece
            )
        )

    def _next(self) -> Reply:
        number = len(self.requests)
        if number > len(self._replies):
            raise ScriptError(
                f"The script ends after reply {len(self._replies)}; this is request {number}."
            )
        return self._replies[number - 1]

    def assert_finished(self) -> None:
        """Fail if replies are left over.

        Raises:
            ScriptError: Names the replies that were not requested.
        """
        left = self._replies[len(self.requests) :]
        if left:
            raise ScriptError(f"Never asked for, of the scripted replies: {left!r:.300}.")

    async def aclose(self) -> None:
        """Fail if replies are left over. The gateway calls this when it is closed."""
        if (
            sys.exc_info()[0] is None
        ):  # an error on its way out says more than the replies it left over
            self.assert_finished()


def _response(reply: str | Message | ChatResponse, number: int) -> ChatResponse:
    if isinstance(reply, ChatResponse):
        return reply
    message = Message.assistant(reply) if isinstance(reply, str) else reply
    return ChatResponse(
        message, usage=Usage(10, 5), model="scripted", request_id=f"scripted-{number}"
    )
