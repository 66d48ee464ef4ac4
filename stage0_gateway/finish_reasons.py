"""Finish reasons of all servers in the words of `ChatResponse.finish_reason`.

One table for all wire formats, because many servers keep their own reasons in another provider's
format. Reasons are compared without case and punctuation. Used by `response`, `draft` and the wire
formats.
"""

from typing import Literal

FinishReason = Literal["stop", "tool_calls", "length", "refusal", "pause", "error", "unknown"]

_REASONS: dict[FinishReason, str] = {
    "stop": """
        stop stop_sequence stop_sequence_reached stop_string stop_string_found stop_token stop_criteria_met
        eos eos_token eos_found end end_turn end_of_turn end_of_text end_of_sequence endoftext word
        finish finished complete completed done normal success succeeded""",
    "tool_calls": """
        tool_calls tool_call tool_use function_call function_calls unexpected_tool_call""",
    "length": """
        length max_length maximum_length model_length length_limit context_length context_length_exceeded
        context_length_reached context_limit context_window_exceeded model_context_window_exceeded
        max_tokens max_tokens_reached maximum_tokens max_output max_output_tokens max_new_tokens
        max_completion_tokens max_predicted_tokens_reached token_limit output_limit limit error_limit
        time_limit truncated incomplete""",
    "refusal": """
        refusal refused content_filter content_filtered filtered sensitive safety moderation blocked blocklist
        prohibited_content recitation spii language model_armor error_toxic guardrail guardrail_intervened
        image_safety image_prohibited_content image_recitation""",
    "pause": """
        pause pause_turn compaction""",
    "error": """
        error failed failure abort aborted cancel canceled cancelled user_cancel user_stopped interrupted
        timeout timed_out network_error server_error internal_error insufficient_system_resource
        resource_exhausted overloaded not_finished repetition malformed_function_call malformed_response
        malformed_tool_use malformed_model_output too_many_tool_calls missing_thought_signature""",
}


def _plain(reason: str) -> str:
    """The letters of a reason: MAX_TOKENS, maxTokens and "max tokens" are the same."""
    return "".join(filter(str.isalnum, reason.lower())).removeprefix("finishreason")


_MEANING = {_plain(name): meaning for meaning, names in _REASONS.items() for name in names.split()}


def normalize_finish_reason(raw: str | None, *, has_calls: bool) -> FinishReason:
    """Translate a server's finish reason.

    Args:
        raw: The server's value; None where it sent none.
        has_calls: Whether the reply holds tool calls. Many servers report "stop" or nothing beside
            them.
    """
    reason = _MEANING.get(_plain(raw or ""), "unknown")
    if has_calls and reason in ("stop", "unknown"):
        return "tool_calls"
    if reason == "tool_calls" and not has_calls and "unexpected" in (raw or "").lower():
        return "error"  # Gemini's, for a call that it does not show
    return reason


def is_complete(raw: str | None) -> bool:
    """Whether the reason says that the model ended the reply itself; False for an unknown or
    missing reason.
    """
    return _MEANING.get(_plain(raw or "")) in ("stop", "tool_calls", "pause")
