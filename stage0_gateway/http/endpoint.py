"""`ModelEndpoint`: the server, URL, headers and wire format for a "provider:name".

The table of providers needs one line for a server in OpenAI's format. A server that is not in the
table is reached as `openai:NAME` with its own `base_url`. This module reads no environment.
"""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import cast
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit, urlunsplit

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.http.redaction import Secret
from stage0_gateway.wire.format import WireFormat

OFFLINE = "offline:teacher"


@dataclass(frozen=True, slots=True)
class Provider:
    """A kind of server.

    Attributes:
        wire_name: Its wire format: the name of a module in `wire/`.
        base_url: The default base URL.
        key_variable: The usual environment variable of its key; None if it needs no key.
        example_model: A model to start with.
        supports_schema: Whether it supports structured output by a JSON Schema.
    """

    wire_name: str
    base_url: str
    key_variable: str | None
    example_model: str
    supports_schema: bool = True

    @property
    def wire(self) -> WireFormat:
        """The wire format's module, imported with its first use."""
        return cast("WireFormat", import_module(f"stage0_gateway.wire.{self.wire_name}"))


_OPENAI_COMPATIBLE = {
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-chat", False),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY", "llama-3.3-70b-versatile", True),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-small-latest", True),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai/gpt-5-mini", True),
    "ollama": ("http://127.0.0.1:11434/v1", None, "llama3.2", True),
    "lmstudio": ("http://127.0.0.1:1234/v1", None, "default", True),
    "llamacpp": ("http://127.0.0.1:8080/v1", None, "default", True),
    "vllm": ("http://127.0.0.1:8000/v1", None, "default", True),
    "offline": ("http://offline/v1", None, "teacher", True),
}
PROVIDERS = {
    "openai": Provider("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-5-mini"),
    "anthropic": Provider(
        "anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "claude-haiku-4-5"
    ),
    "gemini": Provider(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI_API_KEY",
        "gemini-2.5-flash",
    ),
    "openai-responses": Provider(
        "openai_responses", "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-5-mini"
    ),
    **{name: Provider("openai", *fields) for name, fields in _OPENAI_COMPATIBLE.items()},
    "mistral": Provider("mistral", *_OPENAI_COMPATIBLE["mistral"]),
}


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model on its server. Secrets are excluded from the repr.

    Attributes:
        provider: The provider's name.
        model: The model's name on its server.
        wire: The wire format's module.
        headers: The headers with the key.
        secrets: The texts to remove from errors and events.
        url: The URL for whole replies.
        stream_url: The URL for streams.
        is_openai: Whether this is OpenAI's own server. It renamed `max_tokens` of chat completions.
    """

    provider: str
    model: str
    wire: WireFormat = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    url: str = field(repr=False)
    stream_url: str = field(repr=False)
    is_openai: bool = field(repr=False)


def resolve(
    model: str, api_key: str | None = None, base_url: str | None = None, *, needs_key: bool = False
) -> ModelEndpoint:
    """Return the endpoint of a model.

    Args:
        model: "provider:name".
        api_key: The provider's key, if it needs one.
        base_url: Another server in the provider's format.
        needs_key: Whether a missing key is an error if the provider's own server requires one.

    Raises:
        ConfigurationError: The model has no provider, the provider is unknown, the key is missing,
            or the URL or the key is invalid.
    """
    prefix, colon, name = model.partition(":")
    if not (prefix and colon and name):
        raise ConfigurationError(
            f"{model!r} is not a model. Write provider:name, such as {OFFLINE!r} or "
            "'openai:gpt-5-mini'."
        )
    if api_key and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise ConfigurationError(
            f"The key for {prefix!r} contains a space, a line break or a non-ASCII character."
        )
    provider = PROVIDERS.get(prefix)
    if provider is None:
        known = ", ".join(PROVIDERS)
        raise ConfigurationError(
            f"Unknown provider {prefix!r} in {model!r}. The providers are {known}. "
            f"For another server in OpenAI's format, use 'openai:{name}' with LLM_BASE_URL or "
            "base_url=…"
        )
    if needs_key and provider.key_variable and not (api_key or base_url):
        raise ConfigurationError(
            f"{model} needs a key: set {provider.key_variable}. A program uses Gateway.from_env(), "
            f"which reads it, or passes api_key=… Without a key, {OFFLINE!r} answers by rules."
        )
    base, wire = _split(base_url or provider.base_url), provider.wire
    token = _basic_token(base)
    headers = {"Authorization": f"Basic {token}"} if token else {}
    headers |= wire.headers(api_key)
    return ModelEndpoint(
        provider=prefix,
        model=name,
        wire=wire,
        headers={name: Secret(value) for name, value in headers.items()},
        secrets=tuple(dict.fromkeys(_secrets(api_key, base, token))),
        url=Secret(_join(base, wire.path(name))),
        stream_url=Secret(_join(base, wire.path(name, stream=True))),
        is_openai=prefix in ("openai", "openai-responses") and not base_url,
    )


def _split(url: str) -> SplitResult:
    if problem := _problem(url):  # the variables of a frame that raises appear in error reports
        raise ConfigurationError(problem)
    return urlsplit(url)


def _problem(url: str) -> str | None:
    """Return why a base URL is invalid. The text omits the URL, which may contain a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if it is invalid
    except ValueError:
        return (
            "The base URL is invalid: its host or its port (0 to 65535) cannot be used. "
            "In a password, write / as %2F, ? as %3F, # as %23 and @ as %40."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "The base URL does not start with http:// or https:// and a host."
    return None


def _join(base: SplitResult, path: str) -> str:
    """Return the URL of a path, without user and password: they are sent as a header."""
    path, _, query = path.partition("?")
    queries = "&".join(filter(None, (base.query, query)))
    host, path = base.netloc.rpartition("@")[2], base.path.rstrip("/") + path
    return urlunsplit(base._replace(netloc=host, path=path, query=queries, fragment=""))


def _basic_token(base: SplitResult) -> str:
    """Return user and password as the token of a Basic header; empty without them."""
    pair = f"{unquote(base.username or '')}:{unquote(base.password or '')}"
    return b64encode(pair.encode()).decode() if pair != ":" else ""


def _secrets(api_key: str | None, base: SplitResult, token: str) -> Iterator[str]:
    """Yield the key and the secrets of the URL's user, password and query, quoted and unquoted."""
    if api_key:
        yield api_key
    if password := base.password or base.username:  # a token may be the user's name
        yield from (password, unquote(password), token)
    for pair in base.query.split("&"):
        name, _, value = pair.partition("=")
        yield from filter(None, (value or name, unquote_plus(value or name)))
