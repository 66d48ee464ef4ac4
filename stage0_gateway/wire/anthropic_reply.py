"""Reading a message of Anthropic's, whole or event by event: a list of blocks, each as it grows.

Blocks for which we have no word are kept as they are. Used by `anthropic.py` alone, which has the
other half of the format.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from stage0_gateway.fields import a_count, a_list, a_mapping, a_name, a_text, needed_text
from stage0_gateway.parts import Citation
from stage0_gateway.streaming.reply_builder import Block, CallBlock, ProviderBlock, TextBlock
from stage0_gateway.usage import Usage
from stage0_gateway.wire import ReplyReader
from stage0_gateway.wire.opaque import arguments_text

NAME = "anthropic"


class AnthropicReader(ReplyReader):
    """Reads a message, whole or event by event."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, names)
        self._counts: dict[str, Any] = {}
        self._blocks: dict[Any, Block] = {}  # by the server's index
        self._inputs: dict[int, list[str]] = {}  # of calls that the server itself answers

    def feed(self, data: Mapping[str, Any]) -> None:
        """Take in one event; kinds that are not known yet are passed over, as the documentation
        asks.
        """
        match data.get("type"):
            case "content_block_delta":
                self._grow(self._blocks[data["index"]], data["delta"])
            case "content_block_start":
                self._blocks[data["index"]] = self._start(a_mapping(data["content_block"], "block"))
            case "content_block_stop":
                self._stop(self._blocks[data["index"]])
            case "message_start":
                self._take_head(a_mapping(data["message"], "message"))
            case "message_delta":
                self._take_end({**(data["delta"] or {}), "usage": data.get("usage")})
            case "message_stop":
                self.complete = self.over = True

    def feed_whole(self, body: Mapping[str, Any]) -> None:
        """Take in a message."""
        self._take_head(body)
        for block in a_list(body["content"], "content"):
            self.draft.stop(self._start(a_mapping(block, "block")))
        self._take_end(body)

    def _take_head(self, message: Mapping[str, Any]) -> None:
        """The model, the id, and the first token counts."""
        self.draft.model = a_name(message.get("model"))
        self.draft.request_id = self.draft.request_id or a_name(message.get("id"))
        self._count(message.get("usage"))

    def _take_end(self, said: Mapping[str, Any]) -> None:
        """Why it ended, and the token counts, which are totals: they replace the first ones."""
        if reason := a_text(
            said.get("stop_reason"), "stop_reason"
        ):  # a later message_delta may be silent
            self.draft.raw_finish_reason, self.complete = reason, True
        if isinstance(details := said.get("stop_details"), Mapping):
            self.draft.refusal = a_text(details.get("explanation"), "explanation") or None
        self._count(said.get("usage"))

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, Mapping):
            return
        self._counts |= {name: value for name, value in usage.items() if value is not None}
        details = self._counts.get("output_tokens_details")
        self.draft.usage = Usage(
            input_tokens=a_count(self._counts.get("input_tokens")),
            output_tokens=a_count(self._counts.get("output_tokens")),
            cached_input_tokens=a_count(self._counts.get("cache_read_input_tokens")),
            reasoning_tokens=a_count(details.get("thinking_tokens"))
            if isinstance(details, Mapping)
            else None,
            cache_write_tokens=a_count(self._counts.get("cache_creation_input_tokens")),
        )

    def _start(self, block: Mapping[str, Any]) -> Block:
        """Begin a block with what is known of it already: all, where the message came whole."""
        match block.get("type"):
            case "text":
                return self._start_text("text", block)
            case "thinking":
                return self._start_text("thinking", block)
            case "tool_use":
                return self._start_call(block)
            case _:
                return self.draft.start_provider(block)

    def _start_text(self, kind: str, block: Mapping[str, Any]) -> TextBlock:
        started = self.draft.start_text("text" if kind == "text" else "thinking")
        self.draft.write(started, a_text(block.get(kind), kind))
        for cited in a_list(block.get("citations"), "citations"):
            self.draft.cite(started, citation(cited))
        if signature := block.get("signature"):
            self.draft.sign(started, "signature", a_text(signature, "signature"))
        return started

    def _start_call(self, block: Mapping[str, Any]) -> CallBlock:
        started = self.draft.start_call(
            a_text(block.get("id"), "id"), needed_text(block, "name", "tool_use")
        )
        known = ("type", "id", "name", "input")
        started.data |= {name: value for name, value in block.items() if name not in known}
        if block.get("input"):
            self.draft.fill(started, arguments_text(block["input"]))
        return started

    def _grow(self, block: Block, delta: Mapping[str, Any]) -> None:
        match delta.get("type"), block:
            case "text_delta", TextBlock():
                self.draft.write(block, delta["text"])
            case "thinking_delta", TextBlock():
                self.draft.write(block, delta["thinking"])
            case "signature_delta", TextBlock():
                self.draft.sign(block, "signature", a_text(delta["signature"], "signature"))
            case "citations_delta", TextBlock():
                self.draft.cite(block, citation(delta["citation"]))
            case "input_json_delta", CallBlock():
                self.draft.fill(block, delta["partial_json"])
            case "input_json_delta", ProviderBlock():
                self._inputs.setdefault(block.index, []).append(
                    a_text(delta["partial_json"], "partial_json")
                )
            case _, ProviderBlock():
                block.data |= {name: value for name, value in delta.items() if name != "type"}

    def _stop(self, block: Block) -> None:
        if (pieces := self._inputs.pop(block.index, None)) and isinstance(block, ProviderBlock):
            with suppress(
                ValueError
            ):  # cut at max_tokens: it was not run, and goes back as it began
                block.data["input"] = json.loads("".join(pieces) or "{}")
        self.draft.stop(block)


def citation(plain: Any) -> Citation:
    """A citation as this format has it; the server side reads the same form."""
    plain = a_mapping(plain, "citation")
    title = plain.get("title") or plain.get("document_title")
    return Citation(plain.get("url"), title, plain.get("cited_text"), {NAME: dict(plain)})
