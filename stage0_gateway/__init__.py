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

# The form `Name as Name` exports a name, also for type checkers.
from stage0_gateway.accounting.prices import GenaiPrices as GenaiPrices
from stage0_gateway.accounting.prices import Price as Price
from stage0_gateway.accounting.prices import Prices as Prices
from stage0_gateway.accounting.prices import PriceTable as PriceTable
from stage0_gateway.errors import FUNCTION as FUNCTION
from stage0_gateway.errors import Accepted as Accepted
from stage0_gateway.errors import AuthenticationFailed as AuthenticationFailed
from stage0_gateway.errors import ConfigurationError as ConfigurationError
from stage0_gateway.errors import ConnectionFailed as ConnectionFailed
from stage0_gateway.errors import ContextOverflow as ContextOverflow
from stage0_gateway.errors import GatewayError as GatewayError
from stage0_gateway.errors import InvalidRequest as InvalidRequest
from stage0_gateway.errors import MalformedResponse as MalformedResponse
from stage0_gateway.errors import RateLimited as RateLimited
from stage0_gateway.errors import RequestTimeout as RequestTimeout
from stage0_gateway.errors import ServerFailed as ServerFailed
from stage0_gateway.errors import StreamInterrupted as StreamInterrupted
from stage0_gateway.errors import check_arguments as check_arguments
from stage0_gateway.events import FallbackEvent as FallbackEvent
from stage0_gateway.events import GatewayEvent as GatewayEvent
from stage0_gateway.events import RequestEvent as RequestEvent
from stage0_gateway.events import ResponseEvent as ResponseEvent
from stage0_gateway.events import RetryEvent as RetryEvent
from stage0_gateway.events import WarningEvent as WarningEvent
from stage0_gateway.gateway import Gateway as Gateway
from stage0_gateway.http.known_secrets import KnownSecrets as KnownSecrets
from stage0_gateway.http.redaction import redact as redact
from stage0_gateway.http.response import Timeouts as Timeouts
from stage0_gateway.messages import Message as Message
from stage0_gateway.messages import Messages as Messages
from stage0_gateway.messages import Role as Role
from stage0_gateway.messages import as_message as as_message
from stage0_gateway.messages import as_messages as as_messages
from stage0_gateway.model import Chat as Chat
from stage0_gateway.model import ChatModel as ChatModel
from stage0_gateway.model import chat_of as chat_of
from stage0_gateway.model import is_model as is_model
from stage0_gateway.offline.model import OfflineModel as OfflineModel
from stage0_gateway.offline.model import offline_faults as offline_faults
from stage0_gateway.offline.model import offline_server as offline_server
from stage0_gateway.offline.scripted import ScriptedModel as ScriptedModel
from stage0_gateway.offline.scripted import ScriptedReply as ScriptedReply
from stage0_gateway.offline.scripted import ScriptError as ScriptError
from stage0_gateway.parts import Citation as Citation
from stage0_gateway.parts import DocumentPart as DocumentPart
from stage0_gateway.parts import ImagePart as ImagePart
from stage0_gateway.parts import JsonPart as JsonPart
from stage0_gateway.parts import Part as Part
from stage0_gateway.parts import ProviderData as ProviderData
from stage0_gateway.parts import ProviderPart as ProviderPart
from stage0_gateway.parts import TextPart as TextPart
from stage0_gateway.parts import ThinkingPart as ThinkingPart
from stage0_gateway.parts import ToolCall as ToolCall
from stage0_gateway.recording.private_file import private_opener as private_opener
from stage0_gateway.recording.private_file import write_private as write_private
from stage0_gateway.recording.recorder import Recorder as Recorder
from stage0_gateway.recording.replayer import Replayer as Replayer
from stage0_gateway.recording.replayer import ReplayMiss as ReplayMiss
from stage0_gateway.request import ChatOptions as ChatOptions
from stage0_gateway.request import ChatRequest as ChatRequest
from stage0_gateway.request import Reasoning as Reasoning
from stage0_gateway.request import ToolSpec as ToolSpec
from stage0_gateway.response import ChatResponse as ChatResponse
from stage0_gateway.response import FailedAttempt as FailedAttempt
from stage0_gateway.response import FinishReason as FinishReason
from stage0_gateway.response import Usage as Usage
from stage0_gateway.response import normalize_finish_reason as normalize_finish_reason
from stage0_gateway.response import response_of as response_of
from stage0_gateway.server.format import ServerFormat as ServerFormat
from stage0_gateway.streaming.events import StreamEvent as StreamEvent
from stage0_gateway.streaming.events import TextEvent as TextEvent
from stage0_gateway.streaming.stream import MessageStream as MessageStream
from stage0_gateway.wire.format import WireFormat as WireFormat

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
