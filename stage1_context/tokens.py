"""Count the tokens of a message.

A `TokenCounter` counts texts and does not know messages; windows handle counted messages and no
texts. The room `counting/` contains the counters.
"""

import json
from typing import Any, Protocol

from stage0_gateway import DocumentPart, ImagePart, JsonPart, Message, ProviderPart

MESSAGE_OVERHEAD = 4
"""Tokens that a chat format adds to each message: three for its frame and one for the role."""

IMAGE_TOKENS = 1000
"""The assumed tokens of an image. Providers count by image size, which is not examined."""


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """Return the number of tokens, at least 0. No text raises an error."""


class Counted:
    """A message and its tokens, which are counted at the first access.

    Args:
        message: The message.
        tokens: The number of tokens, or the counter for them.
        index: The index of the message's record in the journal; -1 for a message without one, such
            as a summary.

    Attributes:
        message: The message.
        index: The index of its record.
    """

    __slots__ = ("_tokens", "index", "message")

    def __init__(self, message: Message, tokens: int | TokenCounter, index: int = -1) -> None:
        self.message = message
        self.index = index
        self._tokens = tokens

    @property
    def tokens(self) -> int:
        """The tokens of the message by our own count."""
        if not isinstance(self._tokens, int):
            self._tokens = message_tokens(self._tokens, self.message)
        return self._tokens

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counted):
            return NotImplemented
        return (self.message, self.tokens, self.index) == (other.message, other.tokens, other.index)

    def __repr__(self) -> str:
        return f"Counted({self.message!r}, {self.tokens}, {self.index})"


def message_tokens(counter: TokenCounter, message: Message) -> int:
    """Return the tokens of a message, including its tool calls and overhead."""
    total = MESSAGE_OVERHEAD + sum(
        counter.count(call.name + call.arguments) + MESSAGE_OVERHEAD for call in message.tool_calls
    )
    if message.raw_text is not None:
        return total + counter.count(message.raw_text)
    if isinstance(message.content, str):
        return total + counter.count(message.content)
    for part in message.content:
        match part:
            case ImagePart():
                total += IMAGE_TOKENS
            case DocumentPart(data):
                total += len(data) // 4 if data else IMAGE_TOKENS
            case JsonPart(value) | ProviderPart(_, value):
                total += counter.count(_as_text(value))
            case _:
                total += counter.count(part.text)
    return total


def _as_text(value: Any) -> str:
    """Return a value as JSON. Counting accepts invalid values; sending them raises an error."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
