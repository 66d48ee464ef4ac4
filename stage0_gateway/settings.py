"""Select the model and its key from environment variables.

    LLM_MODEL       provider:name, such as openai:gpt-5-mini, ollama:llama3.2 or offline:teacher
    LLM_BASE_URL    another server in the provider's format
    LLM_API_KEY     a key, which overrides the provider's own variable
    OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, …   a provider's own key

Without any of them, the model is "offline:teacher", which identifies itself as not an LLM. A base
URL alone selects an OpenAI-compatible server with one model. A key alone selects that provider's
example model. LLM_BASE_URL and LLM_API_KEY belong to LLM_MODEL and are not used for a model of
another provider. Only this module of the stage reads the environment, when its function is called.
"""

import os
from collections.abc import Iterable
from typing import Any

from stage0_gateway.http.endpoint import OFFLINE, PROVIDERS


def settings_from_env(
    model: str | None = None, fallback_models: Iterable[str] = ()
) -> dict[str, Any]:
    """Return arguments for `Gateway`: the model, and the keys and the base URL if they are set.

    Args:
        model: "provider:name"; overrides LLM_MODEL.
        fallback_models: Further models whose keys are needed.
    """
    base_url = os.environ.get("LLM_BASE_URL") or None
    general_key = os.environ.get("LLM_API_KEY") or None
    configured = os.environ.get("LLM_MODEL") or None
    model = model or configured or _default_model(base_url)
    provider = _provider(model)
    if provider == "offline" or (configured and provider != _provider(configured)):
        base_url = general_key = None
    key: str | dict[str, str] | None = general_key or _key_of(model)
    others = {_provider(name): other for name in fallback_models if (other := _key_of(name))}
    if others:
        key = others | ({provider: key} if isinstance(key, str) else {})
    return {"model": model, "base_url": base_url, "api_key": key}


def _provider(model: str) -> str:
    return model.partition(":")[0]


def _key_of(model: str) -> str | None:
    provider = PROVIDERS.get(_provider(model))
    return os.environ.get(provider.key_variable) if provider and provider.key_variable else None


def _default_model(base_url: str | None) -> str:
    if base_url:
        return "openai:default"
    for name, provider in PROVIDERS.items():
        if provider.key_variable and os.environ.get(provider.key_variable):
            return f"{name}:{provider.example_model}"
    return OFFLINE
