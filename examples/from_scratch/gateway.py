"""Gateway: send messages to a model, and return its reply.

A message is a dictionary in OpenAI's format, which many servers understand. The gateway converts
messages to a request and the answer to a `Reply`. It knows neither conversations nor tools.

Steps:
  1. Encode: messages and tools become the body of a request.
  2. Decode: the body of an answer becomes a `Reply`.
  3. Post: one request over HTTP; every failure is a `ModelError`.
  4. Retry: failures that may pass are tried again.
  5. Stream: pieces of text while the reply arrives; a broken stream is an error.

Covered: tool calls, errors in a body with status 200, calls without an id, retries that wait as
long as the server demands, and streams that break, contain an error or end too early.

Not covered: the formats of Anthropic and Gemini, images, token usage, prices, other models after a
failure, limits on concurrent requests, retries of streams, and recordings.

The complete stage: ../../stage0_gateway/gateway.py, with wire/ (steps 1 and 2), http/ (step 3),
retry.py (step 4) and streaming/ (step 5).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

Message = dict[str, Any]


@dataclass
class Reply:
    """The reply of a model.

    Attributes:
        message: The assistant's message; it may contain `tool_calls`.
        finish_reason: Why the model stopped. Only "stop" and "tool_calls" mean that the reply is
            complete; "length" means that it was cut off.
    """

    message: Message
    finish_reason: str


class ModelError(Exception):
    """The model could not be asked, or its answer is unusable.

    Attributes:
        is_temporary: Whether the same request may succeed later.
        wait: The seconds to wait before the next attempt, if the server states them.
    """

    def __init__(self, text: str, is_temporary: bool = False, wait: float | None = None) -> None:
        super().__init__(text)
        self.is_temporary = is_temporary
        self.wait = wait


# ---- Step 1: Encode


def encode(
    model: str, messages: Sequence[Message], tools: Sequence[Any] = (), stream: bool = False
) -> dict[str, Any]:
    """Return the body of a request. A tool has a name, a description and parameters."""
    body: dict[str, Any] = {"model": model, "messages": list(messages), "stream": stream}
    if tools:  # some servers refuse an empty list
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
    return body


# ---- Step 2: Decode

FINISH_REASONS = {"function_call": "tool_calls", "end_turn": "stop", "max_tokens": "length"}
"""Words of some servers, and the usual words for the same reasons."""


def decode(body: Any) -> Reply:
    """Return the reply in the body of an answer."""
    try:
        choice = body["choices"][0]
        message: Message = {"role": "assistant", "content": choice["message"].get("content") or ""}
        calls = [
            decode_call(call, position)
            for position, call in enumerate(choice["message"].get("tool_calls") or [])
        ]
        reason = (choice.get("finish_reason") or "stop").lower()
    except (KeyError, IndexError, TypeError, AttributeError):
        # Some servers report an error with status 200. It has no choices.
        raise ModelError(f"The answer is not a chat completion: {str(body)[:200]}") from None
    if calls:
        message["tool_calls"] = calls
    return Reply(message, FINISH_REASONS.get(reason, reason))


def decode_call(call: dict[str, Any], position: int) -> dict[str, Any]:
    """Return a call with an id and arguments as text; some servers send neither."""
    name, arguments = call["function"]["name"], call["function"].get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return {
        "id": call.get("id") or f"call_{position}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


class Gateway:
    """The connection to one model on one server.

    Args:
        base_url: The address of the server, such as `https://api.openai.com/v1`.
        model: The name of the model.
        key: The API key, if the server needs one.
        transport: What carries the requests; None is the network.
        attempts: How often a request is sent at most.
        wait: The seconds before the second attempt; they double with each attempt.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
        attempts: int = 3,
        wait: float = 1.0,
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.client = httpx.AsyncClient(
            base_url=base_url, headers=headers, transport=transport, timeout=60
        )
        self.model = model
        self.attempts = attempts
        self.wait = wait

    # ---- Step 3: Post

    async def post(self, body: dict[str, Any]) -> Reply:
        """Send one request and return its reply."""
        try:
            response = await self.client.post("chat/completions", json=body)
            check_status(response)
            return decode(response.json())
        except httpx.TransportError as error:
            raise ModelError(f"No answer from the server: {error!r}", is_temporary=True) from error
        except ValueError as error:
            raise ModelError(f"The answer is not JSON: {error}", is_temporary=True) from error

    # ---- Step 4: Retry

    async def chat(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> Reply:
        """Return the reply to messages, and retry if the failure may pass."""
        body = encode(self.model, messages, tools)
        for attempt in range(1, self.attempts):
            try:
                return await self.post(body)
            except ModelError as error:
                if not error.is_temporary:
                    raise
                doubled = self.wait * 2 ** (attempt - 1)
                await asyncio.sleep(doubled if error.wait is None else error.wait)
        return await self.post(body)

    # ---- Step 5: Stream

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Any] = ()
    ) -> AsyncIterator[str | Reply]:
        """Yield pieces of text, and at the end the whole `Reply`."""
        body = encode(self.model, messages, tools, stream=True)
        text, reason = "", None
        calls: dict[int, dict[str, Any]] = {}
        try:
            async with self.client.stream("POST", "chat/completions", json=body) as response:
                if response.is_error:
                    await response.aread()
                check_status(response)
                async for choice in choices(response):
                    delta = choice.get("delta") or {}
                    if piece := delta.get("content"):
                        text += piece
                        yield piece
                    add_calls(calls, delta)
                    reason = choice.get("finish_reason") or reason
        except (httpx.TransportError, ValueError, LookupError, AttributeError, TypeError) as error:
            raise ModelError(f"The stream is broken: {error!r}") from error
        if reason is None:  # without this check, half a reply would count as a reply
            raise ModelError("The stream ended before the reply was complete.")
        message = {"content": text, "tool_calls": [calls[index] for index in sorted(calls)]}
        yield decode({"choices": [{"message": message, "finish_reason": reason}]})


def check_status(response: httpx.Response) -> None:
    """Raise an error if the server refused the request."""
    if response.is_success:
        return
    wait = response.headers.get("retry-after", "")
    raise ModelError(
        f"HTTP {response.status_code}: {response.text[:200]}",
        is_temporary=response.status_code in (408, 409, 429) or response.status_code >= 500,
        wait=float(wait) if wait.isdecimal() else None,
    )


async def choices(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield each change of the reply: the JSON behind `data:`."""
    rest = ""
    async for piece in response.aiter_text():
        *lines, rest = (rest + piece).split("\n")  # a piece may end inside a line
        for line in lines:
            data = line.removeprefix("data:").strip()
            if data == line.strip() or data == "[DONE]":  # a comment, an empty line, or the end
                continue
            chunk = json.loads(data)
            if chunk.get("error"):
                raise ModelError(f"The server reports an error: {chunk['error']}")
            for choice in chunk.get("choices") or []:
                yield choice


def add_calls(calls: dict[int, dict[str, Any]], delta: dict[str, Any]) -> None:
    """Add the pieces of tool calls; several calls may arrive in turns."""
    for piece in delta.get("tool_calls") or []:
        index = piece.get("index", len(calls))
        new = {"id": "", "function": {"name": "", "arguments": ""}}
        call = calls.setdefault(index, new)
        function = piece.get("function") or {}
        call["id"] = call["id"] or piece.get("id")
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""
