"""`ServerFormat`: the functions that each format of this room has.

A body becomes a `ChatRequest`, and a `ChatResponse` becomes a body or the events of a stream.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
"""The schema of a reply for which a request demands JSON without a schema."""


class ServerFormat(Protocol):
    """The interface of a format's module.

    Attributes:
        NAME: The name of the format in `wire/`.
    """

    NAME: str

    def is_path(self, path: str) -> bool:
        """Return whether requests to this path, with its query, are in this format."""

    def decode_request(self, body: Mapping[str, Any], path: str = "") -> ChatRequest:
        """Decode a request; raises a ValueError that names the invalid field."""

    def encode_reply(self, reply: ChatResponse) -> dict[str, Any]:
        """Encode a whole reply."""

    def encode_stream(self, reply: ChatResponse, *, piece: int = 8) -> Iterator[str]:
        """Encode a reply as server-sent events; each ends with an empty line.

        Args:
            reply: The reply.
            piece: The maximum number of characters of text, thinking or arguments in one event.
        """

    def encode_error(self, status: int, message: str) -> dict[str, Any]:
        """Encode an error."""
