"""Which messages does the model see? The newest ones that fit, in whole exchanges.

An exchange is what must not be parted: one message, or an assistant message with tool calls and the results
that follow it. A model server refuses a result without its call, and a call without its result.

Pure: counted messages go in, messages come out. The walk goes from the newest backwards and stops where the
window is full, so its cost depends on the window, not on the length of the history.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stage0_gateway import Message
from stage1_context.errors import WindowTooSmall


@dataclass(frozen=True, slots=True)
class Counted:
    """A message and what it takes in a request."""

    message: Message
    tokens: int


class WindowPolicy(Protocol):
    """Decides what is sent."""

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], reserve_tokens: int = 0
    ) -> list[Message]:
        """The messages to send, oldest first.

        Args:
            system: The system messages.
            rest: All other messages, oldest first.
            reserve_tokens: Room to leave for what is sent besides, and for the reply.

        Raises:
            WindowTooSmall: Not even the newest exchange fits.
        """


class KeepEverything:
    """No window: all messages, system messages first."""

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], reserve_tokens: int = 0
    ) -> list[Message]:
        """All messages."""
        return [each.message for each in (*system, *rest)]


@dataclass(frozen=True)
class KeepSystemAndRecent:
    """The system messages, and as many of the newest exchanges as fit.

    Attributes:
        max_tokens: The most tokens a request may take, reply and reserve included; None for no limit.
        max_messages: The most messages besides the system messages; None for no limit.
    """

    max_tokens: int | None = None
    max_messages: int | None = None

    def select(
        self, system: Sequence[Counted], rest: Sequence[Counted], reserve_tokens: int = 0
    ) -> list[Message]:
        """The system messages and the newest whole exchanges that fit beside the reserve."""
        fixed = sum(each.tokens for each in system) + reserve_tokens
        tokens_left = None if self.max_tokens is None else self.max_tokens - fixed
        places_left = self.max_messages
        start = len(rest)
        while start > 0:
            begin = _exchange_start(rest, start)
            tokens = sum(each.tokens for each in rest[begin:start])
            if tokens_left is not None and (tokens_left := tokens_left - tokens) < 0:
                break
            if places_left is not None and (places_left := places_left - (start - begin)) < 0:
                break
            start = begin
        if start == len(rest) and rest:
            raise WindowTooSmall(self._too_small(rest[_exchange_start(rest, start) :], fixed))
        return [each.message for each in system] + [each.message for each in rest[start:]]

    def _too_small(self, newest: Sequence[Counted], fixed: int) -> str:
        head = newest[0].message
        return (
            f"The newest exchange ({len(newest)} message(s), beginning with the {head.role} message "
            f"{head.text[:40]!r}) takes {sum(each.tokens for each in newest)} tokens; system prompt, tools and reply "
            f"reserve take {fixed}. The window is max_tokens={self.max_tokens}, max_messages={self.max_messages}: "
            "make it larger, or the message shorter."
        )


def _exchange_start(rest: Sequence[Counted], end: int) -> int:
    """The index at which the exchange that ends before `end` begins.

    Results usually follow their call at once, but a message may have been added in between.
    """
    begin, unanswered = end, set[str]()
    while begin > 0:
        begin -= 1
        message = rest[begin].message
        if message.tool_call_id:
            unanswered.add(message.tool_call_id)
        unanswered.difference_update(call.id for call in message.tool_calls)
        if not unanswered:
            break
    return begin
