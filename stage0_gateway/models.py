"""From "provider:name" to a place to send it: wire format, base URL, and the name of the key's variable.

Knows the providers, and of a request only what one of them calls by another name. Reads no environment:
`settings.py` does that. Most servers speak OpenAI's format, so one line in the table is all a new one
needs; a server that is not in it is reached as `openai:NAME` with its own `base_url`.
"""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit, urlunsplit

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.request import ChatRequest
from stage0_gateway.wire import WireFormat, openai

OFFLINE = "offline:teacher"


@dataclass(frozen=True, slots=True)
class Provider:
    """One kind of server.

    Attributes:
        wire: The format it speaks.
        base_url: Where it is, unless the caller says otherwise.
        key_variable: The environment variable its key is usually kept in; None where it needs no key.
        example_model: A model to start with.
    """

    wire: WireFormat
    base_url: str
    key_variable: str | None
    example_model: str


PROVIDERS = {
    "openai": Provider(openai, "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-5-mini"),
    # Anthropic and Google also answer in OpenAI's format, at these addresses.
    "anthropic": Provider(openai, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "claude-haiku-4-5"),
    "gemini": Provider(
        openai,
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "gemini-2.5-flash",
    ),
    "deepseek": Provider(openai, "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-chat"),
    "groq": Provider(openai, "https://api.groq.com/openai/v1", "GROQ_API_KEY", "llama-3.3-70b-versatile"),
    "mistral": Provider(openai, "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-small-latest"),
    "openrouter": Provider(openai, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai/gpt-5-mini"),
    "ollama": Provider(openai, "http://127.0.0.1:11434/v1", None, "llama3.2"),
    "lmstudio": Provider(openai, "http://127.0.0.1:1234/v1", None, "default"),
    "llamacpp": Provider(openai, "http://127.0.0.1:8080/v1", None, "default"),
    "vllm": Provider(openai, "http://127.0.0.1:8000/v1", None, "default"),
    "offline": Provider(openai, "http://offline/v1", None, "teacher"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests for one model go. Whatever is secret is kept out of every repr."""

    provider: str
    model: str
    wire: WireFormat = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    url: str = field(repr=False)
    renamed: dict[str, str] = field(repr=False)

    @property
    def public_url(self) -> str:
        """The URL without its query, fit to be printed."""
        return self.url.partition("?")[0]

    def encode(self, request: ChatRequest) -> dict[str, Any]:
        """The JSON body, with the names this server has for things; the caller's own fields stay as they are."""
        body = self.wire.encode(request)
        for name, own_name in self.renamed.items():
            if name in body and name not in (request.provider_options or {}):
                body[own_name] = body.pop(name)
        return body


def resolve(model: str, api_key: str | None = None, base_url: str | None = None) -> Target:
    """Find out where requests for this model go.

    Args:
        model: "provider:name".
        api_key: The provider's key, if it needs one.
        base_url: Another server that speaks the provider's format.

    Raises:
        ConfigurationError: The model has no provider, the provider is unknown, or the URL is none.
    """
    prefix, colon, name = model.partition(":")
    if not (prefix and colon and name):
        raise ConfigurationError(
            f"{model!r} is not a model. Write provider:name, such as {OFFLINE!r} or 'openai:gpt-5-mini'."
        )
    provider = PROVIDERS.get(prefix)
    if provider is None:
        known = ", ".join(PROVIDERS)
        raise ConfigurationError(
            f"Unknown provider {prefix!r} in {model!r}. There are {known}. "
            f"A server that speaks OpenAI's format is reached as 'openai:{name}' with base_url=…"
        )
    base = _parts(base_url or provider.base_url)
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise ConfigurationError(
            f"The key for {prefix!r} holds a space, a line break or a letter no key has."
        )
    return Target(
        provider=prefix,
        model=name,
        wire=provider.wire,
        headers=_basic(base) | provider.wire.headers(api_key),
        secrets=tuple(_secrets(api_key, base)),
        url=urlunsplit(
            base._replace(netloc=_host(base), path=base.path.rstrip("/") + provider.wire.path(name))
        ),
        # OpenAI's own server has another name for it; everybody who followed has kept the old one.
        renamed={"max_tokens": "max_completion_tokens"} if prefix == "openai" and not base_url else {},
    )


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is none
    except ValueError as error:
        raise ConfigurationError(f"The base URL is none: {error}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # Not shown: what stands before a forgotten scheme may be a password.
        raise ConfigurationError("The base URL does not start with http:// or https:// and a host.")
    return parts


def _host(base: SplitResult) -> str:
    """Host and port; a user and a password before them go into a header, because URLs end up in logs."""
    return base.netloc.rpartition("@")[2]


def _basic(base: SplitResult) -> dict[str, str]:
    return {"Authorization": f"Basic {_token(base)}"} if base.password else {}


def _token(base: SplitResult) -> str:
    return b64encode(f"{unquote(base.username or '')}:{unquote(base.password or '')}".encode()).decode()


def _secrets(api_key: str | None, base: SplitResult) -> Iterator[str]:
    """The key, a password in the URL as it stands there and as it is sent, and what its query holds."""
    if api_key:
        yield api_key
    if base.password:
        yield from (base.password, unquote(base.password), _token(base))
    for value in parse_qs(base.query).values():
        yield from value


def require_key(model: str, api_key: str | None, base_url: str | None) -> None:
    """Say at once that a key is missing, where the provider's own server will ask for one.

    Raises:
        ConfigurationError: With the name of the variable to set.
    """
    provider = PROVIDERS[model.partition(":")[0]]
    if provider.key_variable and not api_key and not base_url:
        raise ConfigurationError(
            f"{model} needs a key: set {provider.key_variable} and use Gateway.from_env(), or pass api_key=… "
            f"Without a key, {OFFLINE!r} answers by rules."
        )
