"""`AnthropicReader`: decodes a message of Anthropic, whole or event by event.

A message is a list of blocks. Blocks of unknown kinds are stored unchanged. `anthropic.py` encodes
the requests.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from stage0_gateway.json_fields import (
    as_count,
    as_list,
    as_mapping,
    as_name,
    as_text,
    required_list,
    required_text,
)
from stage0_gateway.parts import Citation
from stage0_gateway.response import Usage
from stage0_gateway.streaming.reply_builder import Block, CallBlock, ProviderBlock, TextBlock
from stage0_gateway.wire.provider_data import arguments_text
from stage0_gateway.wire.reader import ReplyReader

NAME = "anthropic"


class AnthropicReader(ReplyReader):
    """Decodes a message, whole or event by event."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, names)
        self._counts: dict[str, Any] = {}
        self._blocks: dict[Any, Block] = {}  # by the server's index
        self._inputs: dict[int, list[str]] = {}  # of calls that the server runs itself

    def feed(self, data: Mapping[str, Any]) -> None:
        """Decode one event; unknown kinds are ignored, as the documentation requires."""
        match data.get("type"):
            case "content_block_delta":
                self._read_delta(self._blocks[data["index"]], data["delta"])
            case "content_block_start":
                self._blocks[data["index"]] = self._start(data["content_block"])
            case "content_block_stop":
                self._stop(self._blocks[data["index"]])
            case "message_start":
                self._read_head(data["message"])
            case "message_delta":
                self._read_end({**(data["delta"] or {}), "usage": data.get("usage")})
            case "message_stop":
                self.complete = self.over = True

    def feed_whole(self, body: Mapping[str, Any]) -> None:
        """Decode a message."""
        self._read_head(body)
        for block in required_list(body, "content"):
            self.builder.stop(self._start(block))
        self._read_end(body)

    def _read_head(self, message: Mapping[str, Any]) -> None:
        """Read the model, the id, and the first token counts."""
        self.builder.model = as_name(message.get("model"))
        self.builder.request_id = self.builder.request_id or as_name(message.get("id"))
        self._read_usage(message.get("usage"))

    def _read_end(self, end: Mapping[str, Any]) -> None:
        """Read the finish reason, and the token counts, which replace the first ones."""
        if reason := as_text(end.get("stop_reason"), "stop_reason"):  # may be null in a later event
            self.builder.raw_finish_reason, self.complete = reason, True
        if isinstance(details := end.get("stop_details"), Mapping):
            self.builder.refusal = as_text(details.get("explanation"), "explanation") or None
        self._read_usage(end.get("usage"))

    def _read_usage(self, usage: Any) -> None:
        if not isinstance(usage, Mapping):
            return
        counts = self._counts
        counts |= {name: value for name, value in usage.items() if value is not None}
        details = counts.get("output_tokens_details")
        details = details if isinstance(details, Mapping) else {}
        self.builder.usage = Usage(
            input_tokens=as_count(counts.get("input_tokens")),
            output_tokens=as_count(counts.get("output_tokens")),
            cached_input_tokens=as_count(counts.get("cache_read_input_tokens")),
            reasoning_tokens=as_count(details.get("thinking_tokens")),
            cache_write_tokens=as_count(counts.get("cache_creation_input_tokens")),
        )

    def _start(self, block: Mapping[str, Any]) -> Block:
        """Start a block with the fields it has: all of them in a whole message."""
        match as_mapping(block, "block").get("type"):
            case "text":
                return self._start_text(self.builder.start_text(), block, "text")
            case "thinking":
                return self._start_text(self.builder.start_text("thinking"), block, "thinking")
            case "tool_use":
                return self._start_call(block)
            case _:
                return self.builder.start_provider(block)

    def _start_text(self, started: TextBlock, block: Mapping[str, Any], field: str) -> TextBlock:
        self.builder.write(started, as_text(block.get(field), field))
        for cited in as_list(block.get("citations"), "citations"):
            self.builder.cite(started, citation(cited))
        if signature := block.get("signature"):
            self.builder.sign(started, "signature", as_text(signature, "signature"))
        return started

    def _start_call(self, block: Mapping[str, Any]) -> CallBlock:
        name = required_text(block, "name", "tool_use")
        started = self.builder.start_call(as_text(block.get("id"), "id"), name)
        known = ("type", "id", "name", "input")
        started.data |= {name: value for name, value in block.items() if name not in known}
        if block.get("input"):
            self.builder.write(started, arguments_text(block["input"]))
        return started

    def _read_delta(self, block: Block, delta: Mapping[str, Any]) -> None:
        match delta.get("type"), block:
            case "text_delta", TextBlock():
                self.builder.write(block, delta["text"])
            case "thinking_delta", TextBlock():
                self.builder.write(block, delta["thinking"])
            case "signature_delta", TextBlock():
                self.builder.sign(block, "signature", as_text(delta["signature"], "signature"))
            case "citations_delta", TextBlock():
                self.builder.cite(block, citation(delta["citation"]))
            case "input_json_delta", CallBlock():
                self.builder.write(block, delta["partial_json"])
            case "input_json_delta", ProviderBlock():
                piece = as_text(delta["partial_json"], "partial_json")
                self._inputs.setdefault(block.index, []).append(piece)
            case _, ProviderBlock():
                block.data |= {name: value for name, value in delta.items() if name != "type"}

    def _stop(self, block: Block) -> None:
        if (pieces := self._inputs.pop(block.index, None)) and isinstance(block, ProviderBlock):
            with suppress(ValueError):  # cut off: the server did not run it, and keeps its start
                block.data["input"] = json.loads("".join(pieces) or "{}")
        self.builder.stop(block)


def citation(fields: Any) -> Citation:
    """Decode a citation; the server side uses this function, too."""
    fields = as_mapping(fields, "citation")
    title = fields.get("title") or fields.get("document_title")
    return Citation(fields.get("url"), title, fields.get("cited_text"), {NAME: dict(fields)})
