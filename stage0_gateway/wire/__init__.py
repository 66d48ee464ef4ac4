"""Wire formats: how a `ChatRequest` becomes a provider's JSON, and its answer a `ChatResponse`.

Each format is one module of pure functions, the ones of `WireFormat`: values go in, values come out, and
nothing here opens a connection, waits or reads the clock. The gateway picks the module by the model's
prefix.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from stage0_gateway.errors import GatewayError
from stage0_gateway.request import ChatRequest
from stage0_gateway.response import ChatResponse


class WireFormat(Protocol):
    """What a wire format module offers."""

    def path(self, model: str) -> str:
        """The path behind the base URL to which a request for this model is posted."""

    def headers(self, api_key: str | None) -> dict[str, str]:
        """The headers that carry the key."""

    def encode(self, request: ChatRequest) -> dict[str, Any]:
        """The JSON body that asks for this."""

    def decode(self, body: Mapping[str, Any], request_id: str | None = None) -> ChatResponse:
        """The reply in a body; raises MalformedResponse if it is none."""

    def decode_error(self, status: int, body: Any, retry_after: float | None = None) -> GatewayError:
        """The error that a refusing answer stands for; `body` is JSON, or text where it was not JSON."""
