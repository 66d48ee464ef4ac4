"""Ask a model for data: ask, read, tell it what is wrong, ask again.

Works with any `chat` that takes messages as plain mappings; of its reply it reads `content`,
`finish_reason` and, where there is one, `usage`. Does not know how a text is read and held to a
schema, which is what it is given `read` for, nor any gateway: whether a server takes a schema is
asked of the object that `chat` belongs to. Used by `OutputController.request`.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from stage2_output.errors import InvalidSchema
from stage2_output.feedback import feedback
from stage2_output.result import ParseResult
from stage2_output.validation.issues import Issue

REFUSED = Issue("", "The model refused to answer.", "refusal")
"""What is wrong where a model refused. Without its words: they are for people, in
`ParseResult.raw`."""

# What servers answer to a schema they cannot take: 400 nearly all, 422 where a framework checks the
# fields, 404 where a router finds no server that can.
_CANNOT_TAKE = (400, 404, 422)
_ANYTHING: tuple[Any, ...] = (True, {})


_TRUNCATED = ("length", "max_tokens", "max_output_tokens", "incomplete")
"""Finish reasons of a reply that was cut off, for a chat function that passes on its server's."""


class Reply(Protocol):
    """What is read from that which `chat` returns; `usage`, which can be added up, is read where it
    is there.
    """

    @property
    def content(self) -> str | None:
        """The text of the reply."""

    @property
    def finish_reason(self) -> str:
        """Why the model stopped: "length" means that it was cut off, "refusal" that it will not
        answer.
        """


Chat = Callable[..., Awaitable[Reply]]
"""Takes a list of messages as dicts. With `response_schema=` only where its object says
`supports_schema`."""


async def ask(
    read: Callable[[str, bool], ParseResult],
    chat: Chat,
    messages: Iterable[Mapping[str, Any]],
    schema: Mapping[str, Any] | bool,
    *,
    max_attempts: int = 3,
) -> ParseResult:
    """Ask for data until it fits, the attempts are used up, or the model refuses, which it would do
    again.

    The schema is told in words, and sent along as `response_schema` where the server is said to
    take one: as it is written, and only if it is an object's. A server may refuse it all the same,
    because it does not know a keyword or, as Anthropic's does, wants every object closed with
    `additionalProperties: false`; it is then asked without, which is no further attempt.

    Args:
        read: What becomes of a text; the second argument says that it was cut off.
        chat: Sends the messages. What it raises is raised.
        messages: The conversation that asks for the data.
        schema: The JSON Schema of the data.
        max_attempts: The most replies to ask for; at least 1.

    Returns:
        The last reply as it was read, with the number of replies and the sum of what they used.

    Raises:
        InvalidSchema: The schema cannot be written as JSON.
        ValueError: `max_attempts` is below 1.
        TypeError: A message is no mapping.
    """
    if max_attempts < 1:
        raise ValueError(f"max_attempts is {max_attempts}; 1 is the least.")
    plain = _plain(schema)
    talk = _with_order(_dicts(messages), plain)
    model, usage = _Model(chat, plain), None
    for attempt in range(1, max_attempts + 1):
        reply = await model.reply(talk)
        usage = _sum(usage, getattr(reply, "usage", None))
        result = replace(_judge(reply, read), attempts=attempt, usage=usage)
        if result.success or result.errors == (REFUSED,):
            break
        talk = [*talk, *_correction(result)]  # a new list: the one that was sent may have been kept
    return result


class _Model:
    """A chat, and the schema to send along until its server refuses it."""

    def __init__(self, chat: Chat, schema: Any) -> None:
        self._chat = chat
        # Objects only: OpenAI refuses what is anything else at its root, and most servers do as
        # OpenAI does.
        is_object = isinstance(schema, dict) and schema.get("type") == "object"
        self._schema = schema if is_object and _takes_schemas(chat) else None

    async def reply(self, talk: list[dict[str, Any]]) -> Reply:
        if self._schema is not None:
            try:
                return await self._chat(talk, response_schema=self._schema)
            except Exception as error:
                if getattr(error, "status", None) not in _CANNOT_TAKE:
                    raise
                self._schema = None
        # If it was something else that was refused, this is refused too, and tells why.
        return await self._chat(talk)


def _takes_schemas(chat: Chat) -> bool:
    if isinstance(chat, partial):
        if "response_schema" in chat.keywords:
            return False  # the caller's own goes
        chat = chat.func
    return getattr(getattr(chat, "__self__", None), "supports_schema", False) is True


def _plain(schema: Mapping[str, Any] | bool) -> Any:
    """The schema as it will be sent: of dicts and lists, whatever kinds of mapping it was made
    of.
    """
    try:
        return json.loads(json.dumps(schema, default=dict, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSchema(f"The JSON Schema cannot be written as JSON: {error}.") from error


def _dicts(messages: Iterable[Any]) -> list[dict[str, Any]]:
    talk = []
    for message in messages:
        if not isinstance(message, Mapping):
            kind = type(message).__name__
            raise TypeError(
                f'A message is a mapping, {{"role": "user", "content": "…"}}, not {kind}.'
            )
        talk.append(dict(message))
    return talk


def _with_order(talk: list[dict[str, Any]], schema: Any) -> list[dict[str, Any]]:
    """The messages with the schema told in the one system message: many models take one only, and
    only first.
    """
    order = "Answer with one JSON value, and nothing else."
    if schema not in _ANYTHING:
        told = json.dumps(schema, ensure_ascii=False)
        order = f"Answer with one JSON value that fits this JSON Schema, and nothing else:\n{told}"
    if not talk or talk[0].get("role") != "system":
        return [{"role": "system", "content": order}, *talk]
    said = talk[0].get("content")
    both = (
        f"{said}\n\n{order}"
        if isinstance(said, str)
        else [*(said or ()), {"type": "text", "text": order}]
    )
    return [{**talk[0], "content": both}, *talk[1:]]


def _judge(reply: Reply, read: Callable[[str, bool], ParseResult]) -> ParseResult:
    text = reply.content or ""
    if reply.finish_reason == "refusal":
        return ParseResult(False, None, (REFUSED,), text or getattr(reply, "refusal", None) or "")
    return read(text, str(reply.finish_reason).lower() in _TRUNCATED)


def _correction(result: ParseResult) -> list[dict[str, Any]]:
    """The reply, and what is wrong with it; servers refuse a message that says nothing."""
    reply = [{"role": "assistant", "content": result.raw}] if result.raw.strip() else []
    return [*reply, {"role": "user", "content": "[Feedback]\n" + feedback(result)}]


def _sum(so_far: Any, more: Any) -> Any:
    """Both together; what cannot be added, such as None, counts for nothing."""
    if not hasattr(more, "__add__"):
        return so_far
    return more if so_far is None else so_far + more
