"""`ScriptedModel`: a transport that replays given replies over the real wire.

The replaceable model for tests, docs and lessons. The gateway encodes a request, this decodes it again,
encodes the next reply of the script, and the gateway decodes that: nothing is skipped but the network. A
script that is asked once too often, or that is closed with replies left over, fails the test.
"""

import json
import sys
from collections.abc import Iterable

import httpx

from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse
from stage0_gateway.serve import openai
from stage0_gateway.usage import Usage

Reply = str | Message | int | Exception


class ScriptError(AssertionError):
    """The conversation and the script do not fit each other."""


class ScriptedModel(httpx.AsyncBaseTransport):
    """Answers the n-th request with the n-th reply.

    Args:
        replies: Text; a `Message` (with tool calls, thinking …); an HTTP status to fail with; or an exception
            to raise as the network would (`httpx.ConnectError("…")`).

    Attributes:
        requests: The requests so far, decoded.
    """

    def __init__(self, replies: Iterable[Reply]) -> None:
        self.requests: list[ChatRequest] = []
        self._replies = list(replies)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Play the next reply."""
        self.requests.append(openai.decode_request(json.loads(await request.aread())))
        number = len(self.requests)
        if number > len(self._replies):
            raise ScriptError(f"The script ends after reply {len(self._replies)}; this is request {number}.")
        reply = self._replies[number - 1]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, int):
            return httpx.Response(reply, json=openai.encode_error(reply, f"scripted failure {reply}"))
        return httpx.Response(200, json=openai.encode_reply(_response(reply, number)))

    def assert_finished(self) -> None:
        """Fail if replies are left over.

        Raises:
            ScriptError: Naming the first reply that nobody asked for.
        """
        left = self._replies[len(self.requests) :]
        if left:
            raise ScriptError(f"Never asked for, of the scripted replies: {left!r:.300}.")

    async def aclose(self) -> None:
        """Closed by the gateway; fails if replies are left over."""
        if sys.exc_info()[0] is None:  # an error on its way out says more than the replies it left over
            self.assert_finished()


def _response(reply: str | Message, number: int) -> ChatResponse:
    message = Message.assistant(reply) if isinstance(reply, str) else reply
    return ChatResponse(message, usage=Usage(10, 5), model="scripted", request_id=f"scripted-{number}")
