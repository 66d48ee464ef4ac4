"""`NewestReply`: what has become of the newest reply of a run that stops at each.

Knows no run: `stepping` takes a new one with each turn, and looks here what is left to do about it.
"""

from dataclasses import dataclass, field

from stage0_gateway import Message, MessageStream, StreamEvent
from stage3_tools.turn import OpenTurn


@dataclass(eq=False, slots=True)
class NewestReply:
    """The newest reply; without a turn there is none to look after.

    Attributes:
        turn: Its turn.
        told: Whether whoever listens was told of it.
        given: Whether it was given to whoever iterates.
        edited: Whether its turn is over, and edits have come into force.
        responded: The results of its calls, if somebody asked for them.
    """

    turn: OpenTurn | None
    told: bool = False
    given: bool = False
    edited: bool = False
    responded: tuple[Message, ...] | None = None
    _ends: list[StreamEvent] = field(default_factory=list)

    @classmethod
    def none(cls) -> "NewestReply":
        """Before the first reply, and after one that came to nothing."""
        return cls(None, told=True, given=True, edited=True)

    def listen(self, stream: MessageStream) -> None:
        """Hear how its stream ends, whoever reads it."""
        for name in ("final_message", "error", "abort"):
            stream.on(name, self._ends.append)

    @property
    def whole(self) -> bool:
        """Whether all of it has arrived."""
        return self.told or any(event.name == "final_message" for event in self._ends)

    @property
    def failed(self) -> bool:
        """Whether its stream broke off while somebody read it."""
        return not self.told and any(event.name != "final_message" for event in self._ends)
