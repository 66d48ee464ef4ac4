import pytest

from stage0_gateway import ChatRequest, ConfigurationError, Gateway
from stage0_gateway.models import resolve


def test_a_known_provider_has_its_own_address():
    target = resolve("groq:llama", "k")
    assert (target.provider, target.model) == ("groq", "llama")
    assert target.url == "https://api.groq.com/openai/v1/chat/completions"
    assert target.headers == {"Authorization": "Bearer k"}


def test_a_model_name_may_hold_colons_and_slashes():
    assert resolve("ollama:qwen3:8b").model == "qwen3:8b"
    assert resolve("openrouter:openai/gpt-5-mini").model == "openai/gpt-5-mini"


def test_a_base_url_replaces_the_providers_own():
    assert (
        resolve("openai:m", base_url="http://127.0.0.1:8099/v1/").url
        == "http://127.0.0.1:8099/v1/chat/completions"
    )


@pytest.mark.parametrize("model", ["", "gpt-5-mini", "openai:", ":m"])
def test_a_model_without_a_provider_is_refused_with_an_example(model):
    with pytest.raises(ConfigurationError, match="Write provider:name, such as 'offline:teacher'"):
        resolve(model)


def test_an_unknown_provider_is_refused_with_those_there_are():
    with pytest.raises(ConfigurationError) as caught:
        resolve("opnai:m")
    assert "Unknown provider 'opnai'" in str(caught.value)
    assert "openai, anthropic, gemini" in str(caught.value)
    assert "openai:m" in str(caught.value)


@pytest.mark.parametrize("url", ["ftp://x/v1", "localhost:8000", "http://", "x"])
def test_a_base_url_that_is_none_is_refused(url):
    with pytest.raises(ConfigurationError, match="does not start with http"):
        resolve("openai:m", base_url=url)


def test_a_missing_key_is_told_at_once_with_the_variable_to_set():
    with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
        Gateway("openai:m")


@pytest.mark.parametrize("model", ["ollama:llama3.2", "offline:teacher", "lmstudio:any"])
def test_local_models_need_no_key(model):
    assert Gateway(model).model == model


def test_a_target_shows_no_secret():
    target = resolve("openai:m", "sk-secret", "https://me:sk-secret@host.test/v1")
    assert target.public_url == "https://host.test/v1/chat/completions"
    assert "sk-secret" not in repr(
        Gateway("openai:m", api_key="sk-secret", base_url="https://me:sk-secret@host.test")
    )


def test_a_query_in_the_base_url_stays_behind_the_path_and_is_not_shown():
    target = resolve("openai:m", base_url="https://host.test/openai/v1?api-version=1")
    assert target.url == "https://host.test/openai/v1/chat/completions?api-version=1"
    assert target.public_url == "https://host.test/openai/v1/chat/completions"


def test_a_wrong_url_is_told_without_its_password():
    with pytest.raises(ConfigurationError, match="The base URL does not start with http") as caught:
        resolve("openai:m", base_url="me:sk-secret@host.test/v1?key=sk-secret")
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-1\n", "sk 1", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key):
    with pytest.raises(
        ConfigurationError, match="The key for 'openai' holds a space, a line break"
    ) as caught:
        resolve("openai:m", key)
    assert key not in str(caught.value)


def test_a_password_in_the_url_is_sent_in_a_header_and_not_in_the_url():
    target = resolve("openai:m", base_url="https://me:p%40ss@host.test:8443/v1")
    assert target.url == "https://host.test:8443/v1/chat/completions"
    assert target.headers == {"Authorization": "Basic bWU6cEBzcw=="}
    assert target.secrets == ("p%40ss", "p@ss", "bWU6cEBzcw==")


def test_openais_own_server_is_told_max_tokens_under_its_own_name_and_others_are_not():
    request = ChatRequest("m", (), max_tokens=5)
    own, other = resolve("openai:m"), resolve("openai:m", base_url="http://host.test/v1")
    assert own.encode(request) == {"model": "m", "messages": [], "max_completion_tokens": 5}
    assert other.encode(request) == {"model": "m", "messages": [], "max_tokens": 5}


def test_a_port_that_is_none_is_refused():
    with pytest.raises(ConfigurationError, match="The base URL is none: Port out of range"):
        resolve("openai:m", base_url="http://host.test:99999/v1")


def test_a_field_the_caller_puts_into_the_body_keeps_its_name():
    request = ChatRequest("m", (), provider_options={"max_tokens": 5})
    assert resolve("openai:m").encode(request) == {"model": "m", "messages": [], "max_tokens": 5}
