"""Which messages does the model see? The newest ones that fit, in whole exchanges.

An exchange is what must not be parted: one message, or an assistant message with tool calls and the
results that follow it. A model server refuses a result without its call, and a call without its
result.

Pure: counted messages go in, counted messages come out. The walk goes from the newest backwards and
stops where the window is full, so its cost depends on the window, not on the length of the history.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from stage1_context.counting.heuristic import ApproximateCounter
from stage1_context.counting.truncate import truncate_messages
from stage1_context.errors import WindowTooSmall
from stage1_context.tokens import Counted, TokenCounter


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """What a window has to leave free, and how to measure it.

    Attributes:
        reserve_tokens: To leave for the reply.
        extra_tokens: What is sent besides the messages takes, such as the descriptions of the
            tools.
        ratio: How many tokens the server counts for each of ours; see `Calibration`.
        counter: Counts a message that a window cuts.

    Raises:
        ValueError: The reserve is negative.
    """

    reserve_tokens: int = 0
    extra_tokens: int = 0
    ratio: float = 1.0
    counter: TokenCounter = field(default_factory=ApproximateCounter, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.reserve_tokens < 0:
            raise ValueError(f"reserve_tokens is {self.reserve_tokens}; 0 is the least.")

    def available(self, max_tokens: int) -> int:
        """How many tokens, by our own counting, are left for messages in a window of so many."""
        return math.floor((max_tokens - self.reserve_tokens) / self.ratio) - self.extra_tokens


class WindowPolicy(Protocol):
    """Decides what is sent.

    One that keeps the newest exchanges, and would keep the same ones however many older ones there
    were, may say so with a class attribute `newest_only = True`; then it is not shown more of a
    long history than it needs.
    """

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], budget: TokenBudget, /
    ) -> list[Counted]:
        """What to send: all of `system`, then what is chosen of `rest`, oldest first.

        Args:
            system: The system messages, with the summary if there is one.
            rest: All other messages, oldest first.
            budget: What to leave free.

        Raises:
            WindowTooSmall: Not even the newest exchange fits.
        """


@dataclass(frozen=True)
class KeepEverything:
    """No window: all messages, system messages first."""

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], budget: TokenBudget, /
    ) -> list[Counted]:
        """All messages."""
        return [*system, *rest]


@dataclass(frozen=True)
class DropOldest:
    """A request of at most so many tokens or messages: the oldest exchanges are dropped until it
    fits.

    System messages count like all others, but are never dropped: a model without its instructions
    is another one.

    Attributes:
        max_tokens: The most tokens a request may take, reply and reserve included; None for no
            limit.
        max_messages: The most messages of a request; None for no limit.
        oversize: What to do if the newest exchange alone is too large: "error" raises
            WindowTooSmall, "cut" takes the middle out of its longest texts, and says so in their
            place.

    Raises:
        ValueError: A limit is no whole number or negative, or `oversize` is something else.
    """

    newest_only: ClassVar[bool] = True
    max_tokens: int | None = None
    max_messages: int | None = None
    oversize: Literal["error", "cut"] = "error"

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_messages"):
            limit = getattr(self, name)
            if limit is not None and not (isinstance(limit, int) and limit >= 0):
                raise ValueError(
                    f"{name} is {limit!r}; it is a whole number from 0 on, or None for no limit."
                )
        if self.oversize not in ("error", "cut"):
            raise ValueError(f"oversize is {self.oversize!r}; it is 'error' or 'cut'.")

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], budget: TokenBudget, /
    ) -> list[Counted]:
        """Return the system messages and the newest whole exchanges that fit."""
        tokens_left = math.inf
        if self.max_tokens is not None:
            tokens_left = budget.available(self.max_tokens) - sum(each.tokens for each in system)
        messages_left = self.messages_left(system)
        start = _newest_that_fit(rest, tokens_left, messages_left)
        if start < len(rest) or (not rest and min(tokens_left, messages_left) >= 0):
            return [*system, *rest[start:]]
        newest = rest[exchange_start(rest, len(rest)) :]
        if self.oversize == "cut" and newest and len(newest) <= messages_left:
            if truncated := truncate_messages(newest, tokens_left, budget.counter):
                return [*system, *truncated]
        raise WindowTooSmall(self._too_small(system, newest, budget))

    def messages_left(self, system: Sequence[Counted]) -> float:
        """Return how many messages fit besides the system messages; infinity without a limit."""
        return math.inf if self.max_messages is None else self.max_messages - len(system)

    def _too_small(
        self, system: Sequence[Counted], newest: Sequence[Counted], budget: TokenBudget
    ) -> str:
        """Return the text of the error: what takes how much room, and what to change."""
        text = f"The request does not fit into {self!r}: "
        if len(newest) > self.messages_left(system):
            text += (
                f"{len(newest)} message(s) besides {len(system)} system message(s) are too many. "
            )
            return text + "Give the window more messages."
        text += (
            f"its newest exchange takes {sum(each.tokens for each in newest)} tokens, {len(system)} system message(s) "
            f"{sum(each.tokens for each in system)}, the tools {budget.extra_tokens}, "
            f"and {budget.reserve_tokens} are kept for the reply. "
        )
        if newest:
            largest = max(newest, key=lambda each: each.tokens)
            begin = largest.message.text or ", ".join(
                call.name for call in largest.message.tool_calls
            )
            text += f"The {largest.message.role} message {begin[:40]!r} takes {largest.tokens}. "
        text += "Give the window more tokens, or shorten the messages; oversize='cut' shortens the newest."
        return text


class KeepSystemAndRecent(DropOldest):
    """The system messages, and as many of the newest exchanges as fit.

    The same as `DropOldest`, but `max_messages` counts only the messages besides the system
    messages.
    """

    def messages_left(self, system: Sequence[Counted]) -> float:
        """Return how many messages fit besides the system messages; infinity without a limit."""
        return math.inf if self.max_messages is None else self.max_messages


def exchange_start(rest: Sequence[Counted], end: int) -> int:
    """Return the index at which the exchange that ends before `end` begins."""
    start = max(0, end - 1)
    while start and rest[start].message.role == "tool":
        start -= 1
    return start


def _newest_that_fit(rest: Sequence[Counted], tokens_left: float, messages_left: float) -> int:
    """Return the index at which the newest whole exchanges that fit begin."""
    start = len(rest)
    for index in range(len(rest) - 1, -1, -1):
        tokens_left -= rest[index].tokens
        if tokens_left < 0 or len(rest) - index > messages_left:
            break
        if rest[index].message.role != "tool":
            start = index
    return start
