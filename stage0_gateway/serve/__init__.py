"""The reverse direction: what a model server does with a wire format.

A body becomes a `ChatRequest`, a `ChatResponse` becomes a body or the events of a stream. The embedded and
the scripted model speak through these rooms, one per format, and they make the formats provable: what one
side encodes, the other decodes to the same value. Pure, as the other direction is (`wire/`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse


class ServerFormat(Protocol):
    """What the room of one format offers.

    Attributes:
        NAME: The format's name, the same as in `wire/`.
    """

    NAME: str

    def is_path(self, path: str) -> bool:
        """Whether a request to this path (its query included) is one in this format."""

    def wants_stream(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether the reply is to be streamed."""

    def decode_request(self, body: Mapping[str, Any], path: str = "") -> ChatRequest:
        """Read a request; raises ValueError with a text that names the field if it is none."""

    def encode_reply(self, reply: ChatResponse) -> dict[str, Any]:
        """A whole reply as a body."""

    def encode_stream(self, reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
        """The same reply as server-sent events, each a text that ends with an empty line.

        Args:
            reply: The reply.
            piece: The most letters of text, thinking or arguments in one event.
        """

    def encode_error(self, status: int, message: str) -> dict[str, Any]:
        """The body of a refusal."""
