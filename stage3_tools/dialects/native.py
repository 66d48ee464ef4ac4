"""`NativeDialect`: the provider's own tool calls.

What the registry holds is sent as the provider's tools, its calls are run as they come, and results
go back as tool messages: `tool` messages, `tool_result` blocks or `functionResponse` parts,
whichever the wire format has. The wire formats of stage 0 do all of that, and map names that a
provider would refuse; here nothing is written but what the loop has to know. What only the provider
understands, such as signatures of thoughts, stays on the messages.
"""

from collections.abc import Sequence

from stage0_gateway import ChatResponse, Message
from stage3_tools.dialects.protocol import (
    LAST_REQUEST,
    Calls,
    FinalReply,
    Reading,
    RequestParts,
    Unusable,
    cut_off,
    with_instructions,
)
from stage3_tools.registry import ToolRegistry


class NativeDialect:
    """Tools by the provider's own calls."""

    def describe(self, registry: ToolRegistry) -> str:
        """The tools as JSON, about as long as what the provider is sent."""
        return "\n".join([tool.as_json for tool in registry.list()])

    def render(
        self, transcript: Sequence[Message], registry: ToolRegistry, *, last: bool = False
    ) -> RequestParts:
        """The history as it is, and the tools beside it.

        The last request lists the tools, too, because some servers reject a history with calls and
        no tools; `tool_choice` forbids calls, and the system prompt asks for the final answer.
        """
        specs = registry.specs()
        if not last:
            return RequestParts(tuple(transcript), specs)
        return RequestParts(
            tuple(with_instructions(transcript, LAST_REQUEST)), specs, "none" if specs else None
        )

    def read(self, response: ChatResponse) -> Reading:
        """The calls, or the reply; nothing of what was cut off."""
        if response.finish_reason == "length":
            return Unusable(
                Message.assistant(response.content), cut_off(response, "what matters most")
            )
        return Calls(response.message) if response.tool_calls else FinalReply(response.message)
