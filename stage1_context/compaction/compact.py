"""Compaction: when a conversation fills its window, let a model write down what the old part of it
says.

    fill < at ─▶ nothing to do
    fill ≥ at ─▶ summarize all but the newest

The journal keeps every word: a record says that from here on the summary stands for the old
messages. If the model fails, nothing is summarized.

Covered: a long old part is summarized in pieces · a summary longer than what it replaces is not
kept · a summary that
    another writer adds meanwhile wins.
Not covered: whether a summary is true; a model wrote it.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stage0_gateway import ChatResponse, Message
from stage1_context.compaction.summarize import summarize
from stage1_context.errors import SessionConflict, WindowTooSmall
from stage1_context.tokens import Counted, message_tokens
from stage1_context.transcript import Transcript
from stage1_context.view.projection import summary_message
from stage1_context.view.selection import Selection
from stage1_context.window import DropOldest, KeepSystemAndRecent, exchange_start

_PIECE_TOKENS = 16_000
"""How much to have summarized at once where the window names no limit."""

_MOST_FULL = 2.0
"""A mark beyond this is meant as a percentage, and would never be reached."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did.

    Attributes:
        done: Whether there is a new summary.
        reason: Why, or why not, in a sentence.
        fill: How full the window was before; 1.0 is full.
        summarized: How many messages the summary newly stands for.
        error: What the model's call raised, if it failed.
    """

    done: bool
    reason: str
    fill: float
    summarized: int = 0
    error: Exception | None = field(default=None, repr=False)


async def compact(
    transcript: Transcript,
    chat: Callable[..., Awaitable[ChatResponse]],
    *,
    at: float = 1.0,
    to: float = 0.5,
    reserve_tokens: int = 0,
) -> Compaction:
    """Summarize the old part of a conversation if its window is full; see
    `ContextEngine.compact`.
    """
    if not (0 <= at <= _MOST_FULL and 0 <= to <= 1):
        raise ValueError(
            f"at is {at} and to is {to}; both are parts of the window: 0.8 is four fifths of it."
        )
    if not callable(chat):
        raise ValueError(
            f"chat is a function that asks a model, such as gateway.chat, not {type(chat).__name__}."
        )
    begun, before = (await transcript.info()).created, await transcript.summary()
    seen = await transcript.select(reserve_tokens=reserve_tokens, complete=True)
    fill = _fill(seen)
    if fill < at:
        return Compaction(
            False, f"The window is {fill:.0%} full; it is compacted at {at:.0%}.", fill
        )
    old, newest = _parted(seen, to)
    if not old:
        return Compaction(False, "All messages belong to the newest part.", fill)
    try:
        text = await summarize(
            chat, before, [each.message for each in old], seen.budget.counter, _piece_tokens(seen)
        )
    except Exception as error:  # whatever went wrong, the conversation goes on as it was
        return Compaction(False, f"The model failed: {error}", fill, error=error)
    until = newest[0].index if newest else old[-1].index + 1
    reason = _harm(seen, text, old, newest)
    if reason or (reason := await _write(transcript, begun, before, text, until)):
        return Compaction(False, reason, fill)
    return Compaction(True, f"{len(old)} messages were summarized.", fill, len(old))


def _limits(seen: Selection) -> tuple[float | None, float]:
    """How many tokens and messages there may be; a window that names no limit is taken to be just
    full.
    """
    window = seen.window
    tokens: float | None = window.max_tokens if isinstance(window, DropOldest) else None
    places = window.messages_left(seen.system) if isinstance(window, DropOldest) else math.inf
    if tokens is None and places == math.inf:
        tokens = _tokens(seen)
    return tokens, places


def _tokens(seen: Selection) -> float:
    """What everything there is to show would take, as the server counts."""
    tokens = seen.budget.extra_tokens + sum(each.tokens for each in (*seen.system, *seen.rest))
    return tokens * seen.budget.ratio + seen.budget.reserve_tokens


def _fill(seen: Selection) -> float:
    """How full the window would be with everything there is to show."""
    tokens, places = _limits(seen)
    by_tokens = 0.0 if tokens is None else _tokens(seen) / max(1, tokens)
    by_places = len(seen.rest) / max(1, places)
    return max(by_tokens, by_places)


def _parted(seen: Selection, to: float) -> tuple[Sequence[Counted], Sequence[Counted]]:
    """The old messages, and the newest ones, which are to fill no more than this part of the
    window.
    """
    tokens, places = _limits(seen)
    smaller = KeepSystemAndRecent(
        max_tokens=None if tokens is None else int(tokens * to),
        max_messages=None if places == math.inf else max(0, int(places * to)),
    )
    try:
        kept = len(smaller.select(seen.system, seen.rest, seen.budget)) - len(seen.system)
    except WindowTooSmall:
        kept = len(seen.rest) - exchange_start(seen.rest, len(seen.rest))
    start = len(seen.rest) - kept
    if 0 < start < len(seen.rest) - 1 and _is_reply(seen.rest[start].message):
        start += 1  # a reply without its question says little
    return seen.rest[:start], seen.rest[start:]


def _is_reply(message: Message) -> bool:
    return message.role == "assistant" and not message.tool_calls


def _piece_tokens(seen: Selection) -> int:
    """How much to have summarized at once, by our own counting: half of the window."""
    if isinstance(seen.window, DropOldest) and seen.window.max_tokens is not None:
        return int(seen.window.max_tokens / seen.budget.ratio) // 2
    return _PIECE_TOKENS


def _harm(
    seen: Selection, text: str, old: Sequence[Counted], newest: Sequence[Counted]
) -> str | None:
    """Why the conversation would be worse off with this summary; None if it would not."""
    message = summary_message(text)
    summary = Counted(message, message_tokens(seen.budget.counter, message))
    summary_before = [each for each in seen.system if each.index < 0]
    _, places = _limits(seen)
    if places == math.inf and summary.tokens >= sum(
        each.tokens for each in (*old, *summary_before)
    ):
        return "The summary is longer than what it would stand for."
    system = [each for each in seen.system if each.index >= 0]
    try:
        seen.window.select([*system, summary], newest, seen.budget)
    except WindowTooSmall:
        return "The summary would leave no room for the newest exchange."
    return None


async def _write(
    transcript: Transcript, begun: datetime, before: str, text: str, until: int
) -> str | None:
    """Put the summary into the journal; returns why not, where that would be wrong by now."""
    while True:
        info = await transcript.info()
        if info.created != begun:
            return "The session was deleted in the meantime, and begun anew."
        if await transcript.summary() != before:
            return "Somebody else summarized in the meantime."
        try:
            await transcript.set_summary(text, until=until, expected=info.records)
        except (
            SessionConflict
        ):  # messages came in just now; that is fine, another summary would not be
            continue
        return None
