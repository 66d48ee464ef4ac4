"""The setting `reasoning` as the fields of each wire format.

A level ("low", "medium", "high") is portable. A token budget is for models that accept one; models
that accept only a budget get `BUDGETS` for a level. An unsupported value raises a
ConfigurationError with the fix. All functions are pure; the wire formats use them.
"""

import re
from typing import Any, cast, get_args

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.request import ChatRequest, Level, Reasoning

LEVELS = get_args(Level)
BUDGETS = {"low": 1024, "medium": 8192, "high": 24_576}
"""The tokens of each level; Google documents the same ones for Gemini 2.5."""
_MIN_CLAUDE_BUDGET = 1024
_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2})(?!\d))?")
_FIRST_WITH_LEVELS = (4, 6)
_LAST_WITH_BUDGETS = (4, 6)


def _check(value: object) -> None:
    """Raise a ConfigurationError unless the value is a level, a token budget or None."""
    if value is not None and not _is_reasoning(value):
        raise ConfigurationError(
            f"reasoning={value!r} is unknown. Pass 'low', 'medium' or 'high', a number of tokens, "
            "or None for the server's default. Other values of a provider belong into "
            "provider_options."
        )


def read_reasoning(*values: Any) -> Reasoning | None:
    """Return the first value that is a level or a budget, for the formats in reverse."""
    for value in values:
        value = value.lower() if isinstance(value, str) else value
        if value is not None and _is_reasoning(value):
            return cast("Reasoning", value)
    return None


def level_of(request: ChatRequest) -> str:
    """Return the level of a request, for formats without token budgets."""
    _check(request.reasoning)
    if not isinstance(request.reasoning, str):
        raise _no_budget(request)
    return request.reasoning


def anthropic_fields(request: ChatRequest, default_max_tokens: int) -> dict[str, Any]:
    """Return Anthropic's fields: a budget for models up to 4.6, a level for those from 4.6 on."""
    _check(request.reasoning)
    if request.temperature not in (None, 1):
        raise ConfigurationError(
            f"Anthropic's models think only with temperature 1, not {request.temperature}. Omit "
            "temperature or reasoning."
        )
    found = _CLAUDE.match(request.model)  # other models in this format accept both
    version = (int(found[1]), int(found[2] or 0)) if found else None
    budget = _budget_of(request)
    fields: dict[str, Any] = {"max_tokens": request.max_tokens or budget + default_max_tokens}
    if isinstance(request.reasoning, str) and (version is None or version >= _FIRST_WITH_LEVELS):
        effort = {"effort": request.reasoning}
        return {**fields, "thinking": {"type": "adaptive"}, "output_config": effort}
    if version is not None and version > _LAST_WITH_BUDGETS:
        raise _no_budget(request)
    if budget < _MIN_CLAUDE_BUDGET or budget >= fields["max_tokens"]:
        raise ConfigurationError(
            f"reasoning={request.reasoning!r} is a budget of {budget} tokens for {request.model}. "
            f"Anthropic requires at least {_MIN_CLAUDE_BUDGET}, and fewer than max_tokens "
            f"({fields['max_tokens']}), which includes it. Change reasoning or max_tokens."
        )
    if request.tool_choice not in (None, "auto", "none"):
        raise ConfigurationError(
            f"{request.model} cannot be forced to call a tool while it thinks with a budget. Omit "
            f"tool_choice={request.tool_choice!r} or reasoning."
        )
    return {**fields, "thinking": {"type": "enabled", "budget_tokens": budget}}


def gemini_fields(request: ChatRequest) -> dict[str, Any]:
    """Return the `thinkingConfig`: a level for Gemini 3 and later, and a budget for all others."""
    _check(request.reasoning)
    if isinstance(request.reasoning, str) and "gemini-2" not in request.model:
        return {"thinkingLevel": request.reasoning}
    return {"thinkingBudget": _budget_of(request)}


def _is_reasoning(value: object) -> bool:
    return value in LEVELS or (type(value) is int and value >= 0)


def _budget_of(request: ChatRequest) -> int:
    value = request.reasoning
    return BUDGETS[value] if isinstance(value, str) else value or 0


def _no_budget(request: ChatRequest) -> ConfigurationError:
    return ConfigurationError(
        f"{request.model} does not accept reasoning={request.reasoning!r}, a number of tokens. "
        "Pass 'low', 'medium' or 'high'."
    )
