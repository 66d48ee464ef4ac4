"""`WireFormat`: the functions that each module of a wire format has.

`http/endpoint.py` selects the module by the provider. A second module per format decodes replies.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from stage0_gateway.messages import Message
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse
from stage0_gateway.wire.reader import ReplyReader


class WireFormat(Protocol):
    """The interface of a wire format's module.

    Attributes:
        NAME: The name under which provider data is stored.
        MESSAGES: The field of a body that holds the conversation.
    """

    NAME: str
    MESSAGES: str

    def path(self, model: str, *, stream: bool = False) -> str:
        """Return the path after the base URL for requests to a model."""

    def headers(self, api_key: str | None) -> dict[str, str]:
        """Return the headers that carry the key."""

    def encode(self, request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
        """Encode a request as the JSON body; omitted settings are left out."""

    def encode_messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Encode a conversation as the value of the field `MESSAGES`.

        The encoding of a conversation is the concatenation of the encodings of its exchanges. An
        exchange is a user or assistant message with all messages of other roles that follow it, if
        its results answer its own calls.
        """

    def encode_tools(self, tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
        """Encode tools as the value of the field `tools`."""

    def encode_reasoning(self, request: ChatRequest) -> dict[str, Any]:
        """Encode the setting `reasoning` of a request as fields of the body.

        Raises:
            ConfigurationError: The model does not accept the setting.
        """

    def reader(self, names: Mapping[str, str] | None = None) -> ReplyReader:
        """Return a reader for one reply.

        Args:
            names: The tools' own names, by the names under which they were sent.
        """

    def decode(self, body: Mapping[str, Any]) -> ChatResponse:
        """Decode a whole reply.

        Raises:
            MalformedResponse: The body contains no reply.
            GatewayError: The body contains an error.
        """
