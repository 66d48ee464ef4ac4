"""Reading a reply of Gemini's, whole or chunk by chunk: a chunk is a reply with the next few parts.

Thought signatures stay on the very parts they came with. Used by `gemini.py` alone, which has the
other half of the format.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from stage0_gateway.fields import a_count, a_list, a_mapping, a_name, a_text, needed_text
from stage0_gateway.finish_reasons import normalize_finish_reason
from stage0_gateway.parts import Citation
from stage0_gateway.streaming.reply_builder import TextBlock
from stage0_gateway.usage import Usage
from stage0_gateway.wire import ReplyReader
from stage0_gateway.wire.opaque import arguments_text

NAME = "gemini"
_SIGNATURE = "thoughtSignature"


class GeminiReader(ReplyReader):
    """Reads a reply, whole or chunk by chunk: a chunk is a reply with a few of the parts."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, names)
        self._counts: dict[str, Any] = {}
        self._open: TextBlock | None = None
        self._last_text: TextBlock | None = None
        self._cited: set[tuple[int, Citation]] = set()

    def feed(self, data: Mapping[str, Any]) -> None:
        """Take in one chunk."""
        draft = self.draft
        draft.model = a_name(data.get("modelVersion")) or draft.model
        draft.request_id = draft.request_id or a_name(data.get("responseId"))
        if isinstance(usage := data.get("usageMetadata"), Mapping):
            self._counts |= usage  # totals so far; a chunk may leave one out
            draft.usage = _usage(self._counts)
        feedback = data.get("promptFeedback") or {}
        if blocked := feedback.get("blockReason"):
            draft.block_reason = a_text(blocked, "blockReason")
            draft.refusal = a_text(feedback.get("blockReasonMessage"), "blockReasonMessage") or None
            self.complete = True
        for candidate in a_list(data.get("candidates"), "candidates"):
            if candidate.get("index") in (0, None):
                self._take_candidate(candidate)

    def feed_whole(self, body: Mapping[str, Any]) -> None:
        """Take in a reply; one without candidates is the answer to a blocked prompt."""
        if not (body.get("candidates") or body.get("promptFeedback")):
            raise KeyError("candidates")
        self.feed(body)

    def _take_candidate(self, candidate: Mapping[str, Any]) -> None:
        for part in a_list((candidate.get("content") or {}).get("parts"), "parts"):
            self._take_part(a_mapping(part, "part"))
        for citation in _citations(candidate):
            self._cite(citation)
        if reason := candidate.get("finishReason"):
            self.complete = True
            self.draft.raw_finish_reason = a_text(reason, "finishReason")
            if normalize_finish_reason(reason, has_calls=False) == "refusal":
                self.draft.refusal = a_text(candidate.get("finishMessage"), "finishMessage") or None

    def _cite(self, citation: Citation) -> None:
        """To the last text; sources may be told again with every chunk."""
        block = self._last_text or self._start("text")
        if (block.index, citation) not in self._cited:
            self._cited.add((block.index, citation))
            self.draft.cite(block, citation)

    def _take_part(self, part: Mapping[str, Any]) -> None:
        if "functionCall" in part:
            self._take_call(part)
        elif isinstance(text := part.get("text"), str):
            self._take_text(text, part)
        else:
            self._close()
            self.draft.stop(self.draft.start_provider(part))

    def _take_text(self, text: str, part: Mapping[str, Any]) -> None:
        """Texts that follow each other are one, but a signed one stands for itself."""
        kept = {name: value for name, value in part.items() if name != "text"}
        kind = "thinking" if part.get("thought") else "text"
        if kept.get(_SIGNATURE) or self._open is None or self._open.kind != kind:
            if not text and not kept:
                return
            self._start(kind)
        block = self._open
        assert block is not None
        block.data |= kept
        self.draft.write(block, text)
        if signature := kept.get(_SIGNATURE):
            self.draft.sign(block, _SIGNATURE, a_text(signature, _SIGNATURE))
            self._close()

    def _start(self, kind: str) -> TextBlock:
        self._close()
        self._open = self.draft.start_text("thinking" if kind == "thinking" else "text")
        if kind == "text":
            self._last_text = self._open
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self.draft.stop(self._open)
            self._open = None

    def _take_call(self, part: Mapping[str, Any]) -> None:
        self._close()
        call = a_mapping(part["functionCall"], "functionCall")
        block = self.draft.start_call(
            a_text(call.get("id"), "id"), needed_text(call, "name", "functionCall")
        )
        block.data |= {name: value for name, value in part.items() if name != "functionCall"}
        if call.get("id"):
            block.data["functionCall"] = {"id": call["id"]}
        if call.get("args"):
            self.draft.fill(block, arguments_text(call["args"]))
        self.draft.stop(block)


def _citations(candidate: Mapping[str, Any]) -> Iterable[Citation]:
    """Where the answer has something from: what it was grounded on, and what it quotes."""
    grounding = candidate.get("groundingMetadata") or {}
    for chunk in a_list(grounding.get("groundingChunks"), "groundingChunks"):
        source = chunk.get("web") or chunk.get("retrievedContext") or {}
        yield Citation(source.get("uri"), source.get("title"), source.get("text"))
    quoted = candidate.get("citationMetadata") or {}
    for source in a_list(quoted.get("citationSources") or quoted.get("citations"), "citations"):
        yield Citation(source.get("uri"), source.get("title"))


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=a_count(usage.get("promptTokenCount")),
        output_tokens=a_count(usage.get("candidatesTokenCount")),
        cached_input_tokens=a_count(usage.get("cachedContentTokenCount")),
        reasoning_tokens=a_count(usage.get("thoughtsTokenCount")),
    )
