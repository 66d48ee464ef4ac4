"""`GeminiReader`: decodes a reply of Gemini, whole or chunk by chunk.

A chunk is a reply with the next few parts. Thought signatures stay on the parts they arrived with.
`gemini.py` encodes the requests.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from stage0_gateway.json_fields import as_count, as_list, as_name, as_text, required_text
from stage0_gateway.parts import Citation
from stage0_gateway.response import Usage, known_finish_reason
from stage0_gateway.streaming.reply_builder import TextBlock
from stage0_gateway.wire.provider_data import arguments_text
from stage0_gateway.wire.reader import ReplyReader

NAME = "gemini"
_SIGNATURE = "thoughtSignature"
_REPLY = {"content", "finishReason"}
"""Fields of which a candidate has at least one."""


class GeminiReader(ReplyReader):
    """Decodes a reply, whole or chunk by chunk."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, names)
        self._counts: dict[str, Any] = {}
        self._open: TextBlock | None = None
        self._last_text: TextBlock | None = None
        self._cited: set[tuple[int, Citation]] = set()

    def feed(self, data: Mapping[str, Any]) -> None:
        """Decode one chunk."""
        builder = self.builder
        builder.model = as_name(data.get("modelVersion")) or builder.model
        builder.request_id = builder.request_id or as_name(data.get("responseId"))
        if isinstance(usage := data.get("usageMetadata"), Mapping):
            self._counts |= usage  # totals so far; a chunk may leave one out
            builder.usage = _usage(self._counts)
        feedback = data.get("promptFeedback") or {}
        if blocked := feedback.get("blockReason"):
            builder.block_reason = as_text(blocked, "blockReason")
            reason = as_text(feedback.get("blockReasonMessage"), "blockReasonMessage")
            builder.refusal = reason or None
            self.complete = True
        for candidate in as_list(data.get("candidates"), "candidates"):
            if candidate.get("index") in (0, None):
                self._read_candidate(candidate)

    def feed_whole(self, body: Mapping[str, Any]) -> None:
        """Decode a reply; one without candidates is the answer to a blocked prompt."""
        candidates = body.get("candidates") or []
        if not ((candidates and candidates[0].keys() & _REPLY) or body.get("promptFeedback")):
            raise KeyError("candidates")
        self.feed(body)

    def _read_candidate(self, candidate: Mapping[str, Any]) -> None:
        for part in as_list((candidate.get("content") or {}).get("parts"), "parts"):
            self._read_part(part)
        for citation in _citations(candidate):
            self._cite(citation)
        if reason := candidate.get("finishReason"):
            self.complete = True
            self.builder.raw_finish_reason = as_text(reason, "finishReason")
            if known_finish_reason(reason) == "refusal":
                text = as_text(candidate.get("finishMessage"), "finishMessage")
                self.builder.refusal = text or None

    def _cite(self, citation: Citation) -> None:
        """Add a citation to the last text, once: every chunk may repeat the sources."""
        block = self._last_text or self._start("text")
        if (block.index, citation) not in self._cited:
            self._cited.add((block.index, citation))
            self.builder.cite(block, citation)

    def _read_part(self, part: Mapping[str, Any]) -> None:
        if "functionCall" in part:
            self._read_call(part)
        elif isinstance(text := part.get("text"), str):
            self._read_text(text, part)
        else:
            self._close()
            self.builder.stop(self.builder.start_provider(part))

    def _read_text(self, text: str, part: Mapping[str, Any]) -> None:
        """Read a text; it continues the last one of its kind, but a signed text is separate."""
        data = {name: value for name, value in part.items() if name != "text"}
        kind = "thinking" if part.get("thought") else "text"
        block = self._open
        if data.get(_SIGNATURE) or block is None or block.kind != kind:
            if not text and not data:
                return
            block = self._start(kind)
        block.data |= data
        self.builder.write(block, text)
        if signature := data.get(_SIGNATURE):
            self.builder.sign(block, _SIGNATURE, as_text(signature, _SIGNATURE))
            self._close()

    def _start(self, kind: str) -> TextBlock:
        self._close()
        self._open = self.builder.start_text("thinking" if kind == "thinking" else "text")
        if kind == "text":
            self._last_text = self._open
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self.builder.stop(self._open)
            self._open = None

    def _read_call(self, part: Mapping[str, Any]) -> None:
        self._close()
        call = part["functionCall"]
        name = required_text(call, "name", "functionCall")
        block = self.builder.start_call(as_text(call.get("id"), "id"), name)
        block.data |= {name: value for name, value in part.items() if name != "functionCall"}
        if call.get("id"):
            block.data["functionCall"] = {"id": call["id"]}
        if call.get("args"):
            self.builder.write(block, arguments_text(call["args"]))
        self.builder.stop(block)


def _citations(candidate: Mapping[str, Any]) -> Iterable[Citation]:
    """Return the sources of the answer: those of its search, and those it quotes."""
    grounding = candidate.get("groundingMetadata") or {}
    for chunk in as_list(grounding.get("groundingChunks"), "groundingChunks"):
        source = chunk.get("web") or chunk.get("retrievedContext") or {}
        yield Citation(source.get("uri"), source.get("title"), source.get("text"))
    quoted = candidate.get("citationMetadata") or {}
    for source in as_list(quoted.get("citationSources") or quoted.get("citations"), "citations"):
        yield Citation(source.get("uri"), source.get("title"))


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=as_count(usage.get("promptTokenCount")),
        output_tokens=as_count(usage.get("candidatesTokenCount")),
        cached_input_tokens=as_count(usage.get("cachedContentTokenCount")),
        reasoning_tokens=as_count(usage.get("thoughtsTokenCount")),
    )
