"""Truncate messages that are too long for a window (`oversize="cut"`).

The middle of a text is removed, because its beginning states the subject and its end the outcome. A
note replaces the removed part. Calls are never truncated, because that would change their meaning.
The journal keeps the whole text.
"""

from collections.abc import Sequence
from dataclasses import replace

from stage0_gateway import Message, TextPart
from stage1_context.tokens import Counted, TokenCounter, message_tokens

SHORTEST = 40
"""The least characters that remain of a text."""


def truncate_messages(
    messages: Sequence[Counted], tokens: float, counter: TokenCounter
) -> list[Counted] | None:
    """Truncate the longest texts until the messages fit.

    Args:
        messages: The messages.
        tokens: The most tokens that they may have together.
        counter: Counts tokens.

    Returns:
        The messages, or None if even their shortest texts do not fit.
    """
    fitting = list(messages)
    longest_first = sorted(range(len(fitting)), key=lambda i: fitting[i].tokens, reverse=True)
    for index in longest_first:
        excess = sum(each.tokens for each in fitting) - tokens
        if excess <= 0:
            break
        message = fitting[index]
        fitting[index] = _truncate(message, message.tokens - excess, counter) or message
    return fitting if sum(each.tokens for each in fitting) <= tokens else None


def truncate_text(text: str, length: int) -> str:
    """Return about `length` characters of a text, with a note about the removed ones."""
    if len(text) <= length:
        return text
    head = length * 2 // 3
    tail = text[len(text) - (length - head) :]
    return f"{text[:head]}\n[… {len(text) - length:,} characters were cut here …]\n{tail}"


def _truncate(counted: Counted, tokens: float, counter: TokenCounter) -> Counted | None:
    """Return the longest truncation of a message that fits, or the shortest one there is."""
    message = counted.message
    if message.raw_text is not None and message.tool_calls:
        return None  # the raw text of a call is sent
    text = message.content
    if not isinstance(text, str):
        texts = (part.text for part in message.content if isinstance(part, TextPart))
        text = max(texts, key=len, default="")

    def truncated(length: int) -> Counted:
        shorter = _with_text(message, text, truncate_text(text, length))
        return Counted(shorter, message_tokens(counter, shorter), counted.index)

    low, high = SHORTEST, len(text)
    best = truncated(low)
    while high - low > max(1, low // 50):  # close enough: each attempt counts a whole text
        middle = (low + high) // 2
        attempt = truncated(middle)
        if attempt.tokens <= tokens:
            low, best = middle, attempt
        else:
            high = middle
    return best if best.tokens < counted.tokens else None


def _with_text(message: Message, text: str, shorter: str) -> Message:
    """Return the message with one of its texts replaced."""
    if isinstance(message.content, str):
        return replace(message, content=shorter, raw_text=None)
    parts = (
        replace(part, text=shorter) if isinstance(part, TextPart) and part.text == text else part
        for part in message.content
    )
    return replace(message, content=tuple(parts), raw_text=None)
