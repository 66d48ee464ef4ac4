"""Cutting messages that are too long for a window, on request only (`oversize="cut"`), and never
silently.

The middle is taken out, since the beginning says what a text is and the end how it came out; a note
stands in its place. Calls are never cut: half of an argument is another argument. The journal keeps
the whole text.
"""

from collections.abc import Sequence
from dataclasses import replace

from stage0_gateway import Message, TextPart
from stage1_context.tokens import Counted, TokenCounter, message_tokens

SHORTEST = 40
"""Characters to leave of a text at least; with less, cutting helps nobody."""


def truncate_messages(
    messages: Sequence[Counted], tokens: float, counter: TokenCounter
) -> list[Counted] | None:
    """The same messages with their longest texts cut until they take no more than so many tokens.

    Returns:
        The messages; None where even the shortest texts do not fit.
    """
    fitting = list(messages)
    by_length = sorted(range(len(fitting)), key=lambda place: fitting[place].tokens, reverse=True)
    for place in by_length:
        over = sum(each.tokens for each in fitting) - tokens
        if over <= 0:
            break
        each = fitting[place]
        fitting[place] = _cut(each, each.tokens - over, counter) or each
    return fitting if sum(each.tokens for each in fitting) <= tokens else None


def truncate_text(text: str, length: int) -> str:
    """A text of which about `length` characters are left, and what was taken out is said."""
    if len(text) <= length:
        return text
    head = length * 2 // 3
    taken = len(text) - length
    return f"{text[:head]}\n[… {taken:,} characters were cut here …]\n{text[len(text) - (length - head) :]}"


def _cut(each: Counted, tokens: float, counter: TokenCounter) -> Counted | None:
    """The longest cut of a message that takes so many tokens; where none does, the shortest there
    is.
    """
    message, text = each.message, _longest_text(each.message)
    if message.raw_text is not None and message.tool_calls:
        return None  # what is sent is the calls as the model wrote them

    def at(length: int) -> Counted:
        shorter = _with_text(message, text, truncate_text(text, length))
        return Counted(shorter, message_tokens(counter, shorter), each.index)

    shortest, longest = SHORTEST, len(text)
    best = at(shortest)
    while longest - shortest > max(1, shortest // 50):  # close enough: each try counts a whole text
        middle = (shortest + longest) // 2
        tried = at(middle)
        if tried.tokens <= tokens:
            shortest, best = middle, tried
        else:
            longest = middle
    return best if best.tokens < each.tokens else None


def _longest_text(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    return max(
        (part.text for part in message.content if isinstance(part, TextPart)), key=len, default=""
    )


def _with_text(message: Message, text: str, shorter: str) -> Message:
    """The message with another text in place of one of its own."""
    if isinstance(message.content, str):
        return replace(message, content=shorter, raw_text=None)
    parts = (
        replace(part, text=shorter) if isinstance(part, TextPart) and part.text == text else part
        for part in message.content
    )
    return replace(message, content=tuple(parts), raw_text=None)
