"""What a streamed reply tells while it arrives: one small frozen value for each thing that happened.

For a reply with text and one tool call they come in this order:

    connect
    content_block_start ─▶ content_block_delta, text  … ─▶ content_block_stop
    content_block_start ─▶ content_block_delta, input_json … ─▶ tool_call, content_block_stop
    message ─▶ final_message ─▶ end

and before the events that one raw event of the server led to stands a `stream_event` with the raw event
itself. A failure is `error` and then `end`; `abort` and then `end` if the caller stopped it. Each class has
its event's name as `.name`. Made by `draft.py` and `stream.py`; the values know nothing of who listens.

A `snapshot` is a live view of what has arrived so far: it is valid until the next event.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, get_args

from stage0_gateway.errors import GatewayError
from stage0_gateway.messages import Message
from stage0_gateway.parts import Citation, Part, ToolCall
from stage0_gateway.response import ChatResponse

BlockKind = Literal["text", "thinking", "tool_call", "provider"]


class _Text(Protocol):
    @property
    def text(self) -> str: ...


class _Arguments(Protocol):
    @property
    def snapshot(self) -> Any: ...


class _Draft(Protocol):
    def message(self) -> Message: ...


@dataclass(frozen=True, slots=True)
class ConnectEvent:
    """The server took the request and began to answer.

    Attributes:
        model: The model that was asked, as the server knows it.
        url: Where: scheme, host and path only.
        attempt: 1 for the first try.
    """

    name: ClassVar[Literal["connect"]] = "connect"
    model: str
    url: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RawEvent:
    """One event as the server sent it, before what it means.

    Attributes:
        data: Its JSON, read.
    """

    name: ClassVar[Literal["stream_event"]] = "stream_event"
    data: Any
    _draft: _Draft = field(repr=False, compare=False)

    @property
    def message(self) -> Message:
        """The message so far, this event included."""
        return self._draft.message()


@dataclass(frozen=True, slots=True)
class _Words:
    """More words of a block.

    Attributes:
        delta: What is new.
        index: The block.
    """

    delta: str
    index: int
    _block: _Text = field(repr=False, compare=False)

    @property
    def snapshot(self) -> str:
        """All words of this block so far."""
        return self._block.text


class TextEvent(_Words):
    """More text of the answer."""

    __slots__ = ()
    name: ClassVar[Literal["text"]] = "text"


class ThinkingEvent(_Words):
    """More of what the model thinks."""

    __slots__ = ()
    name: ClassVar[Literal["thinking"]] = "thinking"


@dataclass(frozen=True, slots=True)
class SignatureEvent:
    """The provider signed a block of thinking; it wants to see both again."""

    name: ClassVar[Literal["signature"]] = "signature"
    signature: str
    index: int


@dataclass(frozen=True, slots=True)
class CitationEvent:
    """The text of a block cites this."""

    name: ClassVar[Literal["citation"]] = "citation"
    citation: Citation
    index: int


@dataclass(frozen=True, slots=True)
class InputJsonEvent:
    """More of a tool call's arguments, as JSON text.

    `snapshot` is the arguments as far as they can be read: a read-only view, good for showing, never for running.
    """

    name: ClassVar[Literal["input_json"]] = "input_json"
    delta: str
    index: int
    _block: _Arguments = field(repr=False, compare=False)

    @property
    def snapshot(self) -> Any:
        """The arguments so far, or None where nothing can be read yet."""
        return self._block.snapshot


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """A tool call is complete."""

    name: ClassVar[Literal["tool_call"]] = "tool_call"
    tool_call: ToolCall
    index: int


@dataclass(frozen=True, slots=True)
class ContentBlockStartEvent:
    """A block begins: text, thinking, a tool call, or something only the provider has a word for.

    Attributes:
        index: Its place in the order of beginning.
        kind: What it is.
        tool: The name of the tool where it is a call.
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
    """The reply is complete: the same `ChatResponse` that `chat` would have given."""

    name: ClassVar[Literal["final_message"]] = "final_message"
    response: ChatResponse


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The stream failed."""

    name: ClassVar[Literal["error"]] = "error"
    error: GatewayError


@dataclass(frozen=True, slots=True)
class AbortEvent:
    """The caller stopped the stream."""

    name: ClassVar[Literal["abort"]] = "abort"
    reason: str | None


@dataclass(frozen=True, slots=True)
class EndEvent:
    """Nothing comes after this, however it went."""

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
