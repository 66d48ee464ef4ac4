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
    model          `ChatModel`: what the later stages know about a model
    retry          which errors are retried, and after which wait
    settings       the model and the key from environment variables
    gateway        `Gateway`: encode, post, read, retry, fall back

Rooms:
    streaming/     server-sent events, the events of a reply, `MessageStream`
    wire/          the formats of OpenAI (two), Anthropic and Gemini: requests and replies
    http/          endpoints, encoded requests, connections, responses, redaction
    accounting/    costs, and a check for truncated prompts
    server/        the wire formats in reverse: decode requests, encode replies
    recording/     `Recorder` and `Replayer`: traffic in a file, without secrets
    offline/       `ScriptedModel` and the rule-based `OfflineModel`
"""

from stage0_gateway.accounting.prices import GenaiPrices, Price, Prices, PriceTable
from stage0_gateway.errors import (
    FUNCTION,
    Accepted,
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
    check_arguments,
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
from stage0_gateway.http.known_secrets import KnownSecrets
from stage0_gateway.http.redaction import redact
from stage0_gateway.http.response import Timeouts
from stage0_gateway.messages import Message, Messages, Role, as_message, as_messages
from stage0_gateway.model import Chat, ChatModel, chat_of, is_model
from stage0_gateway.offline.model import OfflineModel, offline_faults, offline_server
from stage0_gateway.offline.scripted import ScriptedModel, ScriptedReply, ScriptError
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
from stage0_gateway.recording.private_file import private_opener, write_private
from stage0_gateway.recording.recorder import Recorder
from stage0_gateway.recording.replayer import Replayer, ReplayMiss
from stage0_gateway.request import ChatOptions, ChatRequest, Reasoning, ToolSpec
from stage0_gateway.response import (
    ChatResponse,
    FailedAttempt,
    FinishReason,
    Usage,
    normalize_finish_reason,
    response_of,
)
from stage0_gateway.server.format import ServerFormat
from stage0_gateway.streaming.events import StreamEvent, TextEvent
from stage0_gateway.streaming.stream import MessageStream
from stage0_gateway.wire.format import WireFormat

__all__ = [
    "FUNCTION",
    "Accepted",
    "AuthenticationFailed",
    "Chat",
    "ChatModel",
    "ChatOptions",
    "ChatRequest",
    "ChatResponse",
    "Citation",
    "ConfigurationError",
    "ConnectionFailed",
    "ContextOverflow",
    "DocumentPart",
    "FailedAttempt",
    "FallbackEvent",
    "FinishReason",
    "Gateway",
    "GatewayError",
    "GatewayEvent",
    "GenaiPrices",
    "ImagePart",
    "InvalidRequest",
    "JsonPart",
    "KnownSecrets",
    "MalformedResponse",
    "Message",
    "MessageStream",
    "Messages",
    "OfflineModel",
    "Part",
    "Price",
    "PriceTable",
    "Prices",
    "ProviderData",
    "ProviderPart",
    "RateLimited",
    "Reasoning",
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
    "ScriptedReply",
    "ServerFailed",
    "ServerFormat",
    "StreamEvent",
    "StreamInterrupted",
    "TextEvent",
    "TextPart",
    "ThinkingPart",
    "Timeouts",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "WarningEvent",
    "WireFormat",
    "as_message",
    "as_messages",
    "chat_of",
    "check_arguments",
    "is_model",
    "normalize_finish_reason",
    "offline_faults",
    "offline_server",
    "private_opener",
    "redact",
    "response_of",
    "write_private",
]
