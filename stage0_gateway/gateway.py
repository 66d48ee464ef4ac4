"""`Gateway`: sends a conversation to a model and returns its reply, whole or as a stream.

The gateway encodes a request (`http/encode`), posts it (`http/client`) and reads the reply
(`http/receive`, `http/streaming_response`). It retries failed requests and then tries the fallback
models. It knows no sessions, decisions or tool code: every call carries the whole conversation.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, Unpack

import httpx

from stage0_gateway.accounting.prices import Prices
from stage0_gateway.accounting.usage_check import unread_tokens
from stage0_gateway.errors import (
    FUNCTION,
    Accepted,
    ConfigurationError,
    ContextOverflow,
    GatewayError,
    check_arguments,
)
from stage0_gateway.events import (
    FallbackEvent,
    GatewayEvent,
    RequestEvent,
    ResponseEvent,
    WarningEvent,
)
from stage0_gateway.http.client import MAX_REPLY_BYTES, HttpClient
from stage0_gateway.http.encode import EncodedRequest, encode_request
from stage0_gateway.http.endpoint import PROVIDERS, ModelEndpoint, resolve
from stage0_gateway.http.known_secrets import register
from stage0_gateway.http.receive import Attempt, receive
from stage0_gateway.http.redaction import Secret, redact_error
from stage0_gateway.http.response import Timeouts
from stage0_gateway.http.streaming_response import open_stream
from stage0_gateway.messages import Messages, as_messages
from stage0_gateway.request import ChatOptions, ChatRequest, Reasoning, ToolSpec
from stage0_gateway.response import ChatResponse, FailedAttempt
from stage0_gateway.retry import Backoff, combine_errors
from stage0_gateway.settings import settings_from_env
from stage0_gateway.streaming.stream import MessageStream

_Reply = TypeVar("_Reply")
_Fetch = Callable[[HttpClient, EncodedRequest, Attempt], Awaitable[_Reply]]
_Failures = list[FailedAttempt]


_REJECTED_SCHEMA = (400, 404, 422)
"""Statuses of servers that reject a schema: usually 400; 422 if a framework checks the fields; 404
if a router finds no suitable server."""

_ACCEPTED_SCHEMA = {"response_schema": Accepted(Mapping, "a JSON Schema, a mapping")}
_ACCEPTED_FIELDS = {"provider_options": Accepted(Mapping, "a mapping of fields")}
_ACCEPTED_MODEL = {"model": Accepted(str, "a text such as 'openai:gpt-5-mini'", required=True)}
_ACCEPTED = {
    **_ACCEPTED_MODEL,
    "transport": Accepted("handle_async_request", "a transport such as ScriptedModel(['Hello.'])"),
    "timeout": Accepted(int | float | Timeouts, "a number of seconds, or Timeouts(total=60)"),
    "max_retries": Accepted(int, "a whole number", required=True),
    "fallback_models": Accepted(Iterable, "a list such as ['openai:gpt-5-mini']", required=True),
    "max_concurrency": Accepted(int, "a whole number"),
    "max_reply_bytes": Accepted(int, "a whole number", 1, required=True),
    "on_event": Accepted(FUNCTION, "a function of one event"),
    "prices": Accepted("cost", "prices: a PriceTable or GenaiPrices()"),
}


class Gateway:
    """A client of one model, with optional fallback models.

    Args:
        model: "provider:name", such as "openai:gpt-5-mini", "ollama:llama3.2" or "offline:teacher".
        api_key: The provider's key, or a mapping from providers to keys if fallback models need
            others. `Gateway.from_env()` reads them from the environment.
        base_url: Another server in the provider's format.
        transport: Replaces the network: `ScriptedModel`, `OfflineModel`, `Recorder`,
            `httpx.MockTransport`.
        timeout: Seconds for a request and its reply, or `Timeouts`.
        max_retries: The maximum number of retries of a request that may succeed later.
        fallback_models: Models to try in this order after the first one failed.
        max_concurrency: The maximum number of concurrent requests in an event loop; further ones
            wait. None is no limit.
        max_reply_bytes: The maximum size of a reply; a larger one is a `MalformedResponse`.
        on_event: Called with each `GatewayEvent`: a request log without secrets.
        reasoning: How much the models think before they reply, unless a request sets it: "low",
            "medium", "high", or a budget in tokens for models that accept one. None is the server's
            default.
        cache_prompt: Whether Anthropic's server stores the prompts for the next requests, unless a
            request sets it. It pays for conversations with several requests within five minutes.
        prices: Computes `ChatResponse.cost`: a `PriceTable` or `GenaiPrices`. Without it, costs
            are unknown.

    Raises:
        ConfigurationError: The model, the URL or an option is invalid, or a key is missing.
        TypeError: The model, the URL or the key has the wrong type.
    """

    accepts_cache_key = True

    def __init__(
        self,
        model: str,
        *,
        api_key: str | Mapping[str, str] | None = None,
        base_url: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout: float | Timeouts | None = None,
        max_retries: int = 2,
        fallback_models: Iterable[str] = (),
        max_concurrency: int | None = None,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        on_event: Callable[[GatewayEvent], None] | None = None,
        reasoning: Reasoning | None = None,
        cache_prompt: bool = False,
        prices: Prices | None = None,
    ) -> None:
        check_arguments(locals(), _ACCEPTED)
        self.model = model
        self._endpoints: list[ModelEndpoint] = []
        self._keys = api_key = _secret("api_key", api_key)
        self._base_url = base_url = _secret("base_url", base_url)
        if max_retries < 0:
            raise ConfigurationError(f"max_retries is {max_retries}; it must be at least 0.")
        if max_concurrency is not None and max_concurrency < 1:
            raise ConfigurationError(
                f"max_concurrency is {max_concurrency}; it must be at least 1, or None."
            )
        self._defaults = {"reasoning": reasoning, "cache_prompt": cache_prompt}
        self._is_network = transport is None
        models = (fallback_models,) if isinstance(fallback_models, str) else fallback_models
        self._endpoints = [self._resolve(name) for name in (model, *models)]
        if reasoning is not None:
            for endpoint in self._endpoints:  # raises if a model does not accept the setting
                endpoint.wire.encode_reasoning(ChatRequest(endpoint.model, (), reasoning=reasoning))
        if timeout is None:
            timeout = Timeouts()
        elif not isinstance(timeout, Timeouts):
            timeout = Timeouts(min(timeout, 10.0), timeout, timeout)
        limits = timeout, max_concurrency, max_reply_bytes
        offline = transport
        are_offline = [endpoint.provider == "offline" for endpoint in self._endpoints]
        if transport is None and any(are_offline):
            from stage0_gateway.offline.model import OfflineModel

            offline = OfflineModel()
            if all(are_offline):
                transport = offline
        self._client = self._offline_client = HttpClient(transport, *limits)
        if offline is not transport:
            self._offline_client = HttpClient(offline, *limits)
        self._max_retries = max_retries
        self._on_event = on_event or _ignore_event
        self._prices = prices
        self._rejected_schema: Mapping[str, Any] | None = None  # the last one; not sent again
        register(self)

    @classmethod
    def from_env(cls, model: str | None = None, **options: Any) -> "Gateway":
        """Create a gateway from environment variables; see `stage0_gateway.settings`.

        Args:
            model: "provider:name"; overrides LLM_MODEL.
            options: Options of `Gateway`; they override the environment.

        Raises:
            ConfigurationError: The settings are invalid.
        """
        if model is not None:
            check_arguments({"model": model}, _ACCEPTED_MODEL)
        for name in {"api_key", "base_url"} & options.keys():
            options[name] = _secret(name, options[name])
        options["fallback_models"] = tuple(options.get("fallback_models", ()))
        return cls(**{**settings_from_env(model, options["fallback_models"]), **options})

    @property
    def supports_schema(self) -> bool:
        """Whether the model's server supports structured output (`response_schema`)."""
        return PROVIDERS[self._endpoints[0].provider].supports_schema

    @property
    def supports_schema_with_tools(self) -> bool:
        """Whether the provider's own server supports structured output in requests with tools."""
        supporting = ("openai", "openai-responses", "anthropic")
        return not self._base_url and self._endpoints[0].provider in supporting

    @property
    def has_prices(self) -> bool:
        """Whether costs can be known: prices were given, or the embedded model answers for free."""
        is_offline = all(endpoint.provider == "offline" for endpoint in self._endpoints)
        return self._prices is not None or is_offline

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys of this gateway, with a hidden repr, for programs that remove them from logs."""
        keys = filter(None, self._keys.values()) if isinstance(self._keys, Mapping) else ()
        found: list[str] = []
        for endpoint in self._endpoints:
            found += endpoint.secrets
        return tuple(dict.fromkeys(map(Secret, (*found, *keys))))

    async def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> ChatResponse:
        """Send a conversation and return the whole reply.

        Args:
            messages: The conversation, oldest first: `Message`s, or mappings with `role` and
                `content`. A text is one user message.
            options: `tools`, `temperature` and all others of `ChatOptions`; `ChatRequest` describes
                them. Validate a reply to a `response_schema` as well.

        Raises:
            GatewayError: The request failed. The text states the fix.
            ValueError: There is no message, a message is invalid, or JSON cannot represent a value.
            TypeError: An option is unknown or has a wrong type.
        """
        endpoints, request = self._prepare(messages, **options)
        return await self._send(endpoints, request, receive)

    def stream(self, messages: Messages, **options: Unpack[ChatOptions]) -> MessageStream:
        """Send a conversation and return a stream of the reply. The arguments are those of `chat`.

        The gateway retries and tries other models only while no part of the reply arrived.

        Raises:
            ValueError: There is no message, or a message is invalid. The stream's readers get all
                other errors.
        """
        endpoints, request = self._prepare(messages, **options)
        return MessageStream(lambda: self._send(endpoints, request, open_stream))

    def _prepare(
        self,
        messages: Messages,
        *,
        model: str | None = None,
        tools: Iterable[ToolSpec] = (),
        stop: str | Iterable[str] = (),
        **options: Any,
    ) -> tuple[list[ModelEndpoint], ChatRequest]:
        """Return the models to try, and the request."""
        if not options.keys() <= ChatOptions.__annotations__.keys():
            raise _unknown_option(options)
        endpoints = self._endpoints
        if model is not None:
            endpoints = [self._resolve_other(model), *endpoints[1:]]
        request = ChatRequest(
            endpoints[0].model,
            as_messages(messages),
            tuple(tools),
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            **{**self._defaults, **options},
        )
        if not request.messages:
            raise ValueError("There is no message to send. Pass at least one.")
        if request.tools and not isinstance(request.tools[0], ToolSpec):
            raise TypeError("tools are ToolSpecs: write tools=ToolRegistry(get_weather).specs().")
        if request.provider_options is not None:
            check_arguments(options, _ACCEPTED_FIELDS)
        if request.response_schema is not None:
            endpoints = self._with_schema_support(endpoints, request.response_schema)
        return endpoints, request

    async def _send(
        self, endpoints: list[ModelEndpoint], request: ChatRequest, fetch: _Fetch[_Reply]
    ) -> _Reply:
        """Send a request to one model after the other, with retries, until one replies."""
        backoff = Backoff(self._max_retries, self._on_event, [])
        try:
            return await self._attempt(endpoints[0], request, fetch, backoff)
        except GatewayError as raised:
            error = raised
        return await self._recover(error, endpoints, request, fetch, backoff)

    async def _attempt(
        self, endpoint: ModelEndpoint, request: ChatRequest, fetch: _Fetch[_Reply], backoff: Backoff
    ) -> _Reply:
        """Send a request once, and once more if the server rejects a schema that it can omit."""
        if request.schema_optional and request.response_schema is self._rejected_schema:
            request = replace(request, response_schema=None)
        encoded = encode_request(endpoint, request, stream=fetch is open_stream)
        client = self._offline_client if endpoint.provider == "offline" else self._client
        backoff.attempts += 1
        sizes = len(request.messages), len(request.tools), backoff.attempts
        self._on_event(RequestEvent(request.model, encoded.public_url, *sizes))
        started = time.perf_counter()
        complete = partial(self._complete, encoded, started, backoff.failed)
        try:
            return await fetch(client, encoded, Attempt(backoff.attempts, complete))
        except GatewayError as raised:
            error = redact_error(raised, endpoint.secrets)
        backoff.failed.append(_failed_attempt(endpoint, error, started))
        if not _rejects_schema(request, error):
            raise error
        self._rejected_schema = request.response_schema
        return await self._attempt(endpoint, request, fetch, backoff)

    async def _recover(
        self,
        error: GatewayError,
        endpoints: list[ModelEndpoint],
        request: ChatRequest,
        fetch: _Fetch[_Reply],
        backoff: Backoff,
    ) -> _Reply:
        """Repeat a request after its first error, and send it to the other models after that."""
        errors = list[GatewayError]()
        first_error: GatewayError | None = error
        names = [f"{endpoint.provider}:{endpoint.model}" for endpoint in endpoints]
        for position, endpoint in enumerate(endpoints):
            if position:
                self._on_event(FallbackEvent(error, names[position - 1], names[position]))
                request, first_error = replace(request, model=endpoint.model), None
                backoff = replace(backoff, attempts=0)
            attempt = partial(self._attempt, endpoint, request, fetch, backoff)
            try:
                return await backoff.retry(attempt, first_error)
            except GatewayError as raised:
                error = raised.with_traceback(None)  # without the frames of stamina
            if isinstance(error, ConfigurationError):
                raise error
            errors.append(error)
        raise combine_errors(errors)

    def _complete(
        self, encoded: EncodedRequest, started: float, failed: _Failures, response: ChatResponse
    ) -> ChatResponse:
        """Add the cost and the failed attempts to a reply, and report it."""
        duration = time.perf_counter() - started
        if failed or self._prices is not None or encoded.endpoint.provider == "offline":
            response = _with_cost(self._prices, encoded.endpoint, response, failed)
        event = ResponseEvent(response.model, response.finish_reason, response.usage, duration)
        self._on_event(event)
        unread = unread_tokens(encoded.request, encoded.body, response.usage)
        if unread is not None:
            self._on_event(_truncation_warning(encoded.endpoint.model, unread))
        return response

    def _resolve(self, model: str) -> ModelEndpoint:
        check_arguments({"model": model}, _ACCEPTED_MODEL)
        provider, main = model.partition(":")[0], self.model.partition(":")[0]
        key = self._keys if not isinstance(self._keys, Mapping) else self._keys.get(provider)
        if isinstance(self._keys, str) and provider != main:
            key = None  # a key is sent to its own provider only
        base_url = self._base_url if provider == main else None
        return resolve(model, key, base_url, needs_key=self._is_network)

    def _resolve_other(self, model: str) -> ModelEndpoint:
        """Return the endpoint of another model of the same provider."""
        endpoint, provider = self._resolve(model), self._endpoints[0].provider
        if endpoint.provider != provider:
            raise ConfigurationError(
                f"This gateway is for the provider {provider!r}. "
                f"Create another Gateway for {model!r}."
            )
        return endpoint

    def _with_schema_support(
        self, endpoints: list[ModelEndpoint], schema: Mapping[str, Any]
    ) -> list[ModelEndpoint]:
        """Return the models that support structured output; the first one must."""
        check_arguments({"response_schema": schema}, _ACCEPTED_SCHEMA)
        if not self.supports_schema:
            raise ConfigurationError(
                f"{self.model} does not support structured output (gateway.supports_schema is "
                "False). Omit response_schema and describe the JSON in the prompt; stage2_output "
                "validates the reply."
            )
        return [endpoint for endpoint in endpoints if PROVIDERS[endpoint.provider].supports_schema]

    async def aclose(self) -> None:
        """Close the connections. A later request raises a ConfigurationError.

        Another `async with gateway:` opens the gateway again. The connections of another event loop
        are closed when that loop ends.
        """
        for client in {self._client, self._offline_client}:
            await client.aclose()

    async def __aenter__(self) -> "Gateway":
        for client in (self._client, self._offline_client):
            client.enter()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        url = str(self._endpoints[0].url).partition("?")[0] if self._endpoints else None
        return f"Gateway({self.model!r}, url={url!r})"


def _unknown_option(options: Mapping[str, object]) -> TypeError:
    known = ChatOptions.__annotations__
    name = min(options.keys() - known.keys())
    return TypeError(f"Unknown option {name!r}. The options are {', '.join(known)}.")


def _failed_attempt(endpoint: ModelEndpoint, error: GatewayError, started: float) -> FailedAttempt:
    name, text = f"{endpoint.provider}:{endpoint.model}", f"{type(error).__name__}: {error}"
    return FailedAttempt(name, text, error.status, time.perf_counter() - started)


def _with_cost(
    prices: Prices | None, endpoint: ModelEndpoint, response: ChatResponse, failed: _Failures
) -> ChatResponse:
    """Return a reply with its cost and the failed attempts before it."""
    cost, usage = response.cost, response.usage
    if prices is not None and usage is not None:
        # By the server's name of the model, else by the requested name.
        for model in filter(None, (response.model, endpoint.model)):
            if cost is None:
                cost = prices.cost(endpoint.provider, model, endpoint.wire.NAME, usage)
    if cost is None and endpoint.provider == "offline":
        cost = 0.0  # the embedded model
    return replace(response, cost=cost, attempts=tuple(failed))


def _rejects_schema(request: ChatRequest, error: GatewayError) -> bool:
    """Return whether an error may be due to a schema that the request can do without."""
    is_rejection = error.status in _REJECTED_SCHEMA and not isinstance(error, ContextOverflow)
    return is_rejection and request.schema_optional and request.response_schema is not None


def _secret(name: str, value: Any) -> Any:
    """Return an option, a text or the mapping of keys, with a hidden repr.

    Raises:
        TypeError: The option has another type.
    """
    if isinstance(value, Mapping) and name == "api_key":
        return {provider: _secret(f"api_key[{provider!r}]", key) for provider, key in value.items()}
    if not isinstance(value, str | None):
        raise TypeError(f"{name} must be a text or None, not {type(value).__name__}.")
    return value and Secret(value)


def _ignore_event(event: GatewayEvent) -> None:
    """Ignore an event: the default of `on_event`."""


def _truncation_warning(model: str, unread: int) -> WarningEvent:
    return WarningEvent(
        model,
        f"The server read at least {unread} tokens fewer than were sent: it truncates long prompts "
        "without an error. Raise its context size (Ollama: num_ctx), or set a window on the "
        "context engine.",
    )
