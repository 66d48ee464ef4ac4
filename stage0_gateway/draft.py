"""`Draft`: a reply while it is being read, block by block, until it is a `ChatResponse`.

Every wire format reads its replies into one of these, whole or streamed, with the same few methods; that is
why both ways end in equal responses. Knows no format and no transport. Whoever reads a stream takes the
events that each step left in `events`.
"""

from collections.abc import Collection, Mapping
from itertools import count
from typing import Any, ClassVar, TypeVar

from stage0_gateway.finish_reasons import is_complete, normalize_finish_reason
from stage0_gateway.json_stream import JsonReader
from stage0_gateway.messages import Message
from stage0_gateway.parts import Citation, Part, ProviderData, ProviderPart, TextPart, ThinkingPart, ToolCall
from stage0_gateway.response import ChatResponse
from stage0_gateway.stream_events import (
    BlockKind,
    CitationEvent,
    ContentBlockDeltaEvent,
    ContentBlockStartEvent,
    ContentBlockStopEvent,
    InputJsonEvent,
    SignatureEvent,
    StreamEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
)
from stage0_gateway.usage import Usage


class TextBlock:
    """Text, or thinking, that grows."""

    def __init__(self, index: int, kind: BlockKind) -> None:
        self.index, self.kind, self.open = index, kind, True
        self.pieces: list[str] = []
        self.citations: list[Citation] = []
        self.data: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """All of it so far; pieces that were joined once stay joined."""
        if len(self.pieces) > 1:
            # With no second reference CPython appends in place: looking after every piece stays linear.
            text, self.pieces[0] = self.pieces[0], ""
            text += "".join(self.pieces)
            self.pieces = [text]
        return self.pieces[0] if self.pieces else ""

    def part(self, wire: str) -> Part:
        """The part it is by now."""
        data = {wire: dict(self.data)} if self.data else None
        text = _letters(self.text)
        if self.kind == "thinking":
            return ThinkingPart(text, data)
        return TextPart(text, tuple(self.citations), data)


class CallBlock:
    """A tool call whose arguments grow.

    Attributes:
        no_arguments: The arguments of a call of which none were sent. It is not JSON, so that the call cannot
            run, until the reply is known to be complete.
    """

    kind: ClassVar[BlockKind] = "tool_call"

    def __init__(self, index: int, call_id: str, name: str) -> None:
        self.index, self.id, self.name, self.open = index, call_id, name, True
        self.pieces: list[str] = []
        self.data: dict[str, Any] = {}
        self.no_arguments = ""
        self._reader: JsonReader | None = None
        self._read = 0

    @property
    def snapshot(self) -> Any:
        """The arguments as far as they can be read."""
        return self._up_to_date().value

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a complete JSON value by now."""
        return self._up_to_date().complete

    def _up_to_date(self) -> JsonReader:
        """A reader of all pieces so far; nothing is read before somebody looks, and nothing twice."""
        reader = self._reader = self._reader or JsonReader()
        new, self._read = self.pieces[self._read :], len(self.pieces)
        for piece in new:
            reader.feed(piece)
        return reader

    def part(self, wire: str, **position: int) -> ToolCall:
        """The call so far."""
        data: ProviderData | None = {wire: {**self.data, **position}} if self.data or position else None
        arguments = _letters("".join(self.pieces)) or self.no_arguments
        return ToolCall(self.id, self.name or "unnamed", arguments, data)


class ProviderBlock:
    """Something that only the provider has a word for."""

    kind: ClassVar[BlockKind] = "provider"

    def __init__(self, index: int, data: Mapping[str, Any]) -> None:
        self.index, self.open = index, True
        self.data = dict(data)

    def part(self, wire: str) -> ProviderPart:
        """The part it is by now."""
        return ProviderPart(wire, dict(self.data))


Block = TextBlock | CallBlock | ProviderBlock
B = TypeVar("B", bound=Block)


class Draft:
    """What has arrived of a reply.

    Args:
        wire: The name of the wire format that fills it.
        names: Tool names as they were sent, to what they are really called.
        wanted: The names of the events somebody waits for; no other is made.

    Attributes:
        blocks: Text, thinking, calls …, in the order in which they began.
        events: What has happened and was not taken yet.
        whole: Whether the reply came in one piece, not as a stream.
    """

    def __init__(
        self, wire: str, names: Mapping[str, str] | None = None, wanted: Collection[str] = ()
    ) -> None:
        self.wire, self.wanted = wire, wanted
        self.blocks: list[Block] = []
        self.events: list[StreamEvent] = []
        self.usage: Usage | None = None
        self.cost: float | None = None
        self.model: str | None = None
        self.request_id: str | None = None
        self.raw_finish_reason: str | None = None
        self.refusal: str | None = None
        self.block_reason: str | None = None
        self.whole = False
        self._names = names or {}
        self._ids: set[str] = set()
        self._ended = False

    # ---- blocks begin, grow and end ---------------------------------------------------------------------

    def start_text(self, kind: BlockKind = "text") -> TextBlock:
        """Begin a block of text or thinking."""
        return self._begin(TextBlock(len(self.blocks), kind))

    def start_call(self, call_id: str, name: str) -> CallBlock:
        """Begin a tool call; a missing id is made up."""
        call_id = call_id or self._new_id()
        self._ids.add(call_id)
        block = CallBlock(len(self.blocks), call_id, self._names.get(name, name))
        return self._begin(block, block.name)

    def _new_id(self) -> str:
        """An id no other call of this reply has; the session makes it unique among its turns."""
        return next(made for n in count(len(self._ids)) if (made := f"call_{n}") not in self._ids)

    def name(self, block: CallBlock, name: str) -> None:
        """Say what a call is called, where it was not known when it began."""
        block.name = self._names.get(name, name)

    def start_provider(self, data: Mapping[str, Any]) -> ProviderBlock:
        """Begin something that is kept as it is."""
        return self._begin(ProviderBlock(len(self.blocks), data))

    def _begin(self, block: B, tool: str | None = None) -> B:
        self.blocks.append(block)
        if "content_block_start" in self.wanted:
            self.events.append(ContentBlockStartEvent(block.index, block.kind, tool))
        return block

    def write(self, block: TextBlock, delta: str) -> None:
        """Add to text or thinking."""
        if not self._add(block, delta):
            return
        if block.kind == "text":
            if "text" in self.wanted:
                self.events.append(TextEvent(delta, block.index, block))
        elif "thinking" in self.wanted:
            self.events.append(ThinkingEvent(delta, block.index, block))

    def fill(self, block: CallBlock, delta: str) -> None:
        """Add to the arguments of a call."""
        if self._add(block, delta) and "input_json" in self.wanted:
            self.events.append(InputJsonEvent(delta, block.index, block))

    def _add(self, block: TextBlock | CallBlock, delta: str) -> bool:
        """Keep a delta; an empty one is none."""
        if not isinstance(delta, str):
            raise ValueError(f"a delta must be text, not {type(delta).__name__}")
        if delta:
            block.pieces.append(delta)
            if "content_block_delta" in self.wanted:
                self.events.append(ContentBlockDeltaEvent(block.index, block.kind, delta))
        return bool(delta)

    def sign(self, block: Block, field: str, signature: str) -> None:
        """Keep a signature under the provider's own name for it."""
        block.data[field] = signature
        if signature and "signature" in self.wanted:
            self.events.append(SignatureEvent(signature, block.index))

    def cite(self, block: TextBlock, citation: Citation) -> None:
        """Note what the text of a block cites."""
        block.citations.append(citation)
        if "citation" in self.wanted:
            self.events.append(CitationEvent(citation, block.index))

    def stop(self, block: Block) -> None:
        """End a block, once. A call without arguments ends with the reply: until then they may be cut off."""
        if not block.open or (isinstance(block, CallBlock) and not block.pieces and not self._ended):
            return
        block.open = False
        part = block.part(self.wire)
        if isinstance(part, ToolCall) and "tool_call" in self.wanted:
            self.events.append(ToolCallEvent(part, block.index))
        if "content_block_stop" in self.wanted:
            self.events.append(ContentBlockStopEvent(block.index, block.kind, part))

    def stop_all(self) -> None:
        """End whatever is still open."""
        for block in self.blocks:
            self.stop(block)

    # ---- what it amounts to -----------------------------------------------------------------------------

    @property
    def has_calls(self) -> bool:
        """Whether the reply asks for a tool."""
        return any(block.kind == "tool_call" for block in self.blocks)

    def message(self) -> Message:
        """The message so far."""
        parts: list[Part] = []
        calls: list[tuple[CallBlock, int]] = []
        for block in self.blocks:
            if isinstance(block, CallBlock):
                calls.append((block, len(parts)))
            else:
                parts.append(block.part(self.wire))
        # A call normally follows what is said. Where one does not, its place is kept with it.
        made = [
            block.part(self.wire) if at == len(parts) else block.part(self.wire, at=at) for block, at in calls
        ]
        return Message.assistant(_content(parts), made)

    def response(self, raw: Any = None) -> ChatResponse:
        """The reply, now that it has ended.

        Arguments of which nothing was sent are `{}` only where they cannot have been cut: the finish reason
        says that the reply is complete, or a server sent a whole reply without any reason, as some always do.
        """
        reason, refused = self.raw_finish_reason, self.refusal or self.block_reason
        if is_complete(reason) or (self.whole and reason is None):
            for block in self.blocks:
                if isinstance(block, CallBlock):
                    block.no_arguments = "{}"
        self._ended = True
        self.stop_all()
        return ChatResponse(
            message=self.message(),
            finish_reason="refusal" if refused else normalize_finish_reason(reason, has_calls=self.has_calls),
            raw_finish_reason=reason,
            usage=self.usage,
            model=self.model,
            cost=self.cost,
            request_id=self.request_id,
            refusal=self.refusal,
            block_reason=self.block_reason,
            raw=raw,
        )


def _content(parts: list[Part]) -> str | tuple[Part, ...]:
    """Plain text as a plain text."""
    if not parts:
        return ""
    only = parts[0]
    if len(parts) == 1 and isinstance(only, TextPart) and not (only.citations or only.provider_data):
        return only.text
    return tuple(parts)


def _letters(text: str) -> str:
    """The text with letters whole that came as two halves, as servers send them that count in UTF-16."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # a half stands alone; two that belong together become one
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text
