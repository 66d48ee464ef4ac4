"""What we ask a model server for, before any wire format has seen it.

Knows nothing of URLs, keys or JSON. The gateway makes a `ChatRequest`; a wire format encodes it;
the rooms under `serve/` decode it again on the other side.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from stage0_gateway.encoding import KeepsEncoding
from stage0_gateway.messages import Message


@dataclass(frozen=True, slots=True)
class ToolSpec(KeepsEncoding):
    """The description of a tool that is sent to a provider: name, purpose, and a JSON Schema of its
    arguments.

    Its encoding is kept (see `encoding`), so the schema must not be changed; make another
    `ToolSpec` instead.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request for one reply.

    Attributes:
        model: The model's name as the server knows it, without our provider prefix.
        messages: The conversation so far, oldest first.
        tools: Tools for the provider's own tool calls; empty in the prompt dialect.
        tool_choice: "auto", "none", "required", or the name of one tool; None leaves it to the
            server.
        temperature: Randomness; None leaves it to the server.
        max_tokens: The most tokens the model may write.
        response_schema: A JSON Schema the server should hold the reply to.
        stop: Texts at which the model stops writing.
        provider_options: Fields put into the request body as they are.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    response_schema: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()
    provider_options: Mapping[str, Any] | None = None


class ChatOptions(TypedDict, total=False):
    """What `Gateway.chat` and `Gateway.stream` may be told besides the messages; what is left out
    is open.

    The names and meanings are those of `ChatRequest`; `stop` may also be one text, and `model` is
    another "provider:name" for this request.
    """

    tools: Iterable[ToolSpec]
    tool_choice: str | None
    temperature: float | None
    max_tokens: int | None
    response_schema: Mapping[str, Any] | None
    stop: str | Iterable[str]
    model: str | None
    provider_options: Mapping[str, Any] | None
