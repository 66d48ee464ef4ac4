"""`ChatModel`: what the later stages know about a model.

`Gateway` implements it. They accept either a `ChatModel`, or any async function from messages to a
reply, such as a wrapper that logs each request. Nothing is known about the model behind a function:
structured output and a prompt cache are then not used.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, Unpack, runtime_checkable

from typing_extensions import TypeIs

from stage0_gateway.messages import Messages
from stage0_gateway.request import ChatOptions
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.stream import MessageStream

Chat = Callable[..., Awaitable[ChatResponse | str]]
"""Sends messages to a model, with keywords such as `tools` and `temperature` where they are set;
returns the reply, or its text."""


@runtime_checkable
class ChatModel(Protocol):
    """A model, and the facts about it."""

    @property
    def model(self) -> str:
        """The name: "provider:name"."""

    @property
    def supports_schema(self) -> bool:
        """Whether the server supports structured output (`response_schema`)."""

    @property
    def supports_schema_with_tools(self) -> bool:
        """Whether the server supports structured output in requests with tools."""

    @property
    def accepts_cache_key(self) -> bool:
        """Whether `chat` and `stream` accept `cache_key`, the name of a prompt cache."""

    @property
    def has_prices(self) -> bool:
        """Whether costs can be known."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys, which no log or file may contain."""

    async def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> ChatResponse:
        """Send a conversation and return the whole reply."""

    def stream(self, messages: Messages, **options: Unpack[ChatOptions]) -> MessageStream:
        """Send a conversation and return a stream of the reply."""


def is_model(chat: object) -> TypeIs[ChatModel]:
    """Return whether a value is a model, and not a function that sends messages."""
    return isinstance(chat, ChatModel) and not callable(chat)


def chat_of(chat: Chat | ChatModel) -> Chat:
    """Return the function that sends messages: `chat` of a model, or the given function.

    Raises:
        TypeError: The value is neither a model nor a function.
    """
    if callable(chat) and not isinstance(chat, type):
        return chat
    if is_model(chat):
        return chat.chat
    raise TypeError(
        "chat must be a Gateway, or an async function that returns a ChatResponse or a text, not "
        f"{chat!r:.80}."
    )
