"""Build requests for data: the messages, the schema for the server, and the corrections.

A `chat` is any async function that accepts messages as plain mappings, or an object with such a
function as `chat`, and `supports_schema`: whether its server accepts a schema. The function returns
a text, or an object with `content` and `finish_reason`. This module knows no gateway. Used by
`OutputController.request`, which repeats the requests.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from stage2_output.errors import InvalidSchema
from stage2_output.feedback import feedback
from stage2_output.result import Issue, ParseResult

REFUSED = Issue("", "The model refused to answer.", "refusal")
"""The issue of a refusal. The model's text is for people and remains in `ParseResult.raw`."""

# Statuses of servers that reject a schema: usually 400; 422 if a framework checks the fields; 404
# if a router finds no suitable server.
_REJECTED_SCHEMA = (400, 404, 422)
_ANYTHING: tuple[Any, ...] = (True, {})
# Finish reasons of a truncated reply, including those that a chat function passes on unchanged.
_TRUNCATED = ("length", "max_tokens", "max_output_tokens", "incomplete")


@dataclass(frozen=True, slots=True)
class Reply:
    """The parts of a reply that are used.

    Attributes:
        content: The text.
        finish_reason: "length" for a truncated reply, "refusal" for a refusal.
        refusal: The text of a refusal, if it is not in `content`.
        usage: The token counts; they are added up if they support addition.
    """

    content: str
    finish_reason: str = "stop"
    refusal: str | None = None
    usage: Any = None


Chat = Callable[..., Awaitable[Any]]
"""Accepts a list of messages as dicts. Returns a text, or an object with the attributes of `Reply`;
only `content` and `finish_reason` are required."""


class ChatObject(Protocol):
    """An object that sends messages, such as a `Gateway`."""

    @property
    def supports_schema(self) -> bool:
        """Whether `chat` accepts `response_schema=`, the JSON Schema of the reply."""

    @property
    def chat(self) -> Chat:
        """Sends the messages."""


class SchemaChat:
    """A chat that sends a schema until its server rejects it.

    Only object schemas are sent, because most servers reject others. A server may reject an object
    schema too: it may not know a keyword, or require `additionalProperties: false` everywhere. The
    request is then sent again without the schema.

    Args:
        chat: Sends the messages; exceptions propagate.
        schema: The JSON Schema of the data.
    """

    def __init__(self, chat: Chat | ChatObject, schema: Any) -> None:
        send: Any = chat if callable(chat) else getattr(chat, "chat", None)
        if not callable(send) or isinstance(chat, type):
            raise TypeError(f"chat must be a Gateway or an async function, not {chat!r:.80}.")
        self._chat: Chat = send
        is_object = isinstance(schema, dict) and schema.get("type") == "object"
        supports_schema = getattr(chat, "supports_schema", False)  # a function has no such fact
        self._schema = schema if is_object and supports_schema is True else None

    async def reply(self, messages: list[dict[str, Any]]) -> Reply:
        """Return the reply to a conversation.

        Raises:
            TypeError: The function is not async, or returned neither a text nor a reply.
        """
        if self._schema is not None:
            try:
                return await self._send(messages, response_schema=self._schema)
            except Exception as error:
                if getattr(error, "status", None) not in _REJECTED_SCHEMA:
                    raise
                self._schema = None
        # If the schema was not the reason, this request fails with the same error.
        return await self._send(messages)

    async def _send(self, messages: list[dict[str, Any]], **options: Any) -> Reply:
        reply: Any = self._chat(messages, **options)
        if not inspect.isawaitable(reply):
            raise TypeError("chat must be an async function: define it with `async def`.")
        reply = await reply
        if isinstance(reply, str):
            return Reply(reply)
        content = getattr(reply, "content", reply)
        if not (hasattr(reply, "finish_reason") and isinstance(content, str | None)):
            raise TypeError(
                "chat must return a text, or a reply with a text as `content` and a "
                f"`finish_reason`, such as ChatResponse, not {type(reply).__name__}."
            )
        refusal, usage = getattr(reply, "refusal", None), getattr(reply, "usage", None)
        return Reply(content or "", reply.finish_reason, refusal, usage)


def messages_with_schema(messages: Iterable[Any], schema: Any) -> list[dict[str, Any]]:
    """Return the messages with a request for JSON in the system message.

    Many models accept a single system message, and only in the first position.

    Args:
        messages: The conversation, as mappings or as objects with `to_dict()`; a text is one user
            message.
        schema: The JSON Schema of the data.

    Raises:
        InvalidSchema: The schema cannot be written as JSON.
        TypeError: A message has another type.
    """
    conversation: list[dict[str, Any]] = []
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    for message in messages:
        if hasattr(message, "to_dict"):
            message = message.to_dict()
        if not isinstance(message, Mapping):
            raise TypeError(
                'A message must be a Message, or a mapping such as {"role": "user", "content": '
                f'"…"}}, not {type(message).__name__}.'
            )
        conversation.append(dict(message))
    order = "Answer with one JSON value, and nothing else."
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSchema(f"The JSON Schema cannot be written as JSON: {error}.") from error
    if schema not in _ANYTHING:
        order = f"Answer with one JSON value that fits this JSON Schema, and nothing else:\n{text}"
    if not conversation or conversation[0].get("role") != "system":
        return [{"role": "system", "content": order}, *conversation]
    content = conversation[0].get("content")
    if isinstance(content, str):
        content = f"{content}\n\n{order}"
    else:
        content = [*(content or ()), {"type": "text", "text": order}]
    return [{**conversation[0], "content": content}, *conversation[1:]]


def refusal(reply: Reply) -> ParseResult | None:
    """Return the result of a reply that is a refusal, else None."""
    if reply.finish_reason != "refusal":
        return None
    return ParseResult(False, None, (REFUSED,), reply.content or reply.refusal or "")


def is_truncated(reply: Reply) -> bool:
    """Whether the model was cut off, in the terms of this project or of a server."""
    return str(reply.finish_reason).lower() in _TRUNCATED


def correction(result: ParseResult) -> list[dict[str, Any]]:
    """Return the reply and its feedback as messages; servers reject an empty reply."""
    reply = [{"role": "assistant", "content": result.raw}] if result.raw.strip() else []
    return [*reply, {"role": "user", "content": "[Feedback]\n" + feedback(result)}]


def add_usage(total: Any, usage: Any) -> Any:
    """Return the sum of two usages; values without addition, such as None, are ignored."""
    if not hasattr(usage, "__add__"):
        return total
    return usage if total is None else total + usage
