"""A request as it is sent to one model: its URL, and its body in that model's wire format.

A frozen value, made once and sent as often as it takes. Knows no HTTP; used by `sending.py`, `incoming.py`
and the gateway.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stage0_gateway.models import Target
from stage0_gateway.request import ChatRequest
from stage0_gateway.wire.names import own_names


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it is sent to one model.

    Attributes:
        target: The model, and where it is.
        request: What is asked.
        body: The same as bytes of JSON.
        url: Where it is posted.
        names: Tool names that had to be sent otherwise, back to what they are.
    """

    target: Target
    request: ChatRequest
    body: bytes = field(repr=False)
    url: str = field(repr=False)  # its query may hold a key
    names: Mapping[str, str]

    @property
    def public_url(self) -> str:
        """The URL without its query, fit to be printed."""
        return self.url.partition("?")[0]


def outgoing(target: Target, request: ChatRequest, *, stream: bool) -> Outgoing:
    """Encode a request for a model.

    Raises:
        ValueError: It holds what JSON cannot.
    """
    body = to_json(target.encode(request, stream=stream))
    url = target.stream_url if stream else target.url
    return Outgoing(target, request, body, url, own_names(request.tools))


def to_json(body: dict[str, Any]) -> bytes:
    """A body as compact UTF-8.

    Raises:
        ValueError: It holds what JSON cannot.
    """
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(f"The request holds what JSON cannot: {error}.") from error
    except UnicodeEncodeError:  # half a surrogate pair: legal in Python text, not in UTF-8
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
