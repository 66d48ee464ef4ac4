"""`Selector`: bring a window and a conversation together, reading only as much of it as the window
takes.

What comes out, a `Selection`, also remembers what the window was given, so that it can be
explained. Used by `transcript`, `explanation` and `compaction`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from stage0_gateway import Message
from stage1_context.counting.calibration import Calibration
from stage1_context.errors import WindowTooSmall
from stage1_context.tokens import Counted, TokenCounter
from stage1_context.view.journal_reader import Tail
from stage1_context.view.projection import summary_message
from stage1_context.window import DropOldest, Room, WindowPolicy


@dataclass(frozen=True, slots=True)
class Selection:
    """What a window was given, and what it chose.

    Attributes:
        window: The window.
        system: The system messages, the summary, and what was pinned.
        rest: All other messages as far as they were read; grows when more are.
        room: What had to be left free.
        chosen: What is sent.
    """

    window: WindowPolicy
    system: Sequence[Counted]
    rest: Sequence[Counted]
    room: Room
    chosen: Sequence[Counted]

    @property
    def messages(self) -> list[Message]:
        """The messages to send."""
        return [each.message for each in self.chosen]

    @property
    def tokens(self) -> int:
        """What the request takes by our own counting, without the reply."""
        return sum(each.tokens for each in self.chosen) + self.room.alongside_tokens


class Selector:
    """Chooses what is sent.

    Args:
        window: Decides.
        counter: Counts tokens.
        calibration: What was learnt about the counter.
    """

    def __init__(
        self, window: WindowPolicy, counter: TokenCounter, calibration: Calibration
    ) -> None:
        self.window = window
        self._counter = counter
        self._calibration = calibration
        self._alongside = ""
        self._alongside_tokens = 0

    async def select(
        self,
        tail: Tail,
        *,
        summary: str,
        alongside: str | None,
        reserve_tokens: int,
        pinned: Message | None = None,
    ) -> Selection:
        """Let the window choose from a conversation.

        Args:
            tail: The conversation, read on to its end.
            summary: What to send for the messages that are summarized; empty for nothing.
            alongside: Text that will be sent besides; None takes that of the last request.
            reserve_tokens: Room to leave for the reply.
            pinned: A message to send in any case.

        Raises:
            WindowTooSmall: Not even the newest exchange fits.
        """
        if alongside is not None and alongside != self._alongside:
            self._alongside, self._alongside_tokens = alongside, self._counter.count(alongside)
        room = Room(reserve_tokens, self._alongside_tokens, self._calibration.ratio, self._counter)
        system = list(tail.system)
        if summary:
            system.append(Counted(summary_message(summary), self._counter))
        selection = await self._fill(tail, system, room)
        if pinned is not None and not _sends(selection, pinned):
            selection = await self._fill(tail, [*system, *self._pinned(pinned, room)], room)
        return replace(selection, chosen=_one_result_each(selection.chosen))

    async def _fill(self, tail: Tail, system: list[Counted], room: Room) -> Selection:
        """What was learnt about the counter makes requests shorter, but never impossible: it may be
        wrong.
        """
        try:
            return await self._choose(tail, system, room)
        except WindowTooSmall:
            if room.ratio <= 1.0:
                raise
            return await self._choose(tail, system, replace(room, ratio=1.0))

    async def _choose(self, tail: Tail, system: list[Counted], room: Room) -> Selection:
        """A window that keeps the newest is shown older messages only as long as it takes them
        all.
        """
        newest_only = getattr(self.window, "newest_only", False)
        while not (newest_only or tail.whole):
            await tail.read_back()
        while True:
            chosen = self.window.select(system, tail.rest, room)
            if tail.whole or len(chosen) < len(system) + len(tail.rest):
                return Selection(self.window, system, tail.rest, room, chosen)
            await tail.read_back()

    def _pinned(self, message: Message, room: Room) -> list[Counted]:
        """The message that is sent in any case, cut to a quarter of a window that cuts what is too
        long.
        """
        counted, window = Counted(message, self._counter), self.window
        if (
            isinstance(window, DropOldest)
            and window.oversize == "cut"
            and window.max_tokens is not None
        ):
            quarter = room.within(window.max_tokens) // 4
            if counted.tokens > quarter:
                from stage1_context.view.truncate import cut_to_fit

                return cut_to_fit([counted], quarter, room.counter) or [counted]
        return [counted]


def _one_result_each(chosen: Sequence[Counted]) -> list[Counted]:
    """Leave out a second result of a call, which servers refuse; a damaged history may hold one."""
    ids = [id for each in chosen if (id := each.message.tool_call_id)]
    if len(set(ids)) == len(ids):  # nearly always
        return [*chosen]
    kept, answered = list[Counted](), set[str]()
    for each in chosen:
        for call in each.message.tool_calls:
            answered.discard(call.id)  # an id that is used again
        if (id := each.message.tool_call_id) in answered:
            continue
        kept.append(each)
        if id:
            answered.add(id)
    return kept


def _sends(selection: Selection, message: Message) -> bool:
    """Whether a message is sent, be it with its middle cut out."""
    if any(each.message == message for each in selection.chosen):
        return True
    sent = {each.index for each in selection.chosen[len(selection.system) :]}
    oldest = min(sent, default=0)  # a long history is not gone through in each turn
    as_said = takewhile(lambda each: each.index >= oldest, reversed(selection.rest))
    return any(each.index in sent and each.message == message for each in as_said)
