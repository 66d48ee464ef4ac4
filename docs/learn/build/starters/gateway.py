"""Gateway: send messages to a model, and return its reply.

A message is a dictionary in OpenAI's format, which many servers understand. The gateway converts
messages to a request and the answer to a `Reply`. It knows neither conversations nor tools.

Steps:
  1. Encode: messages and tools become the body of a request.
  2. Decode: the body of an answer becomes a `Reply`.
  3. Post: one request over HTTP; every failure is a `ModelError`.
  4. Retry: failures that may pass are tried again.
  5. Stream: pieces of text while the reply arrives; a broken stream is an error.

Write the functions whose body is `...`. A function that is not written yet is built in, so you may
start with any step. Other functions and constants are up to you.

The page: docs/learn/build/0-gateway.md
The check: make grade FILE=my_gateway.py
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

Message = dict[str, Any]


class Reply(NamedTuple):
    """The reply of a model.

    Attributes:
        message: The assistant's message; it may contain `tool_calls`.
        finish_reason: Why the model stopped. Only "stop" and "tool_calls" mean that the reply is
            complete; "length" means that it was cut off.
    """

    message: Message
    finish_reason: str


Stream = AsyncIterator[str | Reply]
"""Pieces of text, and at the end the whole `Reply`."""


class ModelError(Exception):
    """The model could not be asked, or its answer is unusable."""


class TemporaryError(ModelError):
    """The same request may succeed later."""


# ---- Step 1: Encode


def encode(model: str, messages: Sequence[Message], tools: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the body of a request. A tool has a name, a description and parameters."""
    ...


# ---- Step 2: Decode

FINISH_REASONS = {"function_call": "tool_calls", "end_turn": "stop", "max_tokens": "length"}
"""Words of some servers, and the usual words for the same reasons."""


def decode(body: Any) -> Reply:
    """Return the reply in the body of an answer.

    Raises:
        ModelError: The body is not a chat completion.
    """
    ...


# ---- Step 3: Post


@dataclass
class Gateway:
    """The connection to one model.

    Attributes:
        client: The connections to the server, with its address and the API key.
        model: The name of the model.
        wait: The seconds before the second attempt; before the third one, they double.
    """

    client: httpx.AsyncClient
    model: str
    wait: float = 1.0

    async def post(self, body: dict[str, Any]) -> Reply:
        """Send one request to `chat/completions`, and return its reply.

        Raises:
            TemporaryError: The connection broke, or the status means that the failure may pass.
            ModelError: The server refused the request, or its answer is not a chat completion.
        """
        ...

    # ---- Step 4: Retry

    async def chat(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> Reply:
        """Return the reply to messages, after three attempts at most.

        Raises:
            ModelError: The last attempt failed, or a failure cannot pass.
        """
        ...

    # ---- Step 5: Stream

    async def stream(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> Stream:
        """Yield pieces of text while they arrive, and at the end the whole `Reply`.

        Raises:
            ModelError: The server refused the request, or the stream broke or ended too early.
        """
        ...
