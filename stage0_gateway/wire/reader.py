"""`ReplyReader`: decodes one reply, whole or event by event.

Each wire format has a subclass that accesses the fields it needs without checks. This base class
converts a failed access to one clear `MalformedResponse`, and an error in the body to its
`GatewayError`. `http/` feeds the readers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from stage0_gateway.errors import GatewayError, MalformedResponse, StreamInterrupted
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.reply_builder import ReplyBuilder
from stage0_gateway.wire.error_body import error_in_event, error_in_reply

_MAX_REASON = 300  # characters
_INVALID = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
_REPLY_FIELDS = {
    "choices",
    "candidates",
    "content",
    "type",
    "usage",
    "usageMetadata",
    "promptFeedback",
}


class ReplyReader(ABC):
    """Decodes one reply.

    Attributes:
        builder: The reply received so far.
        complete: Whether the server reported the end of the reply; token counts may follow.
        over: Whether the server reported that nothing follows.
    """

    def __init__(self, wire: str, names: Mapping[str, str] | None = None) -> None:
        self.builder = ReplyBuilder(wire, names)
        self.complete = self.over = False

    @abstractmethod
    def feed(self, data: Mapping[str, Any]) -> None:
        """Decode one event of a stream.

        Raises:
            GatewayError: The event contains an error.
            LookupError, TypeError, ValueError, AttributeError: It does not follow the format.
        """

    @abstractmethod
    def feed_whole(self, body: Mapping[str, Any]) -> None:
        """Decode a whole reply; raises like `feed`."""

    def read_event(self, data: Any) -> None:
        """Decode one event of a stream.

        Raises:
            MalformedResponse: The event does not follow the format.
            GatewayError: The event contains an error.
        """
        try:
            if is_error(data):
                raise error_in_event(data)
            self.feed(data)
        except _INVALID as error:
            raise self._malformed(data, error) from None

    def decode_whole(self, body: Any) -> ChatResponse:
        """Decode a whole reply; raises a `GatewayError` if the body is invalid or an error."""
        try:
            if is_error(body):
                raise error_in_reply(body)
            self.builder.is_whole = True
            self.feed_whole(body)
        except _INVALID as error:
            raise self._malformed(body, error) from None
        return self.response(body)

    def response(self, raw: Any = None) -> ChatResponse:
        """Return the reply, after all of it arrived."""
        return self.builder.response(raw)

    def end(self) -> ChatResponse:
        """Return the reply after the end of its stream.

        Raises:
            StreamInterrupted: The reply is not complete.
        """
        if not self.complete:
            raise StreamInterrupted("The stream ended before the reply was complete.")
        return self.response()

    def _malformed(self, data: Any, error: Exception) -> GatewayError:
        """Return the error for an invalid body.

        The original error is not chained: it may contain a key, and only this text is redacted.
        """
        content = f"It is a {type(data).__name__}"
        if isinstance(data, Mapping):
            content = f"Its fields are {sorted(map(str, data))[:20]}"
        reason = f"{type(error).__name__}: {error}"
        if len(reason) > _MAX_REASON:  # the rest of a truncated key could not be recognized
            reason = type(error).__name__
        return MalformedResponse(
            f"This is not a reply in the {self.builder.wire} format ({reason}). {content}.",
            status=200,
        )


def is_error(data: Mapping[str, Any]) -> bool:
    """Return whether a body with status 200 contains an error, in any of the servers' formats."""
    if data.get("error") or "error" in (data.get("object"), data.get("type")):
        return True
    if not _REPLY_FIELDS.isdisjoint(data):
        return False
    values = map(data.get, ("message", "detail", "errors"))
    return any(isinstance(value, str | list) and value for value in values)
