"""`ChatRequest`: one request for one reply, before it is encoded.

This module knows no URLs, keys or wire formats. The gateway creates requests, a wire format encodes
them, and the formats in `server/` decode them again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from stage0_gateway.messages import CachedEncoding, Message

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
"""The JSON Schema of a tool without arguments."""

Level = Literal["low", "medium", "high"]
Reasoning = Level | int
"""How much a model thinks before it replies: a level, or a budget in tokens."""


@dataclass(frozen=True, slots=True)
class ToolSpec(CachedEncoding):
    """The description of a tool that is sent to a provider.

    Its encoding is cached, so the schema must not be changed. Create another `ToolSpec` instead.

    Attributes:
        name: The tool's name.
        description: Its purpose, for the model.
        parameters: The JSON Schema of its arguments.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: dict(NO_PARAMETERS))


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request for one reply.

    Attributes:
        model: The model's name on its server, without the provider prefix.
        messages: The conversation, oldest message first.
        tools: Tools for the provider's native tool calls; empty in the prompt dialect.
        tool_choice: "auto", "none", "required", or the name of one tool. None leaves the choice to
            the server.
        temperature: Randomness; None is the server's default.
        max_tokens: The maximum number of tokens of the reply; None is the server's default.
        response_schema: A JSON Schema for the reply, enforced by the server.
        schema_optional: Whether to send the request without the schema if the server rejects it.
        stop: Texts at which the model stops writing.
        reasoning: How much the model thinks before it replies: "low", "medium", "high", or a
            budget in tokens for models that accept one. None is the server's default.
        cache_prompt: Whether Anthropic's server stores the prompt for the next requests, which
            costs more than plain input. Other servers decide by themselves.
        cache_key: Groups the requests of one conversation for the prompt cache of OpenAI's own
            server, such as a session id. It is not sent to other servers.
        provider_options: Fields that are merged into the request body unchanged.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    response_schema: Mapping[str, Any] | None = None
    schema_optional: bool = False
    stop: tuple[str, ...] = ()
    reasoning: Reasoning | None = None
    cache_prompt: bool = False
    cache_key: str | None = None
    provider_options: Mapping[str, Any] | None = None


class ChatOptions(TypedDict, total=False):
    """The options of `Gateway.chat` and `Gateway.stream`; all are optional.

    Names and meanings are those of `ChatRequest`. `stop` may also be a single text, and `model` is
    another "provider:name" for this request.
    """

    tools: Iterable[ToolSpec]
    tool_choice: str | None
    temperature: float | None
    max_tokens: int | None
    response_schema: Mapping[str, Any] | None
    schema_optional: bool
    stop: str | Iterable[str]
    reasoning: Reasoning | None
    cache_prompt: bool
    cache_key: str | None
    model: str | None
    provider_options: Mapping[str, Any] | None
