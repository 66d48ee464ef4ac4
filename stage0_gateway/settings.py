"""Find out from the environment which model to use, and with which key.

    LLM_MODEL       provider:name, such as openai:gpt-5-mini, ollama:llama3.2 or offline:teacher
    LLM_BASE_URL    another server that speaks the provider's format
    LLM_API_KEY     a key, which counts before the provider's own
    OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, …   a provider's own key

Nothing set means "offline:teacher", which says itself that it is no language model. A base URL
alone means an OpenAI-compatible server with one model; a key alone means that provider's example
model. LLM_BASE_URL and LLM_API_KEY belong to LLM_MODEL: a program that asks for another provider's
model gets neither. This is the only file of the four stages that reads the environment for
settings, and only when it is called.
"""

import os
from collections.abc import Iterable
from typing import Any

from stage0_gateway.http.endpoint import OFFLINE, PROVIDERS


def settings_from_env(
    model: str | None = None, fallback_models: Iterable[str] = ()
) -> dict[str, Any]:
    """The arguments for `Gateway`: model, and keys and base URL where they are set.

    Args:
        model: "provider:name", where the caller knows better than LLM_MODEL.
        fallback_models: Models whose keys are needed as well.
    """
    base_url, own_key = (
        os.environ.get("LLM_BASE_URL") or None,
        os.environ.get("LLM_API_KEY") or None,
    )
    described = os.environ.get("LLM_MODEL") or None
    model = model or described or _guess(base_url)
    provider = _provider(model)
    if provider == "offline" or (described and provider != _provider(described)):
        base_url = own_key = None
    key: str | dict[str, str] | None = own_key or _key_of(model)
    if others := {_provider(name): found for name in fallback_models if (found := _key_of(name))}:
        key = others | ({provider: key} if isinstance(key, str) else {})
    if provider == "offline" and not others:
        return {"model": model}
    return {"model": model, "base_url": base_url, "api_key": key}


def _provider(model: str) -> str:
    return model.partition(":")[0]


def _key_of(model: str) -> str | None:
    provider = PROVIDERS.get(_provider(model))
    return os.environ.get(provider.key_variable) if provider and provider.key_variable else None


def _guess(base_url: str | None) -> str:
    if base_url:
        return "openai:default"
    for name, provider in PROVIDERS.items():
        if provider.key_variable and os.environ.get(provider.key_variable):
            return f"{name}:{provider.example_model}"
    return OFFLINE
