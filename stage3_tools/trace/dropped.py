"""`DroppedMessages`: the messages that each request leaves out for the first time, with reasons.

In the usual case nothing was dropped since the previous request, which two comparisons show. Used
by `recorder`.
"""

from collections.abc import Sequence

from stage0_gateway import Message
from stage1_context import Counted, DropOldest, Transcript, newly_dropped


class DroppedMessages:
    """Compares the selection of each request with that of the previous one."""

    def __init__(self) -> None:
        self._transcript: Transcript | None = None
        self._chosen: Sequence[Counted] = ()
        self._oldest = -1  # the index of the oldest message that the window could drop

    def update(
        self, transcript: Transcript, before: tuple[Message, ...]
    ) -> list[tuple[Message, str]]:
        """Return the messages that the newest request of a conversation leaves out, with reasons.

        Args:
            transcript: The conversation.
            before: The messages of the previous request, as they were sent. A dialect may have
                rendered them.
        """
        selection = transcript.last_request
        if selection is None:
            return []
        if transcript is not self._transcript:
            self._transcript, self._chosen = transcript, ()
        previous, self._chosen, chosen = self._chosen, selection.chosen, selection.chosen
        system, oldest = len(selection.system), self._oldest
        self._oldest = chosen[system].index if len(chosen) > system else -1
        is_complete = len(chosen) == system + len(selection.rest)
        if not previous:
            if is_complete:
                return []
        elif self._oldest <= oldest and (is_complete or isinstance(selection.window, DropOldest)):
            return []
        sent = _sent_forms(previous, before)
        return [
            (sent.get(each.index, each.message), reason)
            for each, reason in newly_dropped(selection, previous)
        ]


def _sent_forms(chosen: Sequence[Counted], sent: tuple[Message, ...]) -> dict[int, Message]:
    """The messages as they were sent, by the index of their record."""
    stored = [each for each in chosen if each.message.role != "system"]
    rendered = [message for message in sent if message.role != "system"]
    if len(stored) != len(rendered):  # `before_send` has changed the number
        return {}
    return {each.index: message for each, message in zip(stored, rendered, strict=True)}
