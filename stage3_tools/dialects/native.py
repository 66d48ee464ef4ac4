"""`NativeDialect`: tools through the provider's own tool calls.

The request lists the tools of the registry, and the history is sent unchanged. The wire formats of
stage 0 do the rest: results become `tool` messages, `tool_result` blocks or `functionResponse`
parts, and invalid tool names are mapped. Provider data, such as thinking signatures, stays on the
messages.
"""

import json
from collections.abc import Sequence
from typing import Any

from stage0_gateway import ChatResponse, Message
from stage3_tools.dialects.protocol import (
    LAST_REQUEST,
    FinalReply,
    InvalidReply,
    ReplyInterpretation,
    RequestParts,
    ToolCalls,
    truncation_feedback,
    with_instructions,
)
from stage3_tools.registry import ToolRegistry

_OUTPUT = "Answer the user with one JSON value that fits this JSON Schema, and nothing else:"


class NativeDialect:
    """Tools through the provider's own tool calls."""

    def __init__(self) -> None:
        self._output_schema: Any = None
        self._instructions: tuple[str, ...] = ()

    def for_output(self, schema: Any) -> "NativeDialect":
        """Return a dialect whose final replies are JSON for a JSON Schema."""
        dialect = NativeDialect()
        dialect._output_schema = schema
        dialect._instructions = (f"{_OUTPUT}\n{json.dumps(schema, ensure_ascii=False)}",)
        return dialect

    def describe(self, registry: ToolRegistry) -> str:
        """Return the tools as JSON, about as long as their description in the request."""
        return "\n".join([registry.described(), *self._instructions])

    def render(
        self, transcript: Sequence[Message], registry: ToolRegistry, *, last: bool = False
    ) -> RequestParts:
        """Return the unchanged history, and the tools.

        The final request lists the tools too, because some servers reject a history with calls and
        no tools. `tool_choice` forbids calls, and the system prompt requests the final reply.
        """
        specs, instructions = registry.specs(), self._instructions
        if last:
            instructions = (*instructions, LAST_REQUEST)
        messages = with_instructions(transcript, *instructions) if instructions else transcript
        choice = "none" if last and specs else None
        return RequestParts(tuple(messages), specs, choice, self._output_schema)

    def read(self, response: ChatResponse, registry: ToolRegistry) -> ReplyInterpretation:
        """Return the calls or the final reply; a truncated reply is invalid."""
        if response.finish_reason == "length":
            feedback = truncation_feedback(response, "what matters most")
            return InvalidReply(Message.assistant(response.content), feedback)
        return ToolCalls(response.message) if response.tool_calls else FinalReply(response.message)

    def visible_text(self, partial_reply: str) -> str:
        """Return the whole text: calls are not part of it."""
        return partial_reply
