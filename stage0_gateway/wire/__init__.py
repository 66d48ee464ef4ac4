"""Wire formats: how a `ChatRequest` becomes a provider's JSON, and its answer a `ChatResponse`.

Each format is one module of pure functions, the ones of `WireFormat`, and a second one that reads
its replies: values go in, values come out, and nothing here opens a connection, waits or reads the
clock. The gateway picks the module by the model's prefix.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.reply_builder import Draft


class ReplyReader(ABC):
    """Reads one reply, event by event or whole.

    What it raises besides errors of our tree (LookupError, TypeError, ValueError, AttributeError)
    means that the server does not keep to the format; `reading.py` turns it into MalformedResponse.

    Attributes:
        draft: What has arrived so far.
        complete: Whether the server has said why it ended; counts may still follow.
        over: Whether the server has said that nothing follows.
    """

    def __init__(self, wire: str, names: Mapping[str, str] | None = None) -> None:
        self.draft = Draft(wire, names)
        self.complete = self.over = False

    @abstractmethod
    def feed(self, data: Mapping[str, Any]) -> None:
        """Take in one event of a stream, its JSON already read; raises the error that it stands
        for.
        """

    @abstractmethod
    def feed_whole(self, body: Mapping[str, Any]) -> None:
        """Take in a reply that came in one piece."""

    def response(self, raw: Any = None) -> ChatResponse:
        """Return the reply, now that all of it has arrived."""
        return self.draft.response(raw)


class WireFormat(Protocol):
    """What a wire format module offers.

    Attributes:
        NAME: The name under which provider data are kept.
        SPOKEN: The field of a body in which the conversation stands.
    """

    NAME: str
    SPOKEN: str

    def path(self, model: str, *, stream: bool = False) -> str:
        """The path behind the base URL to which a request for this model is posted."""

    def headers(self, api_key: str | None) -> dict[str, str]:
        """The headers that carry the key."""

    def encode(self, request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
        """The JSON body that asks for this."""

    def spoken(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """What stands in the field `SPOKEN` for these messages.

        That of two turns is that of the one and then that of the other, where results stand in the
        turn of their calls. A turn is one who speaks (user or assistant), and all messages of
        others that follow.
        """

    def described(self, tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
        """What stands in the field `tools` for these."""

    def reader(self, names: Mapping[str, str] | None = None) -> ReplyReader:
        """Something that reads one reply.

        Args:
            names: Tool names that had to be sent otherwise, back to what they are
                (`names.own_names`).
        """

    def decode(self, body: Mapping[str, Any], request_id: str | None = None) -> ChatResponse:
        """The reply in a whole body; raises MalformedResponse if it is none."""
