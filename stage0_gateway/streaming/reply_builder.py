"""`ReplyBuilder`: builds a `ChatResponse` from blocks of text, thinking and tool calls.

Every wire format reads its replies with the same few methods, whether a reply arrives whole or as a
stream. Therefore both return equal responses. `events` holds the events of the last step. This
module knows no format and no transport.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any, ClassVar, TypeVar

from stage0_gateway.messages import Message, as_content
from stage0_gateway.parts import Citation, Part, ProviderPart, TextPart, ThinkingPart, ToolCall
from stage0_gateway.response import (
    ChatResponse,
    Usage,
    known_finish_reason,
    normalize_finish_reason,
)
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


class TextBlock:
    """Text or thinking that grows."""

    def __init__(self, index: int, kind: BlockKind) -> None:
        self.index, self.kind, self.open = index, kind, True
        self.event_type = TextEvent if kind == "text" else ThinkingEvent
        self.text = GrowingText()
        self.citations: list[Citation] = []
        self.data: dict[str, Any] = {}

    def part(self, wire: str) -> Part:
        """Return the part received so far."""
        data = {wire: dict(self.data)} if self.data else None
        text = join_surrogates(str(self.text))
        if self.kind == "thinking":
            return ThinkingPart(text, data)
        return TextPart(text, tuple(self.citations), data)


class CallBlock:
    """A tool call whose arguments grow.

    Attributes:
        text: The arguments.
        sent_name: The tool's name in the reply; `name` is the tool's own.
        empty_arguments: The arguments of a call without any. They are not JSON until the reply is
            known to be complete, so an incomplete call cannot run.
    """

    kind: ClassVar[BlockKind] = "tool_call"
    event_type = InputJsonEvent

    def __init__(self, index: int, call_id: str, name: str, sent_name: str) -> None:
        self.index, self.id, self.open = index, call_id, True
        self.name, self.sent_name = name, sent_name
        self.text = GrowingText()
        self.data: dict[str, Any] = {}
        self.empty_arguments = ""

    def part(self, wire: str, **position: int) -> ToolCall:
        """Return the call received so far."""
        data = {**self.data, **position}
        arguments = join_surrogates(str(self.text)) or self.empty_arguments
        return ToolCall(self.id, self.name or "unnamed", arguments, {wire: data} if data else None)


class ProviderBlock:
    """A block of a kind that only one provider has."""

    kind: ClassVar[BlockKind] = "provider"

    def __init__(self, index: int, data: Mapping[str, Any]) -> None:
        self.index, self.open = index, True
        self.data = dict(data)

    def part(self, wire: str) -> ProviderPart:
        """Return the part received so far."""
        return ProviderPart(wire, dict(self.data))


Block = TextBlock | CallBlock | ProviderBlock
B = TypeVar("B", bound=Block)


class ReplyBuilder:
    """The reply received so far.

    Args:
        wire: The name of the wire format.
        names: The tools' own names, by the names under which they were sent.

    Attributes:
        blocks: Text, thinking and calls, in the order of their start.
        events: The events that were not delivered yet.
        is_whole: Whether the reply arrived in one piece instead of a stream.
    """

    def __init__(self, wire: str, names: Mapping[str, str] | None = None) -> None:
        self.wire = wire
        self.names = names or {}
        self.blocks: list[Block] = []
        self.events: list[StreamEvent] = []
        self.usage: Usage | None = None
        self.cost: float | None = None
        self.model: str | None = None
        self.request_id: str | None = None
        self.raw_finish_reason: str | None = None
        self.refusal: str | None = None
        self.block_reason: str | None = None
        self.is_whole = False
        self._ended = False

    # ---- blocks

    def start_text(self, kind: BlockKind = "text") -> TextBlock:
        """Start a block of text or thinking."""
        return self._start(TextBlock(len(self.blocks), kind))

    def start_call(self, call_id: str, name: str) -> CallBlock:
        """Start a tool call; a missing id is replaced by a generated one."""
        if not call_id:
            ids = {block.id for block in self.blocks if isinstance(block, CallBlock)}
            call_id = next(new for n in count(len(ids)) if (new := f"call_{n}") not in ids)
        own_name = self.names.get(name, name)
        return self._start(CallBlock(len(self.blocks), call_id, own_name, name), own_name)

    def start_provider(self, data: Mapping[str, Any]) -> ProviderBlock:
        """Start a block that is stored unchanged."""
        return self._start(ProviderBlock(len(self.blocks), data))

    def _start(self, block: B, tool: str | None = None) -> B:
        self.blocks.append(block)
        self.events.append(ContentBlockStartEvent(block.index, block.kind, tool))
        return block

    def write(self, block: TextBlock | CallBlock, delta: str) -> None:
        """Append to text, thinking, or the arguments of a call."""
        if not isinstance(delta, str):
            raise ValueError(f"a delta must be text, not {type(delta).__name__}")
        if delta:
            text = block.text
            text.append(delta)
            self.events.append(ContentBlockDeltaEvent(block.index, block.kind, delta))
            self.events.append(block.event_type(delta, block.index, text, text.length))

    def sign(self, block: Block, field: str, signature: str) -> None:
        """Store a signature under the provider's field name."""
        block.data[field] = signature
        if signature:
            self.events.append(SignatureEvent(signature, block.index))

    def cite(self, block: TextBlock, citation: Citation) -> None:
        """Add a citation to a text."""
        block.citations.append(citation)
        self.events.append(CitationEvent(citation, block.index))

    def stop(self, block: Block) -> None:
        """End a block. A call without arguments ends with the reply: they may still arrive."""
        if not block.open:
            return
        if isinstance(block, CallBlock) and not block.text.length and not self._ended:
            return
        block.open = False
        part = block.part(self.wire)
        if isinstance(part, ToolCall):
            self.events.append(ToolCallEvent(part, block.index))
        self.events.append(ContentBlockStopEvent(block.index, block.kind, part))

    # ---- the result

    def message(self) -> Message:
        """Return the message received so far."""
        parts: list[Part] = []
        calls: list[tuple[CallBlock, int]] = []
        for block in self.blocks:
            if isinstance(block, CallBlock):
                calls.append((block, len(parts)))
            else:
                parts.append(block.part(self.wire))
        tool_calls = []
        for call, at in calls:  # calls normally follow all parts; another position is stored
            position = {} if at == len(parts) else {"at": at}
            tool_calls.append(call.part(self.wire, **position))
        return Message.assistant(as_content(parts), tool_calls)

    def response(self, raw: Any = None) -> ChatResponse:
        """End the reply and return it.

        Missing arguments become `{}` only if they cannot have been cut off. That is certain if the
        finish reason reports a complete reply, or if a whole reply has no finish reason at all.
        """
        reason = self.raw_finish_reason
        complete = known_finish_reason(reason) in ("stop", "tool_calls", "pause")
        self._ended = True
        for block in self.blocks:
            if isinstance(block, CallBlock) and (complete or (self.is_whole and reason is None)):
                block.empty_arguments = "{}"
            self.stop(block)
        message = self.message()
        finish_reason = normalize_finish_reason(reason, has_calls=bool(message.tool_calls))
        return ChatResponse(
            message=message,
            finish_reason="refusal" if self.refusal or self.block_reason else finish_reason,
            raw_finish_reason=reason,
            usage=self.usage,
            model=self.model,
            cost=self.cost,
            request_id=self.request_id,
            refusal=self.refusal,
            block_reason=self.block_reason,
            raw=raw,
        )
