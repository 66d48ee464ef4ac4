"""A server on the loopback interface that lets a peer reach the model of a case.

Peers speak HTTP in OpenAI's chat format or in Anthropic's format. Each request is converted to
OpenAI's format, given to the case's model, and answered in the format of the request.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.conformance.surroundings import EndlessRun, Failure

Ask = Callable[..., Awaitable[dict[str, Any]]]


@contextlib.asynccontextmanager
async def model_server(ask: Ask) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """Serve a model while the block runs.

    Yields:
        The URL, without "/v1", and the messages of the last request, which the server updates.

    Raises:
        EndlessRun: The peer sent more requests than a case allows.
        Failure: The case does not fit the format of the peer.
    """
    last: list[dict[str, Any]] = []
    raised: list[BaseException] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = [line.lower().partition(": ") for line in head.split("\r\n")[1:]]
            length = next((int(value) for name, _, value in lines if name == "content-length"), 0)
            body = json.loads(await reader.readexactly(length) or b"null")
            try:
                status, answer = 200, await answered(head.split(" ")[1], body)
            except Failure as error:
                if error.kind == "unsupported":
                    raised.append(error)
                status = 503 if error.kind == "temporary" else 400
                answer = {"error": {"message": str(error), "type": "invalid_request_error"}}
            except EndlessRun as error:
                raised.append(error)
                status, answer = 400, {"error": {"message": "too many requests of one case"}}
            text = json.dumps(answer).encode()
            writer.write(
                f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\nconnection: close\r\n"
                f"content-length: {len(text)}\r\n\r\n".encode()
                + text
            )
            await writer.drain()
        writer.close()

    async def answered(path: str, body: Any) -> dict[str, Any]:
        is_anthropic = path.split("?")[0].endswith("/messages")
        messages, tools = from_anthropic(body) if is_anthropic else from_openai(body)
        last[:] = messages
        reply = await ask(messages=messages, tools=tools)
        return (to_anthropic if is_anthropic else to_openai)(reply)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", last
    finally:
        server.close()
        if raised:
            raise raised[0]


# ---- OpenAI's chat format


def from_openai(body: Any) -> tuple[list[Any], list[Any]]:
    """The messages and the tools of a request. Parts of text are joined, and missing text is ""."""
    messages = [
        message | {"content": text_of(message.get("content"))} for message in body["messages"]
    ]
    return messages, [tool.get("function", tool) for tool in body.get("tools") or []]


def to_openai(reply: dict[str, Any]) -> dict[str, Any]:
    """The body of an answer."""
    choice = {"index": 0, "message": reply["message"], "finish_reason": reply["finish_reason"]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "gpt-4o",
        "choices": [choice],
        "usage": usage,
    }


# ---- Anthropic's format

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def from_anthropic(body: Any) -> tuple[list[Any], list[Any]]:
    """The messages and the tools of a request, in OpenAI's format."""
    messages: list[Any] = []
    if system := body.get("system"):
        messages.append({"role": "system", "content": text_of(system)})
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [block for block in blocks if block["type"] == "text"]
        calls = [block for block in blocks if block["type"] == "tool_use"]
        for block in blocks:
            if block["type"] == "tool_result":
                text = text_of(block.get("content", ""))
                result = {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
                messages.append(result)
        if texts or calls:
            converted: dict[str, Any] = {"role": message["role"], "content": text_of(texts)}
            if calls:
                converted["tool_calls"] = [openai_call(call) for call in calls]
            messages.append(converted)
    tools = [
        {
            "name": tool["name"],
            "description": tool.get("description", ""),
            "parameters": tool["input_schema"],
        }
        for tool in body.get("tools") or []
    ]
    return messages, tools


def openai_call(block: dict[str, Any]) -> dict[str, Any]:
    function = {"name": block["name"], "arguments": json.dumps(block["input"])}
    return {"id": block["id"], "type": "function", "function": function}


def text_of(content: Any) -> str:
    """The text of a string or of blocks."""
    if isinstance(content, str):
        return content
    return "".join(block.get("text") or "" for block in content or ())


def to_anthropic_messages(messages: list[dict[str, Any]]) -> tuple[str, list[Any]]:
    """The system text and the messages of a history in OpenAI's format, without results."""
    system = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
    converted: list[Any] = []
    for message in messages:
        if message["role"] == "system":
            continue
        blocks: list[dict[str, Any]] = []
        if message["content"]:
            blocks.append({"type": "text", "text": message["content"]})
        for call in message.get("tool_calls", []):
            arguments = json.loads(call["function"]["arguments"])
            name = call["function"]["name"]
            blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": arguments})
        converted.append({"role": message["role"], "content": blocks})
    return system, converted


def to_anthropic(reply: dict[str, Any]) -> dict[str, Any]:
    """The body of an answer.

    Raises:
        Failure: The arguments of a call are not a JSON object, which the format cannot represent.
    """
    message = reply["message"]
    blocks: list[dict[str, Any]] = []
    if message["content"]:
        blocks.append({"type": "text", "text": message["content"]})
    for call in message.get("tool_calls", []):
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            raise Failure("unsupported", "Anthropic's format has no arguments that are not JSON.")
        name = call["function"]["name"]
        blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": arguments})
    reason = STOP_REASONS.get(reply["finish_reason"], reply["finish_reason"])
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
