"""Events of a streamed reply: one small frozen value for each step.

For a reply with text and one tool call they arrive in this order:

    connect
    content_block_start ─▶ content_block_delta, text  … ─▶ content_block_stop
    content_block_start ─▶ content_block_delta, input_json … ─▶ tool_call, content_block_stop
    message ─▶ final_message ─▶ end

A `stream_event` with the server's raw event precedes the events that were decoded from it. A
failure is `error` and then `end`. An abort by the caller is `abort` and then `end`. Each class has
the name of its event as `.name`.

A `snapshot` is the block up to and including its event. It is computed on each access from the
pieces that all events of the block share. Reading every snapshot of a long block therefore takes
quadratic time.

`reply_builder.py` and `stream.py` create the events. The values know no listeners.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from stage0_gateway.errors import GatewayError
from stage0_gateway.messages import Message
from stage0_gateway.parts import Citation, Part, ToolCall
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.partial import GrowingText, partial_json

BlockKind = Literal["text", "thinking", "tool_call", "provider"]


@dataclass(frozen=True, slots=True)
class ConnectEvent:
    """The server accepted the request and began to reply.

    Attributes:
        model: The model's name on its server.
        url: The URL: scheme, host and path only.
        attempt: The number of the attempt, starting at 1.
    """

    name: ClassVar[Literal["connect"]] = "connect"
    model: str
    url: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RawEvent:
    """One raw event of the server.

    Attributes:
        data: The parsed JSON of the event, without secrets.
    """

    name: ClassVar[Literal["stream_event"]] = "stream_event"
    data: Any


@dataclass(frozen=True, slots=True)
class _BlockDelta:
    """A piece of a block.

    Attributes:
        delta: The piece.
        index: The block's index.
    """

    delta: str
    index: int
    _text: GrowingText = field(repr=False, compare=False)
    _length: int = field(repr=False, compare=False)

    @property
    def snapshot(self) -> Any:
        """The text of the block up to and including this piece."""
        return str(self._text)[: self._length]


class TextEvent(_BlockDelta):
    """A piece of the reply's text."""

    __slots__ = ()
    name: ClassVar[Literal["text"]] = "text"


class ThinkingEvent(_BlockDelta):
    """A piece of the model's thinking."""

    __slots__ = ()
    name: ClassVar[Literal["thinking"]] = "thinking"


class InputJsonEvent(_BlockDelta):
    """A piece of a tool call's arguments, as JSON text."""

    __slots__ = ()
    name: ClassVar[Literal["input_json"]] = "input_json"

    @property
    def snapshot(self) -> Any:
        """The readable part of the arguments up to and including this piece, or None.

        Each access returns a new value. It is for display only: arguments may change until the call
        is complete.
        """
        return partial_json(str(self._text)[: self._length])


@dataclass(frozen=True, slots=True)
class SignatureEvent:
    """The provider signed a block; both must be sent back to it."""

    name: ClassVar[Literal["signature"]] = "signature"
    signature: str
    index: int


@dataclass(frozen=True, slots=True)
class CitationEvent:
    """The text of a block cites a source."""

    name: ClassVar[Literal["citation"]] = "citation"
    citation: Citation
    index: int


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """A tool call is complete."""

    name: ClassVar[Literal["tool_call"]] = "tool_call"
    tool_call: ToolCall
    index: int


@dataclass(frozen=True, slots=True)
class ContentBlockStartEvent:
    """A block starts.

    Attributes:
        index: The block's index.
        kind: Text, thinking, a tool call, or a kind that only the provider has.
        tool: The tool's name if the block is a call.
    """

    name: ClassVar[Literal["content_block_start"]] = "content_block_start"
    index: int
    kind: BlockKind
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class ContentBlockDeltaEvent:
    """A block grows."""

    name: ClassVar[Literal["content_block_delta"]] = "content_block_delta"
    index: int
    kind: BlockKind
    delta: str


@dataclass(frozen=True, slots=True)
class ContentBlockStopEvent:
    """A block is complete."""

    name: ClassVar[Literal["content_block_stop"]] = "content_block_stop"
    index: int
    kind: BlockKind
    part: Part | ToolCall


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """The message is complete."""

    name: ClassVar[Literal["message"]] = "message"
    message: Message


@dataclass(frozen=True, slots=True)
class FinalMessageEvent:
    """The reply is complete: the same `ChatResponse` that `chat` returns."""

    name: ClassVar[Literal["final_message"]] = "final_message"
    response: ChatResponse


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The stream failed."""

    name: ClassVar[Literal["error"]] = "error"
    error: GatewayError


@dataclass(frozen=True, slots=True)
class AbortEvent:
    """The caller aborted the stream."""

    name: ClassVar[Literal["abort"]] = "abort"
    reason: str | None


@dataclass(frozen=True, slots=True)
class EndEvent:
    """The last event of every stream."""

    name: ClassVar[Literal["end"]] = "end"


StreamEvent = (
    ConnectEvent
    | RawEvent
    | TextEvent
    | ThinkingEvent
    | SignatureEvent
    | CitationEvent
    | InputJsonEvent
    | ToolCallEvent
    | ContentBlockStartEvent
    | ContentBlockDeltaEvent
    | ContentBlockStopEvent
    | MessageEvent
    | FinalMessageEvent
    | ErrorEvent
    | AbortEvent
    | EndEvent
)
EVENT_NAMES: frozenset[str] = frozenset(kind.name for kind in get_args(StreamEvent))
