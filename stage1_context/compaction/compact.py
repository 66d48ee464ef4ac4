"""Compact a session: when its window is full, let a model summarize the old messages.

    fill < at ─▶ nothing to do
    fill ≥ at ─▶ summarize all but the newest messages

The journal keeps every message; a summary record replaces the old ones in requests. If the model
fails, nothing is summarized.

Covered: a long old part is summarized in pieces · a summary longer than the messages it replaces is
dropped · a summary that another writer adds meanwhile wins.
Not covered: the truth of a summary, which a model wrote.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stage0_gateway import ChatResponse
from stage1_context.compaction.summarize import summarize
from stage1_context.errors import SessionConflict, WindowTooSmall
from stage1_context.tokens import Counted
from stage1_context.transcript import Transcript
from stage1_context.view.projection import summary_message
from stage1_context.view.selection import Selection
from stage1_context.window import DropOldest, KeepSystemAndRecent, exchange_start

_PIECE_TOKENS = 16_000
"""The tokens to summarize at once if the window has no limit."""

_MAX_AT = 2.0
"""A greater value of `at` is a percentage by mistake and would never be reached."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction.

    Attributes:
        done: Whether a summary was added.
        reason: The reason, as a sentence.
        fill: The fill of the window before; 1.0 is full.
        summarized: The number of messages that the summary replaces in addition.
        error: The exception of the model's call, if it failed.
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
    """Summarize the old messages if the window is full; see `ContextEngine.compact`."""
    if not (0 <= at <= _MAX_AT and 0 <= to <= 1):
        raise ValueError(
            f"at is {at} and to is {to}; both are parts of the window: 0.8 is four fifths of it."
        )
    created, before = (await transcript.info()).created, await transcript.summary()
    selection = await transcript.select(reserve_tokens=reserve_tokens, complete=True)
    fill = _fill(selection)
    if fill < at:
        reason = f"The window is {fill:.0%} full; it is compacted at {at:.0%}."
        return Compaction(False, reason, fill)
    old, newest = _divide(selection, to)
    if not old:
        return Compaction(False, "All messages belong to the newest part.", fill)
    messages, counter = [each.message for each in old], selection.budget.counter
    try:
        text = await summarize(chat, before, messages, counter, _piece_tokens(selection))
    except Exception as error:  # the conversation continues without a summary
        return Compaction(False, f"The model failed: {error}", fill, error=error)
    until = newest[0].index if newest else old[-1].index + 1
    problem = _disadvantage(selection, text, old, newest)
    if problem is None:
        problem = await _write(transcript, created, before, text, until)
    if problem is not None:
        return Compaction(False, problem, fill)
    return Compaction(True, f"{len(old)} messages were summarized.", fill, len(old))


def _limits(selection: Selection) -> tuple[float, float]:
    """Return the most tokens and messages; a window without limits counts as just full."""
    window, tokens, messages = selection.window, math.inf, math.inf
    if isinstance(window, DropOldest):
        messages = window.messages_left(selection.system)
        if window.max_tokens is not None:
            tokens = window.max_tokens
    if tokens == messages == math.inf:
        tokens = _tokens(selection)
    return tokens, messages


def _tokens(selection: Selection) -> float:
    """Return the tokens of all messages, as the server counts them."""
    budget = selection.budget
    tokens = sum(each.tokens for each in (*selection.system, *selection.rest))
    return (tokens + budget.extra_tokens) * budget.ratio + budget.reserve_tokens


def _fill(selection: Selection) -> float:
    """Return the fill of the window with all messages."""
    tokens, messages = _limits(selection)
    by_tokens = _tokens(selection) / max(1, tokens)
    return max(by_tokens, len(selection.rest) / max(1, messages))


def _divide(selection: Selection, to: float) -> tuple[Sequence[Counted], Sequence[Counted]]:
    """Return the old messages, and the newest ones that fill at most this part of the window."""
    rest = selection.rest
    tokens, messages = _limits(selection)
    smaller = KeepSystemAndRecent(
        max_tokens=None if tokens == math.inf else int(tokens * to),
        max_messages=None if messages == math.inf else max(0, int(messages * to)),
    )
    try:
        newest = smaller.select(selection.system, rest, selection.budget)
        start = len(rest) - len(newest) + len(selection.system)
    except WindowTooSmall:
        start = exchange_start(rest, len(rest))
    if 0 < start < len(rest) - 1:
        first = rest[start].message
        if first.role == "assistant" and not first.tool_calls:
            start += 1  # a reply is of little use without its question
    return rest[:start], rest[start:]


def _piece_tokens(selection: Selection) -> int:
    """Return the tokens to summarize at once by our own count: half of the window."""
    window = selection.window
    if isinstance(window, DropOldest) and window.max_tokens is not None:
        return int(window.max_tokens / selection.budget.ratio) // 2
    return _PIECE_TOKENS


def _disadvantage(
    selection: Selection, text: str, old: Sequence[Counted], newest: Sequence[Counted]
) -> str | None:
    """Return the reason not to use a summary, or None."""
    budget, system = selection.budget, selection.system
    summary = Counted(summary_message(text), budget.counter)
    replaced = sum(each.tokens for each in (*old, *(each for each in system if each.index < 0)))
    if _limits(selection)[1] == math.inf and summary.tokens >= replaced:
        return "The summary is longer than the messages that it would replace."
    system = [*(each for each in system if each.index >= 0), summary]
    try:
        selection.window.select(system, newest, budget)
    except WindowTooSmall:
        return "The newest exchange would not fit beside the summary."
    return None


async def _write(
    transcript: Transcript, created: datetime, before: str, text: str, until: int
) -> str | None:
    """Append the summary; return the reason if that has become wrong meanwhile."""
    while True:
        info = await transcript.info()
        if info.created != created:
            return "The session was deleted and created anew meanwhile."
        if await transcript.summary() != before:
            return "Another writer added a summary meanwhile."
        try:
            await transcript.set_summary(text, until=until, expected=info.records)
        except SessionConflict:  # new messages are compatible; the loop checks for a new summary
            continue
        return None
