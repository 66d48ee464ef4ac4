import pytest

from stage0_gateway import AuthenticationFailed, Gateway
from stage0_gateway.settings import settings_from_env
from tests.stage0_gateway.requests import QUESTION
from tests.stage0_gateway.servers import Answers

NONE = {"base_url": None, "api_key": None}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {"model": "offline:teacher"}),
        (
            {"LLM_MODEL": "offline:teacher", "LLM_BASE_URL": "http://x/v1"},
            {"model": "offline:teacher"},
        ),
        (
            {"LLM_BASE_URL": "http://x/v1"},
            {"model": "openai:default", "base_url": "http://x/v1", "api_key": None},
        ),
        ({"LLM_MODEL": "ollama:llama3.2"}, {**NONE, "model": "ollama:llama3.2"}),
        ({"OPENAI_API_KEY": "k"}, {**NONE, "model": "openai:gpt-5-mini", "api_key": "k"}),
        ({"GROQ_API_KEY": "g", "LLM_MODEL": "groq:m"}, {**NONE, "model": "groq:m", "api_key": "g"}),
        ({"OPENAI_API_KEY": "k", "LLM_MODEL": "groq:m"}, {**NONE, "model": "groq:m"}),
        (
            {"OPENAI_API_KEY": "k", "LLM_API_KEY": "mine", "LLM_MODEL": "openai:m"},
            {**NONE, "model": "openai:m", "api_key": "mine"},
        ),
        ({"LLM_MODEL": "", "LLM_BASE_URL": ""}, {"model": "offline:teacher"}),
        (
            {"LLM_MODEL": "gemini:m", "GEMINI_API_KEY": "g"},
            {**NONE, "model": "gemini:m", "api_key": "g"},
        ),
        (
            {"ANTHROPIC_API_KEY": "a"},
            {**NONE, "model": "anthropic:claude-haiku-4-5", "api_key": "a"},
        ),
        (
            {"OPENAI_API_KEY": "k", "LLM_MODEL": "openai-responses:m", "LLM_BASE_URL": "http://x"},
            {"model": "openai-responses:m", "api_key": "k", "base_url": "http://x"},
        ),
    ],
    ids=[
        "nothing",
        "the offline model needs no server",
        "a server alone",
        "a local model",
        "a key alone",
        "a model and its key",
        "a key of another provider is not sent",
        "a key for this server goes before the provider's",
        "empty is not set",
        "another format",
        "a key of another format alone",
        "another format with the key and the server of openai",
    ],
)
def test_the_environment_sets_the_model_the_server_and_the_key(monkeypatch, environment, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert settings_from_env() == {**NONE, **expected}


def test_a_model_argument_overrides_the_environment(monkeypatch):
    monkeypatch.setenv("LLM_MODEL", "openai:m")
    monkeypatch.setenv("GROQ_API_KEY", "g")
    assert settings_from_env("groq:x") == {**NONE, "model": "groq:x", "api_key": "g"}


@pytest.mark.parametrize(
    ("environment", "fallbacks", "expected"),
    [
        (
            {"LLM_MODEL": "openai:m", "OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"},
            ["anthropic:c"],
            {**NONE, "model": "openai:m", "api_key": {"openai": "o", "anthropic": "a"}},
        ),
        (
            {"LLM_MODEL": "openai:m", "LLM_API_KEY": "mine", "OPENAI_API_KEY": "o"},
            ["openai:other"],
            {**NONE, "model": "openai:m", "api_key": {"openai": "mine"}},
        ),
        (
            {
                "LLM_MODEL": "ollama:m",
                "LLM_BASE_URL": "http://x/v1",
                "GROQ_API_KEY": "g",
                "MISTRAL_API_KEY": "m",
            },
            ["groq:a", "offline:teacher"],
            {"model": "ollama:m", "base_url": "http://x/v1", "api_key": {"groq": "g"}},
        ),
        (
            {"LLM_MODEL": "openai:m", "OPENAI_API_KEY": "o"},
            ["ollama:m", "offline:teacher"],
            {**NONE, "model": "openai:m", "api_key": "o"},
        ),
        (
            {
                "LLM_BASE_URL": "http://x/v1",
                "LLM_API_KEY": "mine",
                "LLM_MODEL": "offline:teacher",
                "GROQ_API_KEY": "g",
            },
            ["groq:a"],
            {**NONE, "model": "offline:teacher", "api_key": {"groq": "g"}},
        ),
        ({"LLM_MODEL": "offline:teacher"}, ["ollama:m"], {"model": "offline:teacher"}),
    ],
    ids=[
        "each has its own",
        "one key for the models of one provider",
        "only the keys that are needed",
        "models without keys",
        "the offline model takes nothing from the settings of a server",
        "no key at all",
    ],
)
def test_the_keys_of_fallback_models_are_read_from_the_environment(
    monkeypatch, environment, fallbacks, expected
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert settings_from_env(None, fallbacks) == {**NONE, **expected}


@pytest.mark.parametrize("key", [{}, {"GROQ_API_KEY": "g"}])
def test_the_server_and_the_key_of_one_provider_are_not_used_for_another_provider(monkeypatch, key):
    settings = {
        "LLM_MODEL": "openai:m",
        "LLM_BASE_URL": "http://mine.test/v1",
        "LLM_API_KEY": "mine",
        **key,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert settings_from_env("groq:x") == {
        **NONE,
        "model": "groq:x",
        "api_key": key.get("GROQ_API_KEY"),
    }
    mine = {"base_url": "http://mine.test/v1", "api_key": "mine"}
    assert settings_from_env("openai:x") == {"model": "openai:x", **mine}


async def test_a_gateway_from_the_environment_has_the_keys_of_its_fallback_models(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "o")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    server = Answers(401)
    gateway = Gateway.from_env(fallback_models=["anthropic:c"], transport=server)
    with pytest.raises(AuthenticationFailed):
        await gateway.chat(QUESTION)
    first, second = (request.headers for request in server.requests)
    assert (first["authorization"], second["x-api-key"]) == ("Bearer o", "a")


async def test_without_settings_the_offline_model_answers_and_logs_one_notice(caplog):
    async with Gateway.from_env() as gateway:
        await gateway.chat(QUESTION)
        await gateway.chat(QUESTION)
    assert [record.name for record in caplog.records] == ["stage0_gateway"]
    assert "rules, not from a language model" in caplog.text
