"""Compact a session: when its window is full, let a model summarize the old messages.

    fill < threshold ─▶ nothing to do
    fill ≥ threshold ─▶ summarize all but the newest messages

`ContextEngine.compact` does it on request, an `AutomaticCompaction` between the turns of a session.
The journal keeps every message; a summary record replaces the old ones in requests. If the model
fails, nothing is summarized. A call without a result, and everything behind it, is not old.

A summary repeats what its model read, possibly texts of others that contain instructions. It is
therefore sent as data in a user message, never as a system message.

Covered: a long old part is summarized in pieces · a summary longer than the messages it replaces is
dropped · a summary that another writer adds meanwhile wins.
Not covered: the truth of a summary, which a model wrote; a model that obeys a text in it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from stage0_gateway import (
    FUNCTION,
    Accepted,
    Chat,
    ChatModel,
    ChatResponse,
    Message,
    Usage,
    chat_of,
    check_arguments,
    response_of,
)
from stage1_context.compaction.summarize import summarize
from stage1_context.errors import SessionConflict, WindowTooSmall
from stage1_context.store import LoopLock
from stage1_context.tokens import Counted
from stage1_context.transcript import Compaction, OnCompaction, Transcript, ignore_compaction
from stage1_context.view.projection import summary_message
from stage1_context.view.selection import Selection
from stage1_context.window import DropOldest, KeepSystemAndRecent, exchange_start

_PIECE_TOKENS = 16_000
"""The tokens to summarize at once if the window has no limit."""

_MAX_THRESHOLD = 2.0
"""A greater threshold is a percentage by mistake and would never be reached."""

_PAUSE = 20
"""The number of new records until an automatic compaction without effect is repeated."""


_ACCEPTED = {
    "threshold": Accepted(int | float, "a number such as 0.8", required=True),
    "target": Accepted(int | float, "a number such as 0.5", required=True),
    "on_compaction": Accepted(FUNCTION, "a function of one Compaction"),
}


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When and how the sessions of an engine are compacted.

    Attributes:
        chat: The model: a `Gateway`, or an async function that returns the reply or its text.
        threshold: The fill of the window from which to act; 0.8 is four fifths.
        target: The part of the window that the newest messages, which stay, may fill afterwards.
        on_compaction: A plain function that receives each result of an automatic compaction, also
            if the model failed: `Compaction.error`. An exception propagates to the request.

    Raises:
        ValueError: `threshold` or `target` is invalid.
        TypeError: `chat` is neither a gateway nor a function.
    """

    chat: Chat | ChatModel
    threshold: float = 0.8
    target: float = 0.5
    on_compaction: Callable[[Compaction], None] | None = None

    def __post_init__(self) -> None:
        check_arguments({name: getattr(self, name) for name in _ACCEPTED}, _ACCEPTED)
        chat_of(self.chat)  # raises for other values
        if not (0 <= self.threshold <= _MAX_THRESHOLD and 0 <= self.target <= 1):
            raise ValueError(
                f"The threshold is {self.threshold} and the target is {self.target}; both are "
                "parts of the window: 0.8 is four fifths of it."
            )


class AutomaticCompaction:
    """Compacts one session between turns. A transcript calls it with each selection.

    The check costs the same after a long history; only a compaction reads all of it. A window
    without a limit, or of another class, is never compacted. After an attempt that leaves the
    window filled, such as a failure of the model, the next one waits for new records.

    Args:
        policy: When and how to compact.
    """

    def __init__(self, policy: CompactionPolicy) -> None:
        self._policy = policy
        self._lock = LoopLock()  # of two requests at once, one compacts
        self._paused_at = -_PAUSE  # a number of records

    async def __call__(
        self,
        transcript: Transcript,
        selection: Selection,
        pinned: Message | None,
        on_compaction: OnCompaction,
    ) -> Selection:
        """Compact if a selection fills the window; return the selection to send."""
        policy, reserve_tokens = self._policy, selection.budget.reserve_tokens
        if not _is_filled(selection, policy.threshold):
            return selection
        async with self._lock.get():
            if 0 <= transcript.length - self._paused_at < _PAUSE:
                return selection
            compaction = await compact(transcript, policy, reserve_tokens, on_compaction)
            selection = await transcript.select(reserve_tokens=reserve_tokens, pinned=pinned)
            if compaction.fill < policy.threshold:  # another request compacted the session
                return selection
            if _is_filled(selection, policy.threshold):
                self._paused_at = transcript.length
        if policy.on_compaction is not None:
            policy.on_compaction(compaction)
        return selection


async def compact(
    transcript: Transcript,
    policy: CompactionPolicy,
    reserve_tokens: int = 0,
    on_compaction: OnCompaction = ignore_compaction,
) -> Compaction:
    """Summarize the old messages if the window is full; see `ContextEngine.compact`.

    `on_compaction` receives the result, also of an attempt that was interrupted, but not if the
    window is not full.
    """
    send, replies = chat_of(policy.chat), list[ChatResponse]()

    async def chat(messages: Sequence[Message]) -> ChatResponse:
        reply = await response_of(send(messages))
        replies.append(reply)
        return reply

    try:
        compaction = await _compact(transcript, policy, reserve_tokens, chat)
    except BaseException as error:
        interrupted = Compaction(transcript.session_id, False, "Interrupted.", 1.0, error=error)
        on_compaction(_with_replies(interrupted, replies))
        raise
    compaction = _with_replies(compaction, replies)
    if compaction.fill >= policy.threshold:
        on_compaction(compaction)
    return compaction


def _with_replies(compaction: Compaction, replies: Sequence[ChatResponse]) -> Compaction:
    costs = [reply.cost for reply in replies if reply.cost is not None]
    usage = sum((reply.usage for reply in replies if reply.usage), Usage())
    cost = sum(costs) if costs else None
    return replace(compaction, usage=usage, cost=cost, replies=tuple(replies))


async def _compact(
    transcript: Transcript, policy: CompactionPolicy, reserve_tokens: int, chat: Chat
) -> Compaction:
    result = partial(Compaction, transcript.session_id)
    created, before = (await transcript.info()).created, await transcript.summary()
    selection = await transcript.select(reserve_tokens=reserve_tokens, complete=True)
    fill = _fill(selection)
    if fill < policy.threshold:
        reason = f"The window is {fill:.0%} full; it is compacted at {policy.threshold:.0%}."
        return result(False, reason, fill)
    old, newest = _divide(selection, policy.target)
    if not old:
        return result(False, "All messages belong to the newest part.", fill)
    messages, counter = [each.message for each in old], transcript.counter
    try:
        text = await summarize(chat, before, messages, counter, _piece_tokens(selection))
    except Exception as error:  # the conversation continues without a summary
        return result(False, f"The model failed: {error}", fill, error=error)
    until = newest[0].index if newest else old[-1].index + 1
    summary = Counted(summary_message(text), counter)
    problem = _disadvantage(selection, summary, old, newest)
    problem = problem or await _write(transcript, created, before, text, until)
    if problem is not None:
        return result(False, problem, fill)
    replaced = [summary_message(before), *messages] if before else messages
    reason = f"{len(old)} messages were summarized."
    return result(True, reason, fill, len(old), tuple(replaced), summary.message)


def _is_filled(selection: Selection, part: float) -> bool:
    """Return whether a selection shows that a window with a limit is filled to this part.

    It examines only the messages that the window chose, so its cost does not grow with the history.
    """
    window = selection.window
    if not isinstance(window, DropOldest) or (window.max_tokens is window.max_messages is None):
        return False
    is_anything_dropped = len(selection.chosen) < len(selection.system) + len(selection.rest)
    return is_anything_dropped or _fill(selection) >= part


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
    start = _closed_part(rest[:start])
    if 0 < start < len(rest) - 1:
        first = rest[start].message
        if first.role == "assistant" and not first.tool_calls:
            start += 1  # a reply is of little use without its question
    return rest[:start], rest[start:]


def _closed_part(messages: Sequence[Counted]) -> int:
    """Return the number of messages before the first exchange with an open call."""
    closed = open_calls = 0
    for number, each in enumerate(messages, 1):
        open_calls += len(each.message.tool_calls) - (each.message.role == "tool")
        if open_calls == 0:
            closed = number
    return closed


def _piece_tokens(selection: Selection) -> int:
    """Return the tokens to summarize at once by our own count: half of the window."""
    window = selection.window
    if isinstance(window, DropOldest) and window.max_tokens is not None:
        return int(window.max_tokens / selection.budget.ratio) // 2
    return _PIECE_TOKENS


def _disadvantage(
    selection: Selection, summary: Counted, old: Sequence[Counted], newest: Sequence[Counted]
) -> str | None:
    """Return the reason not to use a summary, or None."""
    system = selection.system
    replaced = sum(each.tokens for each in (*old, *(each for each in system if each.index < 0)))
    if _limits(selection)[1] == math.inf and summary.tokens >= replaced:
        return "The summary is longer than the messages that it would replace."
    system = [*(each for each in system if each.index >= 0), summary]
    try:
        selection.window.select(system, newest, selection.budget)
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
