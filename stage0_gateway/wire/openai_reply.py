"""`OpenAIReader`: decodes a chat completion, whole or chunk by chunk.

A message is the sum of its deltas. Servers differ from the documentation: `content` is null or
absent, calls have no id or index, thinking has four names, and token counts appear in several
fields. Each tolerance below handles one of these differences. `openai.py` encodes the requests.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from stage0_gateway.json_fields import as_count, as_list, as_mapping, as_name, as_text
from stage0_gateway.parts import Citation
from stage0_gateway.response import ChatResponse, Usage, known_finish_reason
from stage0_gateway.streaming.reply_builder import TextBlock
from stage0_gateway.wire.call_deltas import CallDeltas
from stage0_gateway.wire.error_body import error_in_event
from stage0_gateway.wire.reader import ReplyReader

NAME = "openai"
THINKING = ("reasoning_content", "reasoning")
"""Fields for thinking beside the content."""
_EXTRAS = {"refusal", "extra_content", "annotations"}
_GROWING = ("text", "summary", "data")
_ORDER = ("thinking", "text", "tool_call")
_FILTERS = ("content_filter_results", "content_filter_result")
"""Azure's fields for content filters. A blocked choice may have no message."""


class OpenAIReader(ReplyReader):
    """Decodes a chat completion, whole or chunk by chunk."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, names)
        self._text: TextBlock | None = None
        self._thinking: TextBlock | None = None
        self._details: list[dict[str, Any]] = []

    @cached_property
    def _calls(self) -> CallDeltas:
        """The tool calls. Created at the first one."""
        return CallDeltas(self.builder)

    def feed(self, data: Mapping[str, Any]) -> None:
        """Decode one chunk."""
        self._read_head(data)
        for choice in data.get("choices") or ():
            if choice.get("index") in (0, None):
                delta = choice.get("delta")
                if delta is None:  # some servers repeat the whole message beside the deltas
                    delta = choice.get("message") or {}
                self._read_message(delta)
                self._read_end(choice)

    def feed_whole(self, body: Mapping[str, Any]) -> None:
        """Decode a chat completion."""
        choice = body["choices"][0]
        self._read_head(body)
        message = choice.get("message")
        if message is None and _is_filtered(choice):
            self.builder.block_reason, message = "content_filter", {}
        self._read_message(message, whole=True)
        self._read_end(choice)

    def response(self, raw: Any = None) -> ChatResponse:
        """Return the reply."""
        if self._details and self._thinking:
            self._thinking.data["reasoning_details"] = self._details
        # Chunks may arrive in any order; a whole message has no order between its kinds.
        self.builder.blocks.sort(key=lambda block: _ORDER.index(block.kind))
        return self.builder.response(raw)

    def _read_head(self, data: Mapping[str, Any]) -> None:
        """Read the model, the id and the token counts; repeated counts replace earlier ones."""
        builder = self.builder
        if builder.model is None:
            builder.model = as_name(data.get("model"))
        if builder.request_id is None:
            builder.request_id = as_name(data.get("id"))
        usage = data.get("usage")
        if (groq := data.get("x_groq")) and isinstance(groq, Mapping):
            if groq.get("error"):
                raise error_in_event(groq)
            usage = usage or groq.get("usage")
        if usage and isinstance(usage, Mapping):
            builder.usage = _usage(usage)
            if type(cost := usage.get("cost")) in (int, float):  # OpenRouter reports its charge
                builder.cost = cost

    def _read_message(self, message: Mapping[str, Any], *, whole: bool = False) -> None:
        """Read a message, or the delta of one."""
        for field in THINKING:
            if thinking := message.get(field):
                self._write_thinking(as_text(thinking, field), field)
                break
        if details := message.get("reasoning_details"):
            self._read_details(details, alone=not any(map(message.get, THINKING)))
        if content := message.get("content"):
            if isinstance(content, str):
                self._write_text(content)
            else:
                self._read_parts(as_list(content, "content"))
        for call in message.get("tool_calls") or ():
            if call:
                self._calls.feed(call, whole=whole)
        if not _EXTRAS.isdisjoint(message):
            self._read_extras(message)

    def _read_end(self, choice: Mapping[str, Any]) -> None:
        """Read the end of a choice: an error, a content filter, or a finish reason."""
        if error := choice.get("error"):  # OpenRouter's
            raise error_in_event({"error": error})
        if not choice.keys().isdisjoint(_FILTERS) and (blocked := _blocked_categories(choice)):
            self.builder.block_reason = ", ".join(blocked)
        if reason := choice.get("finish_reason"):
            self.complete = True
            self.builder.raw_finish_reason = as_text(reason, "finish_reason")

    def _write_text(self, text: str) -> TextBlock:
        block = self._text = self._text or self.builder.start_text()
        self.builder.write(block, text)
        return block

    def _write_thinking(self, text: str, field: str) -> None:
        if self._thinking is None:
            self._thinking = self.builder.start_text("thinking")
            self._thinking.data["field"] = field
        self.builder.write(self._thinking, text)

    def _read_parts(self, parts: list[Any]) -> None:
        for part in parts:
            if isinstance(part, str):
                self._write_text(part)
            elif part.get("type") == "thinking":  # Mistral's
                pieces = part.get("thinking")
                for piece in [pieces] if isinstance(pieces, str) else as_list(pieces, "thinking"):
                    text = piece if isinstance(piece, str) else piece.get("text")
                    self._write_thinking(as_text(text, "thinking"), "thinking")
            elif part.get("type") in ("text", "output_text"):
                self._write_text(as_text(part.get("text"), "text"))

    def _read_extras(self, message: Mapping[str, Any]) -> None:
        if refusal := message.get("refusal"):
            self.builder.refusal = (self.builder.refusal or "") + as_text(refusal, "refusal")
        if extra := message.get("extra_content"):
            self._write_text("").data["extra_content"] = extra
        for note in message.get("annotations") or ():
            if isinstance(source := as_mapping(note, "annotation").get("url_citation"), Mapping):
                url, title, quote = (source.get(name) for name in ("url", "title", "content"))
                self.builder.cite(self._write_text(""), Citation(url, title, quote, {NAME: note}))

    def _read_details(self, details: Any, *, alone: bool) -> None:
        """Read OpenRouter's thinking with signatures; pieces of one kind and index are joined."""
        for piece in as_list(details, "reasoning_details"):
            if alone:
                text = piece.get("text") or piece.get("summary")
                self._write_thinking(as_text(text, "thinking"), "reasoning")
            last = self._details[-1] if self._details else {}
            if not last or any(last.get(name) != piece.get(name) for name in ("type", "index")):
                self._details.append(dict(piece))
                continue
            for name, value in piece.items():
                if name in _GROWING and isinstance(value, str) and isinstance(last.get(name), str):
                    last[name] += value
                else:
                    last[name] = value or last.get(name)


def _is_filtered(choice: Mapping[str, Any]) -> bool:
    """Return whether the finish reason or the filter results of a choice report a filter."""
    reason = as_text(choice.get("finish_reason"), "finish_reason")
    return known_finish_reason(reason) == "refusal" or any(map(choice.get, _FILTERS))


def _blocked_categories(choice: Mapping[str, Any]) -> list[str]:
    """Return the categories, such as "hate", for which Azure's content filter blocked a choice."""
    filters = [results for name in _FILTERS if isinstance(results := choice.get(name), Mapping)]
    return [
        str(category)
        for results in filters
        for category, result in results.items()
        if isinstance(result, Mapping) and result.get("filtered") is True
    ]


def _usage(usage: Mapping[str, Any]) -> Usage:
    cached, output = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    if not isinstance(cached, Mapping):
        cached = {"cached_tokens": usage.get("prompt_cache_hit_tokens")}
    if not isinstance(output, Mapping):
        output = {}
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        cached_input_tokens=as_count(cached.get("cached_tokens")),
        reasoning_tokens=as_count(output.get("reasoning_tokens")),
        cache_write_tokens=as_count(cached.get("cache_write_tokens")),
    )
