"""Windows: select the newest whole exchanges that fit into a request.

An exchange is one message, or an assistant message with tool calls and their results. Model servers
refuse a call without its result and a result without its call.

Windows are pure. They examine the newest messages first and stop when they are full, so the cost
does not depend on the length of the history.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from stage1_context.errors import WindowTooSmall
from stage1_context.tokens import Counted


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The tokens of a request that are not available to messages.

    Attributes:
        reserve_tokens: Tokens for the reply.
        extra_tokens: Tokens of text besides the messages, such as tool descriptions.
        ratio: The server's tokens for each token of our own count; see `Calibration`.

    Raises:
        ValueError: `reserve_tokens` is negative.
    """

    reserve_tokens: int = 0
    extra_tokens: int = 0
    ratio: float = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.reserve_tokens, int) and self.reserve_tokens >= 0):
            raise ValueError(f"reserve_tokens is {self.reserve_tokens!r}; it must be at least 0.")

    def available(self, max_tokens: int) -> int:
        """Return the tokens that messages may have in a window, by our own count."""
        return math.floor((max_tokens - self.reserve_tokens) / self.ratio) - self.extra_tokens


class WindowPolicy(Protocol):
    """Selects the messages of a request.

    A policy may have the class attribute `newest_only = True` if it selects the newest exchanges
    and older ones never change its selection. It then receives only as many as it needs.
    """

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], budget: TokenBudget, /
    ) -> list[Counted]:
        """Return all of `system`, followed by the selected messages of `rest`, oldest first.

        Args:
            system: The system messages, the summary and a pinned message.
            rest: All other messages, oldest first, with results directly behind their calls.
            budget: The tokens that are not available.

        Raises:
            WindowTooSmall: The newest exchange does not fit.
        """


@dataclass(frozen=True)
class KeepEverything:
    """Selects all messages, system messages first."""

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], budget: TokenBudget, /
    ) -> list[Counted]:
        """Return all messages."""
        return [*system, *rest]


@dataclass(frozen=True)
class DropOldest:
    """Drops the oldest exchanges until the request fits.

    System messages count but are never dropped, because a model depends on its instructions.

    Attributes:
        max_tokens: The most tokens of a request, including the reply reserve; None for no limit.
        max_messages: The most messages of a request; None for no limit.

    Raises:
        ValueError: A limit is not an integer or negative.
    """

    newest_only: ClassVar[bool] = True
    max_tokens: int | None = None
    max_messages: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_messages"):
            limit = getattr(self, name)
            if limit is not None and not (isinstance(limit, int) and limit >= 0):
                raise ValueError(
                    f"{name} is {limit!r}; it must be an integer from 0, or None for no limit."
                )

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], budget: TokenBudget, /
    ) -> list[Counted]:
        """Return the system messages and the newest whole exchanges that fit."""
        tokens_left = math.inf
        if self.max_tokens is not None:
            system_tokens = sum(message.tokens for message in system)
            tokens_left = budget.available(self.max_tokens) - system_tokens
        messages_left = self.messages_left(system)
        start = _newest_that_fit(rest, tokens_left, messages_left)
        if start < len(rest) or (not rest and min(tokens_left, messages_left) >= 0):
            return [*system, *rest[start:]]
        newest = rest[exchange_start(rest, len(rest)) :]
        raise WindowTooSmall(self._too_small(system, newest, budget))

    def messages_left(self, system: Sequence[Counted]) -> float:
        """Return how many messages fit besides the system messages; infinity without a limit."""
        return math.inf if self.max_messages is None else self.max_messages - len(system)

    def _too_small(
        self, system: Sequence[Counted], newest: Sequence[Counted], budget: TokenBudget
    ) -> str:
        return (
            f"The request does not fit into {self!r}: the {len(newest)} message(s) of the newest "
            f"exchange have {sum(message.tokens for message in newest)} tokens, "
            f"{len(system)} system message(s) {sum(message.tokens for message in system)}, "
            f"the tools {budget.extra_tokens}, and the reply reserve {budget.reserve_tokens}. "
            "Increase the limit, shorten the messages, or store long results as variables."
        )


class KeepSystemAndRecent(DropOldest):
    """Keeps the system messages and the newest exchanges that fit.

    It differs from `DropOldest` in one point: `max_messages` does not count system messages.
    """

    def messages_left(self, system: Sequence[Counted]) -> float:
        """Return how many messages fit besides the system messages; infinity without a limit."""
        return math.inf if self.max_messages is None else self.max_messages


def exchange_start(rest: Sequence[Counted], end: int) -> int:
    """Return the index of the first message of the exchange before the index `end`."""
    start = max(0, end - 1)
    while start and rest[start].message.role == "tool":
        start -= 1
    return start


def _newest_that_fit(rest: Sequence[Counted], tokens_left: float, messages_left: float) -> int:
    """Return the index of the first message of the newest whole exchanges that fit."""
    start = len(rest)
    for index in range(len(rest) - 1, -1, -1):
        tokens_left -= rest[index].tokens
        if tokens_left < 0 or len(rest) - index > messages_left:
            break
        if rest[index].message.role != "tool":
            start = index
    return start
