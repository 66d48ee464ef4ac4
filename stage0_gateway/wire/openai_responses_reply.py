"""`OpenAIResponsesReader`: decodes a reply in OpenAI's Responses format, whole or event by event.

A reply is a list of items: messages, reasoning, function calls, and calls of the provider's own
tools. Items of unknown kinds are stored unchanged. In a stream, `output_index` identifies the item
of an event. The last event normally contains the whole reply. It replaces the collected one, so
lost and reordered events do not change the result. `openai_responses.py` encodes the requests.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage0_gateway.json_fields import (
    as_count,
    as_list,
    as_mapping,
    as_name,
    as_text,
    required_list,
)
from stage0_gateway.parts import Citation
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.streaming.partial import GrowingText
from stage0_gateway.streaming.reply_builder import Block, CallBlock, ProviderBlock, TextBlock
from stage0_gateway.wire.error_body import error_in_event
from stage0_gateway.wire.provider_data import arguments_text
from stage0_gateway.wire.reader import ReplyReader

NAME = "openai-responses"
_CALL_FIELDS = {"type", "id", "call_id", "name", "arguments", "status"}


class _Item:
    """An item of the output.

    Attributes:
        number: Its position in the reply.
        kind: Its type, such as "message".
        id: The server's id, if the item's start arrived.
        blocks: Its blocks: one, or one for each text of a message.
        summary_index: The index of the last summary of reasoning.
        is_done: Whether the complete item arrived.
    """

    def __init__(self, number: int, kind: str) -> None:
        self.number, self.kind = number, kind
        self.id: Any = None
        self.blocks: dict[int, Block] = {}
        self.summary_index: Any = None
        self.is_done = False


class OpenAIResponsesReader(ReplyReader):
    """Decodes a reply, whole or event by event."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, names)
        self._items: dict[Any, _Item] = {}  # the latest item at each of the server's indexes
        self._count = 0
        self._positions: dict[int, tuple[int, int]] = {}  # of the blocks, in the reply
        self._refusals: dict[int, str] = {}  # by the positions of their messages
        self._whole: Mapping[str, Any] | None = None

    def feed(self, data: Mapping[str, Any]) -> None:
        """Decode one event; unknown kinds are ignored."""
        match kind := as_text(data.get("type"), "type").removeprefix("response."):
            case "output_item.added":
                self._item(_key(data), data["item"], is_start=True)
            case "output_item.done":
                self._finish(_key(data), data["item"])
            case "created" | "in_progress" | "queued":
                self._read_head(data["response"])
            case "completed" | "incomplete" | "failed":
                # Some servers omit the status.
                self._read_last({"status": kind, **as_mapping(data["response"], "response")})
            case _:
                self._read_piece(kind, data)

    def feed_whole(self, body: Mapping[str, Any]) -> None:
        """Decode a whole reply."""
        self._read_head(body)
        for index, fields in enumerate(required_list(body, "output")):
            self._finish(index, fields)
        self._read_end(body)

    def response(self, raw: Any = None) -> ChatResponse:
        """Return the reply: that of the stream's last event, if it is there."""
        self.builder.blocks.sort(key=lambda block: self._positions[block.index])
        refusals = (self._refusals[number] for number in sorted(self._refusals))
        self.builder.refusal = "".join(refusals) or None
        response = self.builder.response(raw)
        if self._whole is None:
            return response
        reader = OpenAIResponsesReader(self.builder.names)
        reader.builder.request_id = self.builder.request_id
        return replace(reader.decode_whole(self._whole), raw=raw)

    # ---- the reply

    def _read_head(self, response: Mapping[str, Any]) -> None:
        self.builder.model = as_name(response.get("model")) or self.builder.model
        self.builder.request_id = self.builder.request_id or as_name(response.get("id"))

    def _read_last(self, response: Mapping[str, Any]) -> None:
        """Read the last event of a stream."""
        if error := response.get("error"):
            raise error_in_event({"error": error})
        self._read_head(response)
        self._read_end(response)
        # Some servers repeat no items, or not all.
        if len(as_list(response.get("output"), "output")) >= max(1, self._count):
            self._whole = response
        self.complete = self.over = True

    def _read_end(self, response: Mapping[str, Any]) -> None:
        """Read the finish reason and the token counts."""
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, Mapping) else None
        self.builder.raw_finish_reason = as_text(reason or response.get("status"), "status") or None
        if isinstance(usage := response.get("usage"), Mapping):
            self.builder.usage = _usage(usage)
            if type(cost := usage.get("cost")) in (int, float):  # OpenRouter reports its charge
                self.builder.cost = cost

    # ---- items

    def _item(self, key: Any, fields: Mapping[str, Any], *, is_start: bool = False) -> _Item:
        """Return the item at an index; a new one if another item was there."""
        kind = as_text(as_mapping(fields, "item").get("type"), "type")
        item, item_id = self._items.get(key), fields.get("id")
        if item is not None and item.kind == kind:
            is_same = item_id is None or item.id in (None, item_id)
            if is_same or not (is_start or item.is_done):
                item.id = item.id or item_id
                return item
        is_position = type(key) is int and key not in self._items
        item = self._items[key] = _Item(key if is_position else self._count, kind)
        item.id = item_id
        self._count += 1
        match kind:
            case "message":
                pass  # its texts are blocks
            case "reasoning":
                self._add(item, self.builder.start_text("thinking"))
            case "function_call":
                call_id = as_name(fields.get("call_id")) or as_name(fields.get("id")) or ""
                name = as_text(fields.get("name"), "name")
                self._add(item, self.builder.start_call(call_id, name))
            case _:
                self._add(item, self.builder.start_provider(fields))
        return item

    def _add(self, item: _Item, block: Block, index: int = 0) -> None:
        item.blocks[index] = block
        self._positions[block.index] = item.number, index

    def _finish(self, key: Any, fields: Mapping[str, Any]) -> None:
        """Read a complete item. It contains everything that its earlier events contained."""
        item = self._item(key, fields)
        if item.is_done:
            return
        item.is_done = True
        if item.kind == "message":
            self._finish_message(item, fields)
        else:
            self._finish_block(item.blocks[0], fields)
        for block in item.blocks.values():
            self.builder.stop(block)

    def _finish_block(self, block: Block, fields: Mapping[str, Any]) -> None:
        match block:
            case TextBlock():  # reasoning
                own = ((name, value) for name, value in fields.items() if name != "type")
                block.data |= {name: value for name, value in own if value is not None}
                summaries = as_list(fields.get("summary"), "summary")
                texts = (as_text(summary.get("text"), "text") for summary in summaries)
                self._complete(block, "\n\n".join(filter(None, texts)))
                if encrypted := as_text(fields.get("encrypted_content"), "encrypted_content"):
                    self.builder.sign(block, "encrypted_content", encrypted)
            case CallBlock():
                block.data |= {name: fields[name] for name in fields if name not in _CALL_FIELDS}
                if arguments := fields.get("arguments"):
                    self._complete(block, arguments_text(arguments))
            case ProviderBlock():
                block.data = dict(fields)

    def _finish_message(self, item: _Item, fields: Mapping[str, Any]) -> None:
        """Complete the texts in their order. vLLM counts their indexes from 1 in pieces."""
        contents = as_list(fields.get("content"), "content")
        started = iter(sorted(item.blocks))
        for content in contents:
            if text := as_text(content.get("text"), "text"):
                index = next(started, max(item.blocks, default=-1) + 1)
                text_block = self._text_block(item, index)
                self._complete(text_block, text)
                for note in as_list(content.get("annotations"), "annotations"):
                    self._cite(text_block, note)
        if refusals := [as_text(content.get("refusal"), "refusal") for content in contents]:
            self._refusals[item.number] = "".join(refusals)
        if phase := fields.get("phase"):
            for block in item.blocks.values():
                block.data["phase"] = phase

    # ---- pieces

    def _read_piece(self, kind: str, data: Mapping[str, Any]) -> None:
        known = self._items.get(_key(data))
        if known is not None and known.is_done:
            return  # late: the complete item contains it
        match kind:
            case "output_text.delta":
                self.builder.write(self._text_of(data), data["delta"])
            case "output_text.annotation.added":
                self._cite(self._text_of(data), data["annotation"])
            case "reasoning_summary_text.delta":
                self._write_summary(data)
            case "refusal.delta":
                number = self._message(data).number
                refusal = self._refusals.get(number, "") + as_text(data["delta"], "delta")
                self._refusals[number] = refusal
            case "function_call_arguments.delta":
                # Without the item's start, its end contains the name and all arguments.
                if known is not None and isinstance(call := known.blocks.get(0), CallBlock):
                    self.builder.write(call, data["delta"])

    def _message(self, data: Mapping[str, Any]) -> _Item:
        return self._item(_key(data), {"type": "message"})

    def _text_of(self, data: Mapping[str, Any]) -> TextBlock:
        return self._text_block(self._message(data), as_count(data.get("content_index")) or 0)

    def _text_block(self, item: _Item, index: int) -> TextBlock:
        block = item.blocks.get(index)
        if block is None:
            block = self.builder.start_text()
            self._add(item, block, index)
        assert isinstance(block, TextBlock)
        return block

    def _write_summary(self, data: Mapping[str, Any]) -> None:
        """Append a piece of a summary; an empty line separates the summaries."""
        item = self._item(_key(data), {"type": "reasoning"})
        block, index = self._text_block(item, 0), data.get("summary_index")
        if item.summary_index not in (None, index):
            self.builder.write(block, "\n\n")
        item.summary_index = index
        self.builder.write(block, data["delta"])

    def _complete(self, block: TextBlock | CallBlock, text: str) -> None:
        """Add the rest of a text. If pieces were lost, the complete text replaces the others."""
        received = str(block.text)
        if text.startswith(received):
            self.builder.write(block, text[len(received) :])
        else:
            block.text = GrowingText()
            block.text.append(text)

    def _cite(self, block: TextBlock, note: Any) -> None:
        """Add a citation; events and the complete item both contain it."""
        if (cited := _citation(note)) not in block.citations:
            self.builder.cite(block, cited)


def _citation(fields: Any) -> Citation:
    """Decode an annotation."""
    fields = as_mapping(fields, "annotation")
    title = fields.get("title") or fields.get("filename")
    return Citation(fields.get("url"), title, provider_data={NAME: dict(fields)})


def _key(data: Mapping[str, Any]) -> Any:
    """Return the index of an event's item. Some servers send ids only."""
    item = data.get("item") or {}
    keys = data.get("output_index"), data.get("item_id"), item.get("id")
    return next((key for key in keys if key is not None), None)


def _usage(usage: Mapping[str, Any]) -> Usage:
    read, written = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        cached_input_tokens=_detail(read, "cached_tokens"),
        reasoning_tokens=_detail(written, "reasoning_tokens"),
        cache_write_tokens=_detail(read, "cache_write_tokens"),
    )


def _detail(details: Any, name: str) -> int | None:
    """Return a token count; None for a placeholder, which the embedded models list."""
    if not isinstance(details, Mapping) or name in as_list(details.get("not_counted"), name):
        return None
    return as_count(details.get(name))
