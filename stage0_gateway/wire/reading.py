"""Reading a reply with any format's reader, and saying so when the server does not keep to the
format.

A reader takes what it needs out of a body without asking twice; whatever is missing or of another
type makes it fail, and here that becomes one clear `MalformedResponse`. Used by the wire formats
for whole replies, and by `incoming.py` for streams.
"""

from collections.abc import Mapping
from typing import Any

from stage0_gateway.errors import MalformedResponse, StreamInterrupted
from stage0_gateway.response import ChatResponse
from stage0_gateway.wire import ReplyReader
from stage0_gateway.wire.refusal import refused_in_reply, refused_in_stream, says_no

_MOST_WHY = 300
_NOT_THE_FORMAT = (LookupError, TypeError, ValueError, AttributeError, RecursionError)


def read_whole(
    reader: ReplyReader, body: Mapping[str, Any], request_id: str | None = None
) -> ChatResponse:
    """Read a reply that came in one piece.

    Args:
        reader: A new one.
        body: The JSON that came.
        request_id: The server's name for the exchange, where a header says it.

    Raises:
        MalformedResponse: There is no reply in it.
        GatewayError: There is an error in it.
    """
    reader.draft.request_id = request_id
    read_event(reader, body, whole=True)
    return reader.response(body)


def read_event(reader: ReplyReader, data: Any, *, whole: bool = False) -> None:
    """Read one event of a stream, or a reply that came in one piece.

    Raises:
        MalformedResponse: It is none.
        GatewayError: It stands for an error.
    """
    try:
        if says_no(data):
            raise refused_in_reply(data) if whole else refused_in_stream(data)
        if whole:
            reader.draft.whole = True
            reader.feed_whole(data)
        else:
            reader.feed(data)
    except _NOT_THE_FORMAT as error:
        holds = sorted(map(str, data))[:20] if isinstance(data, Mapping) else type(data).__name__
        why = f"{type(error).__name__}: {error}"
        if len(why) > _MOST_WHY:  # what is cut may be a key, and would no longer be known for one
            why = type(error).__name__
        text = f"This is not a reply in the {reader.draft.wire} format ({why}). It holds {holds}."
        # Not chained: what the server said may hold a key, and only this text is searched for one.
        raise MalformedResponse(text, status=200) from None


def read_end(reader: ReplyReader) -> ChatResponse:
    """The reply, when its stream has ended.

    Raises:
        StreamInterrupted: The server had not said that this is all.
    """
    if not reader.complete:
        raise StreamInterrupted("The stream ended before the reply was complete.")
    return reader.response()
