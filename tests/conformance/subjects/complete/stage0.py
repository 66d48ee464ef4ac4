"""The gateway of this project, as a subject.

The retries do not wait, except for a time that the server demands or a case asks for.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import httpx
import stamina

from stage0_gateway import (
    ChatRequest,
    ChatResponse,
    Gateway,
    GatewayError,
    GatewayEvent,
    Message,
    RetryEvent,
    ToolSpec,
)
from tests.conformance.surroundings import Failure


def encode(model: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
    """Return the body of a request."""
    wire = import_module(f"stage0_gateway.wire.{format}")
    request = ChatRequest(model, tuple(map(Message.from_dict, messages)), specs(tools))
    return wire.encode(request)


def decode(body: Any, format: str = "openai") -> Any:
    """Return the reply in the body of an answer."""
    wire = import_module(f"stage0_gateway.wire.{format}")
    try:
        return reply_fields(wire.decode(body))
    except GatewayError as error:
        raise failure(error) from error


async def chat(
    url: str, messages: Any, tools: Any = (), format: str = "openai", wait: float = 0
) -> Any:
    """Send messages to a server, and return its reply."""
    async with gateway(url, format, wait) as model:
        return reply_fields(await model.chat(messages, tools=specs(tools)))


async def stream(url: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
    """Send messages to a server, and return the pieces of text and the whole reply."""
    async with gateway(url, format) as model:
        reply = model.stream(messages, tools=specs(tools))
        texts = [event.delta async for event in reply.events("text")]
        return {"texts": texts, **reply_fields(await reply.final_message())}


@asynccontextmanager
async def gateway(url: str, format: str, wait: float = 0) -> AsyncIterator[Gateway]:
    """A gateway whose errors become failures.

    The waits of the gateway are not an option: the first one is at least half a second. If a case
    asks for waits, the first one is waited for, which is longer than all waits of the case.
    """

    def before_retry(event: GatewayEvent) -> None:
        if isinstance(event, RetryEvent):
            is_waiting = event.error.retry_after is not None or (wait and event.attempt == 1)
            stamina.set_testing(not is_waiting, attempts=100, cap=True)

    # The context restores the setting of the tests, which also changes during retries.
    with stamina.set_testing(True, attempts=100, cap=True):
        transport = httpx.AsyncHTTPTransport(verify=False)  # loading certificates takes 20 ms
        async with Gateway(
            f"{format}:m", base_url=url, transport=transport, on_event=before_retry
        ) as model:
            try:
                yield model
            except GatewayError as error:
                raise failure(error) from error


def specs(tools: Any) -> Sequence[ToolSpec]:
    return [ToolSpec(**tool) for tool in tools]


def failure(error: GatewayError) -> Failure:
    return Failure("temporary" if error.retryable else "permanent", str(error))


def reply_fields(reply: ChatResponse) -> dict[str, Any]:
    """A reply in OpenAI's format."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.tool_calls
        ]
    fields: dict[str, Any] = {"message": message, "finish_reason": reply.finish_reason}
    if reply.usage is not None:
        fields["usage"] = {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
        }
    if reply.thinking:
        fields["thinking"] = reply.thinking
    if reply.refusal:
        fields["refusal"] = reply.refusal
    return fields


OPERATIONS = {"encode": encode, "decode": decode, "chat": chat, "stream": stream}
