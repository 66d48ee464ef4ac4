"""Reading a chat completion, whole or chunk by chunk: a message is what all its deltas amount to.

What servers send differs from the documentation: `content` null or absent, calls without id or
index, thinking under four names, counts in several places. Each tolerance below is one of those.
Used by `openai.py` alone, which has the other half of the format.
"""

from collections.abc import Mapping
from typing import Any

from stage0_gateway.fields import a_count, a_list, a_mapping, a_name, a_text
from stage0_gateway.finish_reasons import normalize_finish_reason
from stage0_gateway.parts import Citation
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.reply_builder import TextBlock
from stage0_gateway.usage import Usage
from stage0_gateway.wire import ReplyReader
from stage0_gateway.wire.call_deltas import CallDeltas
from stage0_gateway.wire.refusal import refused_in_stream

NAME = "openai"
_GROWING = ("text", "summary", "data")
THINKING = ("reasoning_content", "reasoning")
"""Fields beside the content that hold thoughts."""
_ORDER = ("thinking", "text", "tool_call")


class OpenAIReader(ReplyReader):
    """Reads a completion, whole or chunk by chunk: a message is what all its deltas amount to."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, names)
        self._text: TextBlock | None = None
        self._thoughts: TextBlock | None = None
        self._details: list[dict[str, Any]] = []
        self._calls = CallDeltas(self.draft)

    def feed(self, data: Mapping[str, Any]) -> None:
        """Take in one chunk; after its end marker, `[DONE]`, a server sends none."""
        self._take_head(data)
        for choice in data.get("choices") or ():
            if choice.get("index") in (0, None):
                delta = choice.get("delta")  # beside which some repeat the whole message
                self._take_choice(choice, (choice.get("message") or {}) if delta is None else delta)

    def feed_whole(self, body: Mapping[str, Any]) -> None:
        """Take in a chat completion."""
        choice = a_mapping(body["choices"][0], "choices[0]")
        self._take_head(body)
        said = choice.get("message")
        if said is None and _shows_a_filter(choice):
            self.draft.block_reason, said = "content_filter", {}
        self._take_choice(choice, a_mapping(said, "message"), whole=True)

    def response(self, raw: Any = None) -> ChatResponse:
        """What all of it amounts to."""
        draft = self.draft
        if self._details and self._thoughts:
            self._thoughts.data["reasoning_details"] = self._details
        # One order however the chunks were mixed: a whole message does not tell, either.
        draft.blocks.sort(key=lambda block: _ORDER.index(block.kind))
        return draft.response(raw)

    # ---- what a body and a chunk have in common
    # -----------------------------------------------------------

    def _take_head(self, data: Mapping[str, Any]) -> None:
        """The model, the id and the token counts; where they are repeated, the last counts."""
        draft = self.draft
        if draft.model is None:
            draft.model = a_name(data.get("model"))
        if draft.request_id is None:
            draft.request_id = a_name(data.get("id"))
        usage = data.get("usage")
        if (groq := data.get("x_groq")) and isinstance(groq, Mapping):
            if groq.get("error"):
                raise refused_in_stream(groq)
            usage = usage or groq.get("usage")
        if usage and isinstance(usage, Mapping):
            draft.usage = _usage(usage)
            if type(cost := usage.get("cost")) in (int, float):  # OpenRouter says what it charges
                draft.cost = cost

    def _take_choice(
        self, choice: Mapping[str, Any], said: Mapping[str, Any], *, whole: bool = False
    ) -> None:
        """One choice: its message or delta, and why it ended."""
        for field in THINKING:
            if thought := said.get(field):
                self._think(a_text(thought, field), field)
                break
        if details := said.get("reasoning_details"):
            self._take_details(details, alone=not any(said.get(field) for field in THINKING))
        if (content := said.get("content")) and isinstance(content, str):
            self._say(content)
        elif content:
            self._take_parts(a_list(content, "content"))
        for call in filter(None, said.get("tool_calls") or ()):
            self._calls.take(call, whole=whole)
        self._take_rest(said)
        self._take_end(choice)

    def _take_end(self, choice: Mapping[str, Any]) -> None:
        """Why the choice ended: an error, a filter, a reason."""
        if failed := choice.get("error"):  # OpenRouter's
            raise refused_in_stream({"error": failed})
        if not choice.keys().isdisjoint(_FILTERS) and (blocked := _blocked_categories(choice)):
            self.draft.block_reason = ", ".join(blocked)
        if reason := choice.get("finish_reason"):
            self.complete = True
            self.draft.raw_finish_reason = a_text(reason, "finish_reason")

    def _take_rest(self, said: Mapping[str, Any]) -> None:
        if refusal := said.get("refusal"):
            self.draft.refusal = (self.draft.refusal or "") + a_text(refusal, "refusal")
        for note in said.get("annotations") or ():
            if isinstance(cited := a_mapping(note, "annotation").get("url_citation"), Mapping):
                citation = Citation(
                    cited.get("url"), cited.get("title"), cited.get("content"), {NAME: note}
                )
                self.draft.cite(self._text_block(), citation)
        if extra := said.get("extra_content"):
            self._text_block().data["extra_content"] = extra

    def _say(self, text: str) -> None:
        self.draft.write(self._text or self._text_block(), text)

    def _text_block(self) -> TextBlock:
        self._text = self._text or self.draft.start_text()
        return self._text

    def _think(self, text: str, field: str) -> None:
        if self._thoughts is None:
            self._thoughts = self.draft.start_text("thinking")
            self._thoughts.data["field"] = field
        self.draft.write(self._thoughts, text)

    def _take_parts(self, parts: list[Any]) -> None:
        for part in parts:
            if isinstance(part, str):
                self._say(part)
            elif part.get("type") == "thinking":  # Mistral's
                thoughts = part.get("thinking")
                for thought in (
                    [thoughts] if isinstance(thoughts, str) else a_list(thoughts, "thinking")
                ):
                    text = thought if isinstance(thought, str) else thought.get("text")
                    self._think(a_text(text, "thinking"), "thinking")
            elif part.get("type") in ("text", "output_text"):
                self._say(a_text(part.get("text"), "text"))

    def _take_details(self, details: Any, *, alone: bool) -> None:
        """OpenRouter's: thoughts with their signatures, in pieces that belong together by kind and
        index.
        """
        for piece in a_list(details, "reasoning_details"):
            piece = a_mapping(piece, "reasoning_details")
            if alone:
                self._think(
                    a_text(piece.get("text") or piece.get("summary"), "thinking"), "reasoning"
                )
            last = self._details[-1] if self._details else {}
            if any(last.get(name) != piece.get(name) for name in ("type", "index")) or not last:
                self._details.append(dict(piece))
                continue
            for name, value in piece.items():
                if name in _GROWING and isinstance(value, str) and isinstance(last.get(name), str):
                    last[name] += value
                else:
                    last[name] = value or last.get(name)
        if self._details and self._thoughts is None:
            self._think("", "reasoning_details")


_FILTERS = ("content_filter_results", "content_filter_result")
"""Fields of Azure's choices; a choice that was blocked may have no message."""


def _shows_a_filter(choice: Mapping[str, Any]) -> bool:
    """Whether the choice shows a content filter: in its finish reason, or in the filter's
    results.
    """
    reason = a_text(choice.get("finish_reason"), "finish_reason")
    return normalize_finish_reason(reason, has_calls=False) == "refusal" or any(
        choice.get(field) for field in _FILTERS
    )


def _blocked_categories(choice: Mapping[str, Any]) -> list[str]:
    """The categories, such as "hate", for which Azure's content filter blocked the choice."""
    results = [found for field in _FILTERS if isinstance(found := choice.get(field), Mapping)]
    return [
        str(category)
        for found in results
        for category, result in found.items()
        if isinstance(result, Mapping) and result.get("filtered") is True
    ]


def _usage(usage: Mapping[str, Any]) -> Usage:
    read, written = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    read = (
        read
        if isinstance(read, Mapping)
        else {"cached_tokens": usage.get("prompt_cache_hit_tokens")}
    )
    written = written if isinstance(written, Mapping) else {}
    return Usage(
        input_tokens=a_count(usage.get("prompt_tokens")),
        output_tokens=a_count(usage.get("completion_tokens")),
        cached_input_tokens=a_count(read.get("cached_tokens")),
        reasoning_tokens=a_count(written.get("reasoning_tokens")),
        cache_write_tokens=a_count(read.get("cache_write_tokens")),
    )
