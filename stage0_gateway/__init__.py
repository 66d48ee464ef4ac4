"""Stage 0: how do messages reach a model, and how does the reply come back?

    messages ─▶ wire format ─▶ HTTP ─▶ model server
    reply    ◀─ wire format ◀─ HTTP ◀─┘

Every call carries the whole conversation: this stage remembers nothing, and does not know what a reply means.

Reading order:
    errors          what can go wrong, as one tree
    usage           token counts as the server reports them
    fields          fields of a body, their types checked
    messages        what is said: messages, parts, tool calls
    request         what we ask for
    response        what came back
    events          what the gateway reports while it works
    wire            what a wire format offers
    wire/openai     request to JSON, JSON to reply
    models          "provider:name" to a URL and a wire format
    redact          secrets out of texts
    connection      the one file that opens connections
    retry           send again what may succeed
    gateway         Gateway: all of it together

Sometimes:
    settings            Gateway.from_env: what the environment says
    serve/openai        the reverse direction: JSON to request, reply to JSON
    scripted            ScriptedModel: replays given replies
    offline/outcomes    the embedded model: what has been done about a question
    offline/reading     what a request shows it
    offline/words       words, and when two mean the same
    offline/matching    which tool fits the question
    offline/pieces      numbers, names, dates … in the question
    offline/wanted      what a parameter asks for
    offline/numbers     which number belongs to which parameter
    offline/names       which name belongs to which parameter
    offline/strings     a text for a parameter
    offline/schema      a schema that may be anything
    offline/filling     arguments out of the question
    offline/planning    the calls a question needs
    offline/telling     a sentence out of the results
    offline/chatting    what it says when there is nothing to call
    offline/teacher     its rules put together
    offline/endpoint    its answers as HTTP bodies
    offline             OfflineModel: the transport
    serve/tcp           the embedded model over real HTTP
    __main__            python -m stage0_gateway serve
"""

from stage0_gateway.connection import Timeouts
from stage0_gateway.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    ContextOverflow,
    GatewayError,
    InvalidRequest,
    MalformedResponse,
    RateLimited,
    RequestTimeout,
    ServerFailed,
    StreamInterrupted,
)
from stage0_gateway.events import GatewayEvent, RequestEvent, ResponseEvent, RetryEvent
from stage0_gateway.gateway import Gateway
from stage0_gateway.messages import (
    DocumentPart,
    ImagePart,
    JsonPart,
    Message,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCall,
    as_message,
)
from stage0_gateway.offline import OfflineModel
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse, FinishReason
from stage0_gateway.scripted import ScriptedModel, ScriptError
from stage0_gateway.usage import Usage

__all__ = [
    "AuthenticationFailed",
    "ChatRequest",
    "ChatResponse",
    "ConfigurationError",
    "ConnectionFailed",
    "ContextOverflow",
    "DocumentPart",
    "FinishReason",
    "Gateway",
    "GatewayError",
    "GatewayEvent",
    "ImagePart",
    "InvalidRequest",
    "JsonPart",
    "MalformedResponse",
    "Message",
    "OfflineModel",
    "Part",
    "RateLimited",
    "RequestEvent",
    "RequestTimeout",
    "ResponseEvent",
    "RetryEvent",
    "Role",
    "ScriptError",
    "ScriptedModel",
    "ServerFailed",
    "StreamInterrupted",
    "TextPart",
    "ThinkingPart",
    "Timeouts",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "as_message",
]
