import pytest

from stage0_gateway import Gateway
from stage0_gateway.settings import settings_from_env

NONE = {"base_url": None, "api_key": None}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {"model": "offline:teacher"}),
        ({"LLM_MODEL": "offline:teacher", "LLM_BASE_URL": "http://x/v1"}, {"model": "offline:teacher"}),
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
    ],
)
def test_the_environment_says_which_model_to_use(monkeypatch, environment, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert settings_from_env() == expected


def test_a_model_by_argument_goes_before_the_environment(monkeypatch):
    monkeypatch.setenv("LLM_MODEL", "openai:m")
    monkeypatch.setenv("GROQ_API_KEY", "g")
    assert settings_from_env("groq:x") == {**NONE, "model": "groq:x", "api_key": "g"}


async def test_with_nothing_set_the_embedded_model_answers_and_says_that_it_is_one(caplog):
    async with Gateway.from_env() as gateway:
        await gateway.chat([{"role": "user", "content": "hi"}])
        await gateway.chat([{"role": "user", "content": "hi"}])
    assert [record.name for record in caplog.records] == ["stage0_gateway"]
    assert "rules, not from a language model" in caplog.text
