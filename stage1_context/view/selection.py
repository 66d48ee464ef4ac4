"""Select the messages of a request: apply a window to a journal and read only what it needs.

A `Selection` also holds what the window was given, so that `explanation` and `compaction` can use
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stage0_gateway import Message
from stage1_context.errors import WindowTooSmall
from stage1_context.tokens import Counted
from stage1_context.view.journal_reader import JournalReader
from stage1_context.window import TokenBudget, WindowPolicy


@dataclass(frozen=True, slots=True)
class Selection:
    """The messages that a window was given, and those that it chose.

    Attributes:
        window: The window.
        system: The system messages, the summary and the pinned message.
        rest: The other messages that were read, oldest first.
        budget: The tokens that are not available to messages.
        chosen: The messages of the request.
    """

    window: WindowPolicy
    system: Sequence[Counted]
    rest: Sequence[Counted]
    budget: TokenBudget
    chosen: Sequence[Counted]

    @property
    def tokens(self) -> int:
        """The tokens of the request by our own count, without the reply."""
        return sum(each.tokens for each in self.chosen) + self.budget.extra_tokens


async def select(
    reader: JournalReader, window: WindowPolicy, budget: TokenBudget, pinned: Message | None = None
) -> Selection:
    """Select the messages of a request; `pinned` is sent even if the window drops it.

    Raises:
        WindowTooSmall: The newest exchange does not fit.
    """
    system = [*reader.system]
    if reader.summary is not None:
        system.append(reader.summary)
    selection = await _fill(reader, window, budget, system)
    if pinned is None or any(each.message == pinned for each in selection.chosen):
        return selection
    return await _fill(reader, window, budget, [*system, Counted(pinned, reader.counter)])


async def _fill(
    reader: JournalReader, window: WindowPolicy, budget: TokenBudget, system: Sequence[Counted]
) -> Selection:
    """Let the window choose, and read older messages while it takes all of them."""
    if not getattr(window, "newest_only", False):
        while not reader.has_all:
            await reader.read_back()
    while True:
        try:
            chosen = window.select(system, reader.messages, budget)
        except WindowTooSmall:
            if budget.ratio <= 1.0:
                raise
            # The learned ratio may be wrong. It shortens requests but never makes one impossible.
            budget = replace(budget, ratio=1.0)
            continue
        if reader.has_all or len(chosen) < len(system) + len(reader.messages):
            return Selection(window, system, reader.messages, budget, chosen)
        await reader.read_back()
