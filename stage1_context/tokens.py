"""How many tokens a message takes, so that a window can be filled and not overfilled.

The seam between messages and counters: a `TokenCounter` knows texts and no messages, the windows
know messages and no texts. The counters that come with the framework are in approximate.py and
exact.py.
"""

import json
from typing import Any, Protocol

from stage0_gateway import DocumentPart, ImagePart, JsonPart, Message, ProviderPart

MESSAGE_OVERHEAD = 4
"""Tokens a chat format adds around each message: three for its frame, one for the role."""

IMAGE_TOKENS = 1000
"""Tokens a picture is taken for; providers charge by its size, which we do not look at."""


class TokenCounter(Protocol):
    """Anything that counts the tokens of a text."""

    def count(self, text: str) -> int:
        """How many tokens this text takes; never negative, and no text may make it raise."""


class Counted:
    """A message and what it takes in a request: counted once, when somebody asks, which without a
    window nobody does.

    Args:
        message: The message.
        tokens: What it takes, by our own counting; or the counter that will say so.
        index: Where in the journal it stands; -1 for what does not, such as a summary.

    Attributes:
        message: The message.
        tokens: What it takes, by our own counting.
        index: Where in the journal it stands.
    """

    __slots__ = ("_counter", "index", "message", "tokens")

    tokens: int

    def __init__(self, message: Message, tokens: int | TokenCounter, index: int = -1) -> None:
        self.message = message
        self.index = index
        if isinstance(tokens, int):
            self.tokens = tokens
        else:
            self._counter = tokens

    def __getattr__(self, name: str) -> int:
        """What has no value yet: the tokens, until they are counted. A window asks for them in
        every turn.
        """
        if name != "tokens":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.tokens = message_tokens(self._counter, self.message)
        return self.tokens

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counted):
            return NotImplemented
        return (self.message, self.tokens, self.index) == (other.message, other.tokens, other.index)

    __hash__ = None  # type: ignore[assignment]  # it counts when it is compared

    def __repr__(self) -> str:
        return f"Counted({self.message!r}, {self.tokens}, {self.index})"


def message_tokens(counter: TokenCounter, message: Message) -> int:
    """What one message takes in a request, its tool calls and overhead included."""
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
    """The value as JSON. One that is no JSON fails when it is sent, and says so there; not while
    counting.
    """
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (
        TypeError,
        ValueError,
        RecursionError,
    ):  # a key that is a tuple, a circle, too deep a value
        return f"<{type(value).__name__}>"
