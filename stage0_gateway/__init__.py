"""Stage 0: how do messages reach a model, and how does the reply come back?

    messages ─▶ wire format ─▶ HTTP ─▶ model server
    reply    ◀─ wire format ◀─ HTTP ◀─┘

Every call carries the whole conversation: this stage remembers nothing, and does not know what a
reply means.

Reading order:
    errors                  what can go wrong, as one tree
    usage                   token counts as the server reports them
    fields                  fields of a body, their types checked
    parts                   what a message is made of
    encoding                one encoding per message and wire format
    messages                what is said
    request                 what we ask for
    finish_reasons          a server's finish reasons in our words
    response                what came back
    events                  what the gateway reports while it works
    partial                 text and JSON that arrive in pieces
    stream_events           what a streamed reply tells while it arrives
    draft                   a reply while it is being read
    sse                     bytes to server-sent events
    wire                    what a wire format offers
    wire/names              tool names as providers accept them
    wire/opaque             what is kept for a provider, and goes back
    wire/refusal            a server says no
    wire/reading            a reply, or not the format
    wire/call_deltas        which call a piece of a stream belongs to
    wire/openai_reply       reading OpenAI's replies, and most other servers'
    wire/openai             the format: requests, and the reader above
    wire/anthropic_reply    reading Anthropic's
    wire/anthropic          the format
    wire/gemini_reply       reading Gemini's
    wire/gemini             the format
    redact                  secrets out of texts
    models                  "provider:name" to a URL and a wire format
    exchange                one reply of a server, read within its limits
    pool                    httpx connections, one per concurrent request
    connection              a request over a pool or another transport
    outgoing                a request as it is sent
    sending                 one request sent, its reply read in one piece
    incoming                a streamed reply on its way in
    retry                   send again what may succeed
    fallback                ask the next model
    truncation              notice a prompt that was cut
    stream                  MessageStream: watch a reply arrive
    settings                the settings that the environment contains
    gateway                 Gateway: all of it together
    cost                    token counts to dollars
    serve                   the wire formats in reverse: what each module offers
    serve/answer            an HTTP response as a value
    serve/in_process        a response without a network
    credentials             find the secrets in a request
    recording_format        recorded exchanges as lines of a file
    recording               Recorder: a transport that records traffic
    replay                  Replayer: a transport that answers from a recording
    scripted                ScriptedModel: replays given replies
    offline                 OfflineModel: the embedded model as a transport

Sometimes:
    fast                    aiohttp connections, where httpx-aiohttp is installed
    serve/decoding          what its formats share when they decode requests
    serve/encoding          and when they encode replies
    serve/openai            OpenAI's requests and replies, seen from the server
    serve/anthropic         Anthropic's
    serve/gemini            Gemini's
    serve/formats           which format a path belongs to
    offline/conversation    the embedded model: what a request contains
    offline/words           choose a tool by shared words
    offline/arguments       fill arguments from the question
    offline/replies         describe results, answer without tools
    offline/teacher         the next call or the reply
    offline/faults          replies that are wrong on purpose
    offline/endpoint        its answers as HTTP bodies
    serve/tcp               the embedded model over real HTTP
    __main__                python -m stage0_gateway serve
"""

from stage0_gateway.accounting.prices import GenaiPrices, Price, PriceTable
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
from stage0_gateway.finish_reasons import FinishReason, normalize_finish_reason
from stage0_gateway.gateway import Gateway
from stage0_gateway.http.response import Timeouts
from stage0_gateway.messages import Message, Role, as_message
from stage0_gateway.offline import OfflineModel
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
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.events import StreamEvent
from stage0_gateway.streaming.stream import MessageStream
from stage0_gateway.usage import Prices, Usage

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
