"""The official `openai` SDK: its client, and the loop of its guide to function calling."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from openai import (
    APIConnectionError,
    APIError,
    AsyncOpenAI,
    InternalServerError,
    LengthFinishReasonError,
    RateLimitError,
)

from tests.conformance.peers.model_server import Ask, model_server
from tests.conformance.surroundings import Failure

TITLE = "openai SDK, loop of its guide"
PACKAGES = ("openai",)


async def answer(
    question: str, ask: Ask, tools: Any, run: Any, dialect: str = "prompt", history: Any = ()
) -> Any:
    """Answer a question as the guide does: until a reply has no calls."""
    if dialect != "native":
        raise Failure("unsupported", "The SDK has no prompt dialect.")
    async with model_server(ask) as (url, sent):
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=2)
        messages: list[Any] = [*history, {"role": "user", "content": question}]
        functions: Any = [{"type": "function", "function": tool} for tool in tools]
        while True:
            completion = await client.chat.completions.create(
                model="gpt-4o", messages=messages, tools=functions or None
            )
            message = completion.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                final = {"role": "assistant", "content": message.content}
                return {"answer": message.content, "messages": [*sent, final]}
            for call in message.tool_calls:
                value = run(call.function.name, json.loads(call.function.arguments))
                text = value if isinstance(value, str) else json.dumps(value)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


async def chat(url: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
    """Send messages, and return the reply."""
    with errors_of(format):
        completion = await client_of(url).chat.completions.create(**request_of(messages, tools))
        if not completion.choices:
            raise Failure("permanent", "no choices")
        return reply_fields(completion.choices[0])


async def stream(url: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
    """Send messages, and return the pieces of text and the whole reply."""
    texts = []
    with errors_of(format):
        async with client_of(url).chat.completions.stream(**request_of(messages, tools)) as events:
            async for event in events:
                if event.type == "content.delta":
                    texts.append(event.delta)
            completion = await events.get_final_completion()
        return {"texts": texts, **reply_fields(completion.choices[0])}


def client_of(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=url, api_key="none", timeout=5)


def request_of(messages: Any, tools: Any) -> dict[str, Any]:
    request = {"model": "gpt-4o", "messages": messages}
    if tools:
        request["tools"] = [{"type": "function", "function": tool} for tool in tools]
    return request


def reply_fields(choice: Any) -> dict[str, Any]:
    """The outcome for a choice. The SDK leaves missing text as None."""
    message = {"role": "assistant", "content": choice.message.content or ""}
    if calls := choice.message.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in calls
        ]
    return {"message": message, "finish_reason": choice.finish_reason}


@contextlib.contextmanager
def errors_of(format: str) -> Iterator[None]:
    """Convert the errors of the SDK."""
    if format != "openai":
        raise Failure("unsupported", f"The SDK has no format {format!r}.")
    try:
        yield
    except (APIConnectionError, RateLimitError, InternalServerError) as error:
        raise Failure("temporary", str(error)) from error
    except (APIError, LengthFinishReasonError) as error:
        raise Failure("permanent", str(error)) from error


OPERATIONS = {"answer": answer, "chat": chat, "stream": stream}
