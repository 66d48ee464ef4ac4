from traceback import format_exception

import pytest

from stage0_gateway import ChatRequest, ConfigurationError, Gateway
from stage0_gateway.http.encode import encode_fields, encode_request
from stage0_gateway.http.endpoint import PROVIDERS, resolve
from tests.tables import for_each


def public_url(target):
    """Return the URL that events and errors show."""
    return encode_request(target, ChatRequest("m", ()), stream=False).public_url


@for_each(
    "model, url, stream_url, headers",
    [
        (
            "openai:gpt-5-mini",
            "https://api.openai.com/v1/chat/completions",
            "https://api.openai.com/v1/chat/completions",
            {"Authorization": "Bearer k"},
        ),
        (
            "anthropic:claude-haiku-4-5",
            "https://api.anthropic.com/v1/messages",
            "https://api.anthropic.com/v1/messages",
            {"x-api-key": "k", "anthropic-version": "2023-06-01"},
        ),
        (
            "gemini:gemini-2.5-flash",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
            {"x-goog-api-key": "k"},
        ),
        (
            "openai-responses:gpt-5-mini",
            "https://api.openai.com/v1/responses",
            "https://api.openai.com/v1/responses",
            {"Authorization": "Bearer k"},
        ),
        (
            "ollama:llama3.2",
            "http://127.0.0.1:11434/v1/chat/completions",
            "http://127.0.0.1:11434/v1/chat/completions",
            {"Authorization": "Bearer k"},
        ),
    ],
)
def test_each_format_has_its_paths_and_its_authentication_header(model, url, stream_url, headers):
    target = resolve(model, "k")
    assert (f"{target.provider}:{target.model}", target.url, target.stream_url, target.headers) == (
        model,
        url,
        stream_url,
        headers,
    )
    assert target.secrets == ("k",)
    without_key = {name: value for name, value in headers.items() if "k" not in value.split()}
    assert resolve(model).headers == without_key


@for_each("model", [f"{name}:{about.example_model}" for name, about in PROVIDERS.items()])
def test_every_provider_in_the_table_can_be_resolved(model):
    target = resolve(model)
    assert f"{target.provider}:{target.model}" == model
    assert target.url.startswith(PROVIDERS[target.provider].base_url)
    assert not {"Authorization", "x-api-key", "x-goog-api-key"} & target.headers.keys()


def test_a_model_name_is_escaped_in_a_url():
    assert resolve("gemini:tuned/a b?key=x#y").stream_url.endswith(
        "/v1beta/models/tuned%2Fa%20b%3Fkey%3Dx%23y:streamGenerateContent?alt=sse"
    )


def test_a_model_name_may_contain_colons_and_slashes():
    assert resolve("ollama:qwen3:8b").model == "qwen3:8b"
    assert resolve("openrouter:openai/gpt-5-mini").model == "openai/gpt-5-mini"


def test_a_base_url_replaces_the_default_url():
    assert (
        resolve("openai:m", base_url="http://127.0.0.1:8099/v1/").url
        == "http://127.0.0.1:8099/v1/chat/completions"
    )


@for_each("model", ["", "gpt-5-mini", "openai:", ":m"])
def test_a_model_without_a_provider_is_rejected_with_an_example(model):
    with pytest.raises(ConfigurationError, match="Write provider:name, such as 'offline:teacher'"):
        resolve(model)


def test_an_unknown_provider_is_rejected_with_a_list_of_the_known_ones():
    with pytest.raises(ConfigurationError) as caught:
        resolve("opnai:m")
    assert "Unknown provider 'opnai'" in str(caught.value)
    assert "openai, anthropic, gemini, openai-responses" in str(caught.value)
    assert "openai:m" in str(caught.value)


@for_each("url", ["ftp://x/v1", "localhost:8000", "http://", "x"])
def test_an_invalid_base_url_is_rejected(url):
    with pytest.raises(ConfigurationError, match="does not start with http"):
        resolve("openai:m", base_url=url)


@for_each("model", ["ollama:llama3.2", "offline:teacher", "lmstudio:any"])
def test_local_models_need_no_key(model):
    assert Gateway(model).model == model


@for_each("provider", [name for name, about in PROVIDERS.items() if about.key_variable])
def test_hosted_models_need_a_key_unless_a_base_url_is_given(provider):
    for key in (None, ""):
        with pytest.raises(ConfigurationError, match=f"set {PROVIDERS[provider].key_variable}"):
            Gateway(f"{provider}:m", api_key=key)
    assert Gateway(f"{provider}:m", api_key="k").model == f"{provider}:m"
    assert Gateway(f"{provider}:m", base_url="http://host.test/v1").model == f"{provider}:m"


def test_a_target_hides_its_secrets():
    target = resolve("openai:m", "sk-secret", "https://me:sk-secret@host.test/v1")
    assert public_url(target) == "https://host.test/v1/chat/completions"
    assert "sk-secret" not in repr(
        Gateway("openai:m", api_key="sk-secret", base_url="https://me:sk-secret@host.test")
    )


def test_the_query_of_the_base_url_follows_the_path_and_is_hidden():
    target = resolve("openai:m", base_url="https://host.test/openai/v1?api-version=1")
    assert target.url == "https://host.test/openai/v1/chat/completions?api-version=1"
    assert public_url(target) == "https://host.test/openai/v1/chat/completions"


def test_the_query_of_the_base_url_is_merged_with_the_query_of_a_stream():
    target = resolve("gemini:m", base_url="https://host.test/v1?token=a%2Fb#part")
    assert target.url == "https://host.test/v1/models/m:generateContent?token=a%2Fb"
    assert (
        target.stream_url
        == "https://host.test/v1/models/m:streamGenerateContent?token=a%2Fb&alt=sse"
    )
    assert public_url(target) == "https://host.test/v1/models/m:generateContent"


@for_each(
    "url, secrets",
    [
        # in the query, escaped and unescaped
        ("https://host.test/v1?token=abc%2Fdef+g", ("abc%2Fdef+g", "abc/def g")),
        # without a name
        ("https://host.test/v1?sk-secret", ("sk-secret",)),
        # two values
        ("https://host.test/v1?a=1234&b=12345", ("1234", "12345")),
        # password
        ("https://me:p%40ss@host.test/v1", ("p%40ss", "p@ss", "bWU6cEBzcw==")),
        # user without password
        ("https://sk-token@host.test/v1", ("sk-token", "c2stdG9rZW46")),
    ],
)
def test_the_secrets_of_a_url_are_found_in_every_spelling(url, secrets):
    assert resolve("openai:m", base_url=url).secrets == secrets


def test_the_error_for_an_invalid_url_hides_its_password():
    with pytest.raises(ConfigurationError, match="The base URL does not start with http") as caught:
        resolve("openai:m", base_url="me:sk-secret@host.test/v1?key=sk-secret")
    assert "sk-secret" not in str(caught.value)


@for_each(
    "url",
    [
        "http://me:sk-secret",
        "http://me:sk-secret/pass@host.test",
        "http://me:sk-secret#pass@host.test",
        "http://me:sk-secret?pass@host.test",
        "http://me:sk-secret\u2100@host.test",
        "http://[sk-secret@host.test",
    ],
)
def test_a_password_that_makes_the_url_invalid_is_hidden(url):
    with pytest.raises(
        ConfigurationError, match="The base URL is invalid: its host or its port"
    ) as caught:
        resolve("openai:m", base_url=url)
    assert "sk-secret" not in "".join(format_exception(caught.value))


@for_each("key", ["sk-1\n", "sk 1", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_rejected_and_hidden(key):
    with pytest.raises(
        ConfigurationError, match="The key for 'openai' contains a space, a line break"
    ) as caught:
        resolve("openai:m", key)
    assert key not in str(caught.value)


def test_a_password_in_the_url_is_sent_only_in_a_header():
    target = resolve("openai:m", base_url="https://me:p%40ss@host.test:8443/v1")
    assert target.url == "https://host.test:8443/v1/chat/completions"
    assert target.headers == {"Authorization": "Basic bWU6cEBzcw=="}


def test_a_user_without_a_password_in_the_url_is_sent_in_a_header():
    target = resolve("anthropic:m", "k", "https://sk-token@host.test/v1")
    assert target.url == "https://host.test/v1/messages"
    assert target.headers["Authorization"] == "Basic c2stdG9rZW46"
    assert target.headers["x-api-key"] == "k"


def test_only_openais_own_server_receives_max_completion_tokens():
    request = ChatRequest("m", (), max_tokens=5)
    own, other = resolve("openai:m"), resolve("openai:m", base_url="http://host.test/v1")
    assert encode_fields(own, request, stream=False) == {
        "model": "m",
        "messages": [],
        "max_completion_tokens": 5,
    }
    assert encode_fields(other, request, stream=False) == {
        "model": "m",
        "messages": [],
        "max_tokens": 5,
    }


def test_an_invalid_port_is_rejected():
    with pytest.raises(ConfigurationError, match=r"The base URL is invalid: .*port \(0 to 65535\)"):
        resolve("openai:m", base_url="http://host.test:99999/v1")


def test_a_body_field_that_the_caller_sets_keeps_its_name():
    request = ChatRequest("m", (), provider_options={"max_tokens": 5})
    assert encode_fields(resolve("openai:m"), request, stream=False) == {
        "model": "m",
        "messages": [],
        "max_tokens": 5,
    }
