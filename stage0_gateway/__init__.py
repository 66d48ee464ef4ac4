"""Stage 0: how do messages reach a model, and how does the reply return?

    messages ─▶ wire format ─▶ HTTP ─▶ model server
    reply    ◀─ wire format ◀─ HTTP ◀─┘

Every call carries the whole conversation. This stage stores nothing between calls, and does not
interpret replies.

Reading order:
    errors         the errors, as one tree
    json_fields    fields of JSON with type checks
    parts          the parts of a message, and tool calls
    messages       `Message`, with a cache of its encodings
    request        `ChatRequest` and the description of a tool
    response       `ChatResponse`, token counts and finish reasons
    events         what the gateway reports about a request
    retry          which errors are retried, and after which wait
    settings       the model and the key from environment variables
    gateway        `Gateway`: encode, post, read, retry, fall back
    __main__       `python -m stage0_gateway serve`

Rooms:
    streaming/     server-sent events, the events of a reply, `MessageStream`
    wire/          the formats of OpenAI, Anthropic and Gemini: requests and replies
    http/          endpoints, encoded requests, connections, responses, redaction
    accounting/    costs, and a check for truncated prompts
    server/        the wire formats in reverse: decode requests, encode replies
    recording/     `Recorder` and `Replayer`: traffic in a file, without secrets
    offline/       `ScriptedModel` and the rule-based `OfflineModel`
"""

from stage0_gateway.accounting.prices import GenaiPrices, Price, Prices, PriceTable
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
from stage0_gateway.events import (
    FallbackEvent,
    GatewayEvent,
    RequestEvent,
    ResponseEvent,
    RetryEvent,
    WarningEvent,
)
from stage0_gateway.gateway import Gateway
from stage0_gateway.http.response import Timeouts
from stage0_gateway.messages import Message, Role, as_message
from stage0_gateway.offline.model import OfflineModel
from stage0_gateway.offline.scripted import ScriptedModel, ScriptError
from stage0_gateway.parts import (
    Citation,
    DocumentPart,
    ImagePart,
    JsonPart,
    Part,
    ProviderData,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.recording.recorder import Recorder
from stage0_gateway.recording.replayer import Replayer, ReplayMiss
from stage0_gateway.request import ChatOptions, ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse, FinishReason, Usage, normalize_finish_reason
from stage0_gateway.streaming.events import StreamEvent
from stage0_gateway.streaming.stream import MessageStream

__all__ = [
    "AuthenticationFailed",
    "ChatOptions",
    "ChatRequest",
    "ChatResponse",
    "Citation",
    "ConfigurationError",
    "ConnectionFailed",
    "ContextOverflow",
    "DocumentPart",
    "FallbackEvent",
    "FinishReason",
    "Gateway",
    "GatewayError",
    "GatewayEvent",
    "GenaiPrices",
    "ImagePart",
    "InvalidRequest",
    "JsonPart",
    "MalformedResponse",
    "Message",
    "MessageStream",
    "OfflineModel",
    "Part",
    "Price",
    "PriceTable",
    "Prices",
    "ProviderData",
    "ProviderPart",
    "RateLimited",
    "Recorder",
    "ReplayMiss",
    "Replayer",
    "RequestEvent",
    "RequestTimeout",
    "ResponseEvent",
    "RetryEvent",
    "Role",
    "ScriptError",
    "ScriptedModel",
    "ServerFailed",
    "StreamEvent",
    "StreamInterrupted",
    "TextPart",
    "ThinkingPart",
    "Timeouts",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "WarningEvent",
    "as_message",
    "normalize_finish_reason",
]
