"""The journal: what happened in a session, one frozen record after the other.

Records are only ever added. Everything else (the history, later also variables and resuming) is a view on
them, so nothing can be lost by looking at it differently. Knows nothing of where records are kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from stage0_gateway import Message


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message was added to the conversation."""

    kind: ClassVar[Literal["message"]] = "message"
    message: Message

    def to_dict(self) -> dict[str, Any]:
        """This record as plain JSON values."""
        return {"kind": self.kind, **self.message.to_dict()}


Record = MessageRecord


def record_from_dict(plain: Mapping[str, Any]) -> Record:
    """The record that `to_dict` wrote.

    Raises:
        ValueError: It is not a record this version knows.
    """
    if plain.get("kind") != MessageRecord.kind:
        raise ValueError(f"Unknown journal record {plain.get('kind')!r}; this version knows 'message'.")
    return MessageRecord(Message.from_dict(plain))
