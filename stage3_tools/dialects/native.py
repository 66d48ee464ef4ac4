"""`NativeDialect`: tools through the provider's own tool calls.

The request lists the tools of the registry, and the history is sent unchanged. The wire formats of
stage 0 do the rest: results become `tool` messages, `tool_result` blocks or `functionResponse`
parts, and invalid tool names are mapped. Provider data, such as thinking signatures, stays on the
messages.
"""

from collections.abc import Sequence

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


class NativeDialect:
    """Tools through the provider's own tool calls."""

    def describe(self, registry: ToolRegistry) -> str:
        """Return the tools as JSON, about as long as their description in the request."""
        return registry.described()

    def render(
        self, transcript: Sequence[Message], registry: ToolRegistry, *, last: bool = False
    ) -> RequestParts:
        """Return the unchanged history, and the tools.

        The final request lists the tools too, because some servers reject a history with calls and
        no tools. `tool_choice` forbids calls, and the system prompt requests the final reply.
        """
        specs = registry.specs()
        if not last:
            return RequestParts(tuple(transcript), specs)
        messages = with_instructions(transcript, LAST_REQUEST)
        return RequestParts(tuple(messages), specs, "none" if specs else None)

    def read(self, response: ChatResponse) -> ReplyInterpretation:
        """Return the calls or the final reply; a truncated reply is invalid."""
        if response.finish_reason == "length":
            feedback = truncation_feedback(response, "what matters most")
            return InvalidReply(Message.assistant(response.content), feedback)
        return ToolCalls(response.message) if response.tool_calls else FinalReply(response.message)
