"""Waits too little before the next attempt, or not at all.

Caught by: G-102
Seen in: DouglasdeMoura/chroncal#105 (retries kept a server overloaded)
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
    body: dict[str, Any] = {"model": model, "messages": list(messages)}
    if tools:  # some servers refuse an empty list
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
    return body


# ---- Step 2: Decode

FINISH_REASONS = {"function_call": "tool_calls", "end_turn": "stop", "max_tokens": "length"}
"""Words of some servers, and the usual words for the same reasons."""

MALFORMED = (LookupError, TypeError, AttributeError, ValueError)
"""What Python raises for an answer of an unexpected form."""


def decode(body: Any) -> Reply:
    """Return the reply in the body of an answer."""
    try:
        choice = body["choices"][0]
        content, calls = choice["message"].get("content"), choice["message"].get("tool_calls")
        message: Message = {"role": "assistant", "content": content or ""}
        if calls:
            message["tool_calls"] = [decode_call(call, at) for at, call in enumerate(calls)]
        reason = choice.get("finish_reason") or "stop"
    except MALFORMED:  # some servers report an error with status 200; it has no choices
        raise ModelError(f"The answer is not a chat completion: {body}") from None
    return Reply(message, FINISH_REASONS.get(reason, reason))


def decode_call(call: dict[str, Any], position: int) -> dict[str, Any]:
    """Return a call with an id, and with arguments as text; some servers send neither."""
    arguments = call["function"].get("arguments") or {}
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": call["function"]["name"], "arguments": text}
    return {"id": call.get("id") or f"call_{position}", "type": "function", "function": function}


# ---- Step 3: Post


async def check_status(response: httpx.Response) -> None:
    """Raise an error if the server refused the request."""
    if not response.is_success:
        await response.aread()
        may_pass = response.status_code in (408, 429) or response.status_code >= 500
        error = TemporaryError if may_pass else ModelError
        raise error(f"HTTP {response.status_code}: {response.text[:200]}")


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
        """Send one request, and return its reply."""
        try:
            response = await self.client.post("chat/completions", json=body)
            await check_status(response)
            return decode(response.json())
        except (httpx.TransportError, ValueError) as error:  # no answer, or it is not JSON
            raise TemporaryError(f"No usable answer from the server: {error!r}") from error

    # ---- Step 4: Retry

    async def chat(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> Reply:
        """Return the reply to messages, after three attempts at most."""
        body = encode(self.model, messages, tools)
        for _ in range(2):
            try:
                return await self.post(body)
            except TemporaryError:
                await asyncio.sleep(0)
        return await self.post(body)

    # ---- Step 5: Stream

    async def stream(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> Stream:
        """Yield pieces of text while they arrive, and at the end the whole `Reply`."""
        body = encode(self.model, messages, tools) | {"stream": True}
        content, calls, reason = "", dict[int, Any](), None
        try:
            async with self.client.stream("POST", "chat/completions", json=body) as response:
                await check_status(response)
                async for choice in choices(response):
                    delta = choice.get("delta") or {}
                    if text := delta.get("content"):
                        content += text
                        yield text
                    for piece in delta.get("tool_calls") or []:
                        add_piece(calls, piece)
                    reason = choice.get("finish_reason") or reason
        except (httpx.TransportError, *MALFORMED) as error:
            raise ModelError(f"The stream is broken: {error!r}") from error
        if reason is None:  # without this check, half a reply would count as a reply
            raise ModelError("The stream ended before the reply was complete.")
        message = {"content": content, "tool_calls": list(calls.values())}
        yield decode({"choices": [{"message": message, "finish_reason": reason}]})


async def choices(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield each change of the reply. It is JSON behind `data:`."""
    rest = ""
    async for text in response.aiter_text():
        *lines, rest = (rest + text).split("\n")  # a text may end inside a line
        for line in lines:
            data = line.removeprefix("data:").strip()
            if line.startswith("data:") and data != "[DONE]":
                chunk = json.loads(data)
                if "choices" not in chunk:
                    raise ModelError(f"The stream contains an error: {data}")
                for choice in chunk["choices"]:
                    yield choice


def add_piece(calls: dict[int, Any], piece: dict[str, Any]) -> None:
    """Add a piece to the call at its index: arguments grow; some servers repeat id and name."""
    empty = {"id": piece.get("id"), "function": {"name": "", "arguments": ""}}
    call = calls.setdefault(piece.get("index", len(calls)), empty)["function"]
    new = piece.get("function") or {}
    call["name"] = call["name"] or new.get("name")
    call["arguments"] += new.get("arguments") or ""
