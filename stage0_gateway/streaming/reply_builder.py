"""`Draft`: a reply while it is being read, block by block, until it is a `ChatResponse`.

Every wire format reads its replies into a draft, whole or streamed, with the same few methods.
Therefore both ways end in equal responses. The events of each step are in `events`. Knows no format
and no transport. Used by the wire formats, and by `incoming.py`, which takes the events.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any, ClassVar, TypeVar

from stage0_gateway.finish_reasons import is_complete, normalize_finish_reason
from stage0_gateway.messages import Message
from stage0_gateway.parts import (
    Citation,
    Part,
    ProviderData,
    ProviderPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.events import (
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
from stage0_gateway.streaming.partial import GrowingText, join_surrogates
from stage0_gateway.usage import Usage


class TextBlock:
    """Text or thinking that grows."""

    def __init__(self, index: int, kind: BlockKind) -> None:
        self.index, self.kind, self.open = index, kind, True
        self.text = GrowingText()
        self.citations: list[Citation] = []
        self.data: dict[str, Any] = {}

    def part(self, wire: str) -> Part:
        """The part so far."""
        data = {wire: dict(self.data)} if self.data else None
        text = join_surrogates(str(self.text))
        if self.kind == "thinking":
            return ThinkingPart(text, data)
        return TextPart(text, tuple(self.citations), data)


class CallBlock:
    """A tool call whose arguments grow.

    Attributes:
        text: The arguments.
        no_arguments: The arguments of a call without any. They are not JSON until the reply is
            known to be complete, so that the call cannot run.
    """

    kind: ClassVar[BlockKind] = "tool_call"

    def __init__(self, index: int, call_id: str, name: str) -> None:
        self.index, self.id, self.name, self.open = index, call_id, name, True
        self.text = GrowingText()
        self.data: dict[str, Any] = {}
        self.no_arguments = ""

    def part(self, wire: str, **position: int) -> ToolCall:
        """The call so far."""
        data: ProviderData | None = (
            {wire: {**self.data, **position}} if self.data or position else None
        )
        arguments = join_surrogates(str(self.text)) or self.no_arguments
        return ToolCall(self.id, self.name or "unnamed", arguments, data)


class ProviderBlock:
    """A block that only the provider understands."""

    kind: ClassVar[BlockKind] = "provider"

    def __init__(self, index: int, data: Mapping[str, Any]) -> None:
        self.index, self.open = index, True
        self.data = dict(data)

    def part(self, wire: str) -> ProviderPart:
        """The part so far."""
        return ProviderPart(wire, dict(self.data))


Block = TextBlock | CallBlock | ProviderBlock
B = TypeVar("B", bound=Block)


class Draft:
    """What has arrived of a reply.

    Args:
        wire: The name of the wire format that fills it.
        names: The tools' own names by the names under which they were sent.

    Attributes:
        blocks: Text, thinking, calls …, in the order in which they began.
        events: The events that have not been taken yet.
        whole: Whether the reply came in one piece instead of a stream.
    """

    def __init__(self, wire: str, names: Mapping[str, str] | None = None) -> None:
        self.wire = wire
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

    # ---- blocks begin, grow and end
    # ---------------------------------------------------------------------

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
        self.events.append(ContentBlockStartEvent(block.index, block.kind, tool))
        return block

    def write(self, block: TextBlock, delta: str) -> None:
        """Add to text or thinking."""
        if self._grow(block, delta):
            event = TextEvent if block.kind == "text" else ThinkingEvent
            self.events.append(event(delta, block.index, block.text, block.text.length))

    def fill(self, block: CallBlock, delta: str) -> None:
        """Add to the arguments of a call."""
        if self._grow(block, delta):
            self.events.append(InputJsonEvent(delta, block.index, block.text, block.text.length))

    def _grow(self, block: TextBlock | CallBlock, delta: str) -> bool:
        """Append a delta; return whether it holds anything."""
        if not isinstance(delta, str):
            raise ValueError(f"a delta must be text, not {type(delta).__name__}")
        if delta:
            block.text.append(delta)
            self.events.append(ContentBlockDeltaEvent(block.index, block.kind, delta))
        return bool(delta)

    def sign(self, block: Block, field: str, signature: str) -> None:
        """Keep a signature under the provider's own name for it."""
        block.data[field] = signature
        if signature:
            self.events.append(SignatureEvent(signature, block.index))

    def cite(self, block: TextBlock, citation: Citation) -> None:
        """Add a citation to a text."""
        block.citations.append(citation)
        self.events.append(CitationEvent(citation, block.index))

    def stop(self, block: Block) -> None:
        """End a block, once. A call without arguments ends with the reply, because they may still
        arrive.
        """
        if not block.open or (
            isinstance(block, CallBlock) and not block.text.length and not self._ended
        ):
            return
        block.open = False
        part = block.part(self.wire)
        if isinstance(part, ToolCall):
            self.events.append(ToolCallEvent(part, block.index))
        self.events.append(ContentBlockStopEvent(block.index, block.kind, part))

    def stop_all(self) -> None:
        """End all open blocks."""
        for block in self.blocks:
            self.stop(block)

    # ---- what it amounts to
    # -----------------------------------------------------------------------------

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
            block.part(self.wire) if at == len(parts) else block.part(self.wire, at=at)
            for block, at in calls
        ]
        return Message.assistant(_content(parts), made)

    def response(self, raw: Any = None) -> ChatResponse:
        """The reply, now that it has ended.

        Arguments of which nothing was sent are `{}` only where they cannot have been cut: the
        finish reason says that the reply is complete, or a server sent a whole reply without any
        reason, as some always do.
        """
        reason, refused = self.raw_finish_reason, self.refusal or self.block_reason
        has_calls = any(block.kind == "tool_call" for block in self.blocks)
        if is_complete(reason) or (self.whole and reason is None):
            for block in self.blocks:
                if isinstance(block, CallBlock):
                    block.no_arguments = "{}"
        self._ended = True
        self.stop_all()
        return ChatResponse(
            message=self.message(),
            finish_reason="refusal"
            if refused
            else normalize_finish_reason(reason, has_calls=has_calls),
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
    if (
        len(parts) == 1
        and isinstance(only, TextPart)
        and not (only.citations or only.provider_data)
    ):
        return only.text
    return tuple(parts)
