"""The wire formats in reverse: what a model server does with them.

A body becomes a `ChatRequest`, and a `ChatResponse` becomes a body or the events of a stream. The
offline and the scripted model use these modules, one per format, and tests use them to check
`wire/`: what one side encodes, the other decodes to the same value. Pure, like `wire/`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse


class ServerFormat(Protocol):
    """The functions that each format's module has.

    Attributes:
        NAME: The format's name, the same as in `wire/`.
    """

    NAME: str

    def is_path(self, path: str) -> bool:
        """Whether a request to this path, its query included, is in this format."""

    def wants_stream(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether the request asks for a stream."""

    def decode_request(self, body: Mapping[str, Any], path: str = "") -> ChatRequest:
        """Decode a request; raises ValueError with a text that names the wrong field."""

    def encode_reply(self, reply: ChatResponse) -> dict[str, Any]:
        """Encode a whole reply."""

    def encode_stream(self, reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
        """Encode the same reply as server-sent events, each a text that ends with an empty line.

        Args:
            reply: The reply.
            piece: The maximum number of characters of text, thinking or arguments in one event.
        """

    def encode_error(self, status: int, message: str) -> dict[str, Any]:
        """Encode an error."""
