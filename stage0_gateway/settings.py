"""Find out from the environment which model to use, and with which key.

    LLM_MODEL       provider:name, such as openai:gpt-5-mini, ollama:llama3.2 or offline:teacher
    LLM_BASE_URL    another server that speaks the provider's format
    LLM_API_KEY     a key, which counts before the provider's own
    OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, …   a provider's own key

Nothing set means "offline:teacher", which says itself that it is no language model. A base URL alone means
an OpenAI-compatible server with one model; a key alone means that provider's example model. This is the
only file of the four stages that reads the environment for settings, and only when it is called.
"""

import os
from typing import Any

from stage0_gateway.models import OFFLINE, PROVIDERS


def settings_from_env(model: str | None = None) -> dict[str, Any]:
    """The arguments for `Gateway`: model, and key and base URL where they are set.

    Args:
        model: "provider:name", where the caller knows better than LLM_MODEL.
    """
    base_url = os.environ.get("LLM_BASE_URL") or None
    model = model or os.environ.get("LLM_MODEL") or _guess(base_url)
    provider = PROVIDERS.get(model.partition(":")[0])
    if provider is PROVIDERS["offline"]:
        return {"model": model}
    own_key = os.environ.get(provider.key_variable) if provider and provider.key_variable else None
    return {"model": model, "base_url": base_url, "api_key": os.environ.get("LLM_API_KEY") or own_key}


def _guess(base_url: str | None) -> str:
    if base_url:
        return "openai:default"
    for name, provider in PROVIDERS.items():
        if provider.key_variable and os.environ.get(provider.key_variable):
            return f"{name}:{provider.example_model}"
    return OFFLINE
