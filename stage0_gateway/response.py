"""What came back from a model server, after the wire format has read it.

Knows nothing of what the text means: whether it holds JSON, a decision or a lie is for later
stages.
"""

from dataclasses import dataclass, field
from typing import Any, get_args

from stage0_gateway.finish_reasons import FinishReason, normalize_finish_reason
from stage0_gateway.messages import Message
from stage0_gateway.parts import ToolCall
from stage0_gateway.usage import Usage

_KNOWN = frozenset(get_args(FinishReason))


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """One reply.

    Attributes:
        message: The assistant message: text, thinking, tool calls.
        finish_reason: Why the model stopped, in our words. A server's own word is translated, so
            that a chat function of yours may pass it on.
        raw_finish_reason: The same in the server's own word, or None.
        usage: The server's token counts, or None where it gave none.
        model: The model that answered, as the server names it.
        cost: US dollars, or None where no price is known.
        request_id: The server's name for this exchange, for its support.
        refusal: The server's text where the model refused, else None.
        block_reason: Why a filter blocked the prompt or the reply, else None.
        raw: The decoded body, for what this class does not hold.
    """

    message: Message
    finish_reason: FinishReason = "unknown"
    raw_finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    cost: float | None = None
    request_id: str | None = None
    refusal: str | None = None
    block_reason: str | None = None
    raw: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.finish_reason not in _KNOWN:
            raw = self.finish_reason and str(self.finish_reason)
            reason = normalize_finish_reason(raw, has_calls=bool(self.message.tool_calls))
            object.__setattr__(self, "finish_reason", reason)
            object.__setattr__(self, "raw_finish_reason", self.raw_finish_reason or raw)

    @property
    def content(self) -> str:
        """The text of the reply."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools the model asks for, through the provider's own tool calls."""
        return self.message.tool_calls

    @property
    def thinking(self) -> str:
        """What the model thought before it answered."""
        return self.message.thinking
