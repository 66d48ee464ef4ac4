"""From "provider:name" to a place to send it: wire format, base URL, and the name of the key's
variable.

Knows the providers, and of a request only what one of them calls by another name. Reads no
environment: `settings.py` does that. Most servers speak OpenAI's format, so one line in the table
is all a new one needs; a server that is not in it is reached as `openai:NAME` with its own
`base_url`.
"""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit, urlunsplit

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.recording.redaction import Secret
from stage0_gateway.request import ChatRequest
from stage0_gateway.wire import WireFormat

OFFLINE = "offline:teacher"


@dataclass(frozen=True, slots=True)
class Provider:
    """One kind of server.

    Attributes:
        speaks: The format it speaks: a file of `wire/`.
        base_url: Where it is, unless the caller says otherwise.
        key_variable: The environment variable its key is usually kept in; None where it needs no
            key.
        example_model: A model to start with.
        supports_schema: Whether it can be asked for JSON by a schema.
    """

    speaks: str
    base_url: str
    key_variable: str | None
    example_model: str
    supports_schema: bool = True

    @property
    def wire(self) -> WireFormat:
        """The format; loaded when a model that speaks it is first named."""
        return cast("WireFormat", import_module(f"stage0_gateway.wire.{self.speaks}"))


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
    **{name: Provider("openai", *about) for name, about in _OPENAI_COMPATIBLE.items()},
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests for one model go.

    Whatever is secret is kept out of every repr.
    """

    provider: str
    model: str
    wire: WireFormat = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    url: str = field(repr=False)
    stream_url: str = field(repr=False)
    renamed: dict[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        """The model as people write it: "provider:name"."""
        return f"{self.provider}:{self.model}"

    @property
    def public_url(self) -> str:
        """The URL without its query, fit to be printed."""
        return str(self.url).partition("?")[0]

    def encode(self, request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
        """The JSON body, with the names this server has for things; the caller's own fields stay as
        they are.
        """
        body = self.wire.encode(request, stream=stream)
        for name, own_name in self.renamed.items():
            if name in body and name not in (request.provider_options or {}):
                body[own_name] = body.pop(name)
        return body


def resolve(
    model: str, api_key: str | None = None, base_url: str | None = None, *, needs_key: bool = False
) -> Target:
    """Find out where requests for this model go.

    Args:
        model: "provider:name".
        api_key: The provider's key, if it needs one.
        base_url: Another server that speaks the provider's format.
        needs_key: Whether a missing key is an error if the provider's own server requires one.

    Raises:
        ConfigurationError: The model has no provider, the provider is unknown, the key is missing,
            or the URL or the key is invalid.
    """
    prefix, colon, name = model.partition(":")
    if not (prefix and colon and name):
        raise ConfigurationError(
            f"{model!r} is not a model. Write provider:name, such as {OFFLINE!r} or 'openai:gpt-5-mini'."
        )
    if api_key is not None and not (
        api_key.isascii() and api_key.isprintable() and " " not in api_key
    ):
        raise ConfigurationError(
            f"The key for {prefix!r} contains a space, a line break or a character that is not ASCII."
        )
    provider = PROVIDERS.get(prefix)
    if provider is None:
        known = ", ".join(PROVIDERS)
        raise ConfigurationError(
            f"Unknown provider {prefix!r} in {model!r}. There are {known}. "
            f"A server that speaks OpenAI's format is reached as 'openai:{name}' with base_url=…"
        )
    if needs_key and provider.key_variable and not (api_key or base_url):
        raise ConfigurationError(
            f"{model} needs a key: set {provider.key_variable} and use Gateway.from_env(), or pass api_key=… "
            f"Without a key, {OFFLINE!r} answers by rules."
        )
    base, wire = _parts(base_url or provider.base_url), provider.wire
    return Target(
        provider=prefix,
        model=name,
        wire=wire,
        headers={
            name: Secret(value) for name, value in (_basic(base) | wire.headers(api_key)).items()
        },
        secrets=tuple(dict.fromkeys(_secrets(api_key, base))),
        url=Secret(_url(base, wire.path(name))),
        stream_url=Secret(_url(base, wire.path(name, stream=True))),
        # OpenAI's own server has another name for it; everybody who followed has kept the old one.
        renamed={"max_tokens": "max_completion_tokens"}
        if prefix == "openai" and not base_url
        else {},
    )


def _parts(url: str) -> SplitResult:
    if fault := _fault(url):
        raise ConfigurationError(fault)
    return urlsplit(url)


def _fault(url: str) -> str | None:
    """What makes a base URL invalid. The text does not show the URL: it may hold a password
    anywhere.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if it is invalid
    except ValueError:
        return (
            "The base URL is invalid: its host or its port (0 to 65535) cannot be. "
            "In a password, write / as %2F, ? as %3F, # as %23 and @ as %40."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "The base URL does not start with http:// or https:// and a host."
    return None


def _url(base: SplitResult, path: str) -> str:
    path, _, query = path.partition("?")
    queries = "&".join(part for part in (base.query, query) if part)
    path = base.path.rstrip("/") + path
    return urlunsplit(base._replace(netloc=_host(base), path=path, query=queries, fragment=""))


def _host(base: SplitResult) -> str:
    """Host and port; a user and a password before them go into a header, because URLs end up in
    logs.
    """
    return base.netloc.rpartition("@")[2]


def _basic(base: SplitResult) -> dict[str, str]:
    return {"Authorization": f"Basic {_token(base)}"} if base.username or base.password else {}


def _token(base: SplitResult) -> str:
    return b64encode(
        f"{unquote(base.username or '')}:{unquote(base.password or '')}".encode()
    ).decode()


def _secrets(api_key: str | None, base: SplitResult) -> Iterator[str]:
    """The key, and what the URL holds before its host and in its query: as it stands there, and as
    it is meant.
    """
    if api_key:
        yield api_key
    if alone := base.password or base.username:  # a token may stand in the user's place
        yield from (alone, unquote(alone), _token(base))
    for pair in base.query.split("&"):
        name, _, value = pair.partition("=")
        yield from filter(None, (value or name, unquote_plus(value or name)))
