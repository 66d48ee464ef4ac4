"""`ChatResponse`: one reply of a model, with its token counts and finish reason.

This module knows no wire format and does not interpret the text of a reply. `Usage` holds the
server's raw token counts; `accounting/prices.py` converts them to costs.

All wire formats share one table of finish reasons, because many servers use their own reasons
inside another provider's format.
"""

from dataclasses import astuple, dataclass, field
from inspect import isawaitable
from typing import Any, Literal, get_args

from stage0_gateway.messages import Message
from stage0_gateway.parts import ToolCall

# ---- token counts


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts that a server reported; None means not reported.

    The numbers are never derived, and their meaning differs. Input tokens include cached tokens for
    OpenAI and Gemini but not for Anthropic. Gemini's output tokens exclude thinking.

    Attributes:
        input_tokens: Tokens of the prompt.
        output_tokens: Tokens of the reply.
        cached_input_tokens: Prompt tokens read from the server's cache.
        reasoning_tokens: Tokens of the model's thinking.
        cache_write_tokens: Prompt tokens written to the server's cache.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Add two reports; a count that only one of them has is used unchanged."""
        sums = []
        for mine, theirs in zip(astuple(self), astuple(other), strict=True):
            sums.append(theirs if mine is None else mine if theirs is None else mine + theirs)
        return Usage(*sums)


# ---- finish reasons

FinishReason = Literal["stop", "tool_calls", "length", "refusal", "pause", "error", "unknown"]

_REASONS: dict[FinishReason, str] = {
    "stop": """
        stop stop_sequence stop_sequence_reached stop_string stop_string_found stop_token
        stop_criteria_met eos eos_token eos_found end end_turn end_of_turn end_of_text
        end_of_sequence endoftext word finish finished complete completed done normal success
        succeeded""",
    "tool_calls": """
        tool_calls tool_call tool_use function_call function_calls unexpected_tool_call""",
    "length": """
        length max_length maximum_length model_length length_limit context_length
        context_length_exceeded context_length_reached context_limit context_window_exceeded
        model_context_window_exceeded max_tokens max_tokens_reached maximum_tokens max_output
        max_output_tokens max_new_tokens max_completion_tokens max_predicted_tokens_reached
        token_limit output_limit limit error_limit time_limit truncated incomplete""",
    "refusal": """
        refusal refused content_filter content_filtered filtered sensitive safety moderation
        blocked blocklist prohibited_content recitation spii language model_armor error_toxic
        guardrail guardrail_intervened image_safety image_prohibited_content image_recitation""",
    "pause": """
        pause pause_turn compaction""",
    "error": """
        error failed failure abort aborted cancel canceled cancelled user_cancel user_stopped
        interrupted timeout timed_out network_error server_error internal_error
        insufficient_system_resource resource_exhausted overloaded not_finished repetition
        malformed_function_call malformed_response malformed_tool_use malformed_model_output
        too_many_tool_calls missing_thought_signature""",
}
_REASON_BY_LETTERS = {
    word.replace("_", ""): reason for reason, words in _REASONS.items() for word in words.split()
}


def known_finish_reason(raw: str | None) -> FinishReason:
    """Look up a server's finish reason; "unknown" if it is missing or not in the table.

    Only letters and digits count: MAX_TOKENS, maxTokens and "max tokens" are the same reason.
    """
    letters = "".join(filter(str.isalnum, (raw or "").lower())).removeprefix("finishreason")
    return _REASON_BY_LETTERS.get(letters, "unknown")


def normalize_finish_reason(raw: str | None, *, has_calls: bool) -> FinishReason:
    """Convert a server's finish reason; many report "stop" or none beside tool calls."""
    reason = known_finish_reason(raw)
    if has_calls and reason in ("stop", "unknown"):
        return "tool_calls"
    if reason == "tool_calls" and not has_calls and "unexpected" in (raw or "").lower():
        return "error"  # Gemini reports a call that it does not return
    return reason


# ---- the reply

_FINISH_REASONS = frozenset(get_args(FinishReason))


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A request that failed before the gateway sent it again, or asked another model.

    Attributes:
        model: "provider:name".
        error: The name of the error's class, and its text.
        status: The HTTP status, or None.
        seconds: The time until the failure.
    """

    model: str
    error: str
    status: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """One reply.

    Attributes:
        message: The assistant message: text, thinking, tool calls.
        finish_reason: Why the model stopped. A server's own value is converted, so a chat function
            of yours may pass it on.
        raw_finish_reason: The server's value, or None.
        usage: The server's token counts, or None.
        model: The model's name as reported by the server.
        cost: US dollars, or None if the price is unknown.
        request_id: The server's id of the request, for its support.
        refusal: The server's text if the model refused, else None.
        block_reason: The reason if a filter blocked the prompt or the reply, else None.
        attempts: The failed attempts before this reply: retries, and models that failed.
        raw: The decoded body, with all fields that this class does not have.
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
    attempts: tuple[FailedAttempt, ...] = field(default=(), repr=False, compare=False)
    raw: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.finish_reason not in _FINISH_REASONS:
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
        """The native tool calls of the reply."""
        return self.message.tool_calls

    @property
    def thinking(self) -> str:
        """The model's thinking before the reply."""
        return self.message.thinking


async def response_of(reply: object) -> ChatResponse:
    """Await what a chat function returned; a text becomes a reply without usage.

    Raises:
        TypeError: The function is not async, or returned something else.
    """
    value = await reply if isawaitable(reply) else None
    return value if isinstance(value, ChatResponse) else _from_text(value, reply)


def _from_text(value: object, returned: object) -> ChatResponse:
    if isinstance(value, str):
        return ChatResponse(Message.assistant(value), "stop")
    name = f"an awaitable {type(value).__name__}" if isawaitable(returned) else repr(returned)[:80]
    raise TypeError(
        "A chat function must be async and return a ChatResponse or a text, as Gateway.chat does; "
        f"this one returned {name}."
    )
