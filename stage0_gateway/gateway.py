"""`Gateway`: messages go in, a model's reply comes out, whole or as it arrives.

It puts the other files together: a model's name becomes a target (`models`), a request is sent and
its answer read (`sending`), failures are repeated where that can help (`retry`), and other models
are asked where it cannot (`fallback`). It knows nothing of sessions, decisions or tools' code:
every call carries the whole conversation.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, Unpack

import httpx

from stage0_gateway.accounting.usage_check import unread_tokens
from stage0_gateway.errors import ConfigurationError, GatewayError
from stage0_gateway.events import (
    FallbackEvent,
    GatewayEvent,
    RequestEvent,
    ResponseEvent,
    RetryEvent,
    WarningEvent,
)
from stage0_gateway.fallback import first_answer
from stage0_gateway.http import endpoint as models
from stage0_gateway.http.client import MAX_REPLY_BYTES, Connection
from stage0_gateway.http.encode import Outgoing, outgoing
from stage0_gateway.http.receive import Incoming, open_stream
from stage0_gateway.http.response import Timeouts
from stage0_gateway.http.send import receive
from stage0_gateway.messages import Message, as_message
from stage0_gateway.recording.redaction import Secret
from stage0_gateway.request import ChatOptions, ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse
from stage0_gateway.retry import with_retries
from stage0_gateway.settings import settings_from_env
from stage0_gateway.streaming.stream import MessageStream
from stage0_gateway.usage import Prices

T = TypeVar("T")


class Gateway:
    """A way to one model, or to several that stand in for each other.

    Args:
        model: "provider:name", such as "openai:gpt-5-mini", "ollama:llama3.2" or "offline:teacher".
        api_key: The provider's key, or a mapping from providers to keys where fallback models need
            others. `Gateway.from_env()` finds them in the environment.
        base_url: Another server that speaks the provider's format.
        transport: Stands in for the network: `ScriptedModel`, `OfflineModel`, `Recorder`, `httpx.MockTransport`.
        timeout: Seconds for a whole exchange, or `Timeouts`.
        max_retries: How often a request that may succeed later is sent again.
        fallback_models: Models to ask, in this order, when the first one's server says no for good.
        max_concurrency: The most requests under way at once; further ones wait. None is no limit.
        max_reply_bytes: The maximum size of a reply; a larger one is a `MalformedResponse`.
        on_event: Called with each `GatewayEvent`: a request log without secrets.
        prices: Where `ChatResponse.cost` comes from: a `PriceTable` or `GenaiPrices`. None: costs
            stay unknown.

    Raises:
        ConfigurationError: The model, the URL or a missing key can be seen to be wrong right away.
    """

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
        prices: Prices | None = None,
    ) -> None:
        self.model = model
        self._targets: list[models.Target] = []
        self._keys, self._base_url = api_key, base_url = _secret(api_key), _secret(base_url)
        if max_retries < 0:
            raise ConfigurationError(
                f"max_retries is {max_retries}; 0 is the least and tries once."
            )
        if max_concurrency is not None and max_concurrency < 1:
            raise ConfigurationError(
                f"max_concurrency is {max_concurrency}; 1 is the least, None no limit."
            )
        if max_reply_bytes < 1:
            raise ConfigurationError(
                f"max_reply_bytes is {max_reply_bytes}; it must be at least 1."
            )
        self._is_network = transport is None
        self._targets = [self._resolve(each) for each in (model, *fallback_models)]
        limits = _timeouts(timeout), max_concurrency, max_reply_bytes
        self._connection = self._embedded = Connection(transport, *limits)
        if self._is_network and any(target.provider == "offline" for target in self._targets):
            from stage0_gateway.offline import OfflineModel

            self._embedded = Connection(OfflineModel(), *limits)
        self._max_retries = max_retries
        self._on_event = on_event or (lambda event: None)
        self._prices = prices

    @classmethod
    def from_env(cls, model: str | None = None, **options: Any) -> "Gateway":
        """A gateway as the environment describes it; see `stage0_gateway.settings`.

        Args:
            model: "provider:name", where the caller knows better than LLM_MODEL.
            options: Passed on to `Gateway`.

        Raises:
            ConfigurationError: What is set there does not make a gateway.
        """
        options |= {
            name: _secret(options[name]) for name in ("api_key", "base_url") if name in options
        }
        options["fallback_models"] = tuple(options.get("fallback_models", ()))
        return cls(**{**settings_from_env(model, options["fallback_models"]), **options})

    @property
    def supports_schema(self) -> bool:
        """Whether the model's server can be asked for JSON by a schema (`response_schema`)."""
        return _takes_schemas(self._targets[0])

    async def chat(
        self, messages: Iterable[Message | Mapping[str, Any]], **options: Unpack[ChatOptions]
    ) -> ChatResponse:
        """Send a conversation and wait for the whole reply.

        Args:
            messages: The conversation, oldest first: `Message`s, or mappings with `role` and
                `content`.
            options: tools: for the provider's own tool calls; the prompt dialect of stage 3 sends
                none. tool_choice: "auto", "none", "required", or a tool's name.
                temperature: Randomness; None leaves it to the server.
                max_tokens: The most tokens the model may write.
                response_schema: A JSON Schema for the server to hold the reply to. Check the reply
                    all the same.
                stop: A text, or several, at which the model stops.
                model: Another "provider:name" of the same provider for this request.
                provider_options: Fields put into the body as they are.

        Raises:
            GatewayError: One of the tree in `errors`. The text says what to do about it.
            ValueError: There is no message, one is none, or a number is one that JSON cannot hold.
        """
        targets, request = self._asked(messages, **options)

        async def send(connection: Connection, out: Outgoing, attempt: int) -> ChatResponse:
            started = time.perf_counter()
            return self._received(out, started, await receive(connection, out))

        return await self._first_answer(targets, request, send, stream=False)

    def stream(
        self, messages: Iterable[Message | Mapping[str, Any]], **options: Unpack[ChatOptions]
    ) -> MessageStream:
        """Send a conversation and watch the reply arrive. Takes what `chat` takes.

        Failures are repeated, and other models asked, only while nothing of a reply has arrived.

        Raises:
            ValueError: There is no message, or one is none. Whatever else goes wrong, whoever reads
                gets.
        """
        targets, request = self._asked(messages, **options)

        async def send(connection: Connection, out: Outgoing, attempt: int) -> Incoming:
            finish = partial(self._received, out, time.perf_counter())
            return await open_stream(connection, out, finish, attempt)

        return MessageStream(partial(self._first_answer, targets, request, send, stream=True))

    async def _first_answer(
        self,
        targets: list[models.Target],
        request: ChatRequest,
        send: Callable[[Connection, Outgoing, int], Awaitable[T]],
        *,
        stream: bool,
    ) -> T:
        """Send a request to each model until one answers, with retries and events."""

        async def ask(target: models.Target) -> T:
            own = request if request.model == target.model else replace(request, model=target.model)
            out = outgoing(target, own, stream=stream)
            connection = self._embedded if target.provider == "offline" else self._connection

            async def attempt(number: int) -> T:
                counts = len(request.messages), len(request.tools)
                self._on_event(RequestEvent(target.model, out.public_url, *counts, number))
                return await send(connection, out, number)

            return await with_retries(attempt, self._max_retries, self._report_retry)

        return await first_answer(targets, ask, self._report_fallback)

    # ---- who is asked what
    # ------------------------------------------------------------------------------

    def _asked(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        model: str | None = None,
        tools: Iterable[ToolSpec] = (),
        stop: str | Iterable[str] = (),
        **options: Any,
    ) -> tuple[list[models.Target], ChatRequest]:
        targets = self._targets if model is None else [self._other(model), *self._targets[1:]]
        request = ChatRequest(
            targets[0].model,
            tuple([each if isinstance(each, Message) else as_message(each) for each in messages]),
            tuple(tools),
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            **options,
        )
        if not request.messages:
            raise ValueError("There is no message to send. Pass at least one.")
        if request.response_schema is None:
            return targets, request
        if not self.supports_schema:
            raise ConfigurationError(
                f"{self.model} cannot be asked for JSON by a schema (gateway.supports_schema is False). Leave "
                "response_schema out and describe the JSON in the prompt; stage2_output checks the reply."
            )
        return [target for target in targets if _takes_schemas(target)], request

    def _resolve(self, model: str) -> models.Target:
        provider, main = model.partition(":")[0], self.model.partition(":")[0]
        key = self._keys if not isinstance(self._keys, Mapping) else self._keys.get(provider)
        if isinstance(self._keys, str) and provider != main:
            key = None  # one provider's key is never shown to another
        base_url = self._base_url if provider == main else None
        return models.resolve(model, key, base_url, needs_key=self._is_network)

    def _other(self, model: str) -> models.Target:
        target = self._resolve(model)
        if target.provider != self._targets[0].provider:
            ours = self._targets[0].provider
            raise ConfigurationError(
                f"This gateway speaks to {ours!r}; make another Gateway for {model!r}."
            )
        return target

    # ---- what is reported
    # -------------------------------------------------------------------------------

    def _report_retry(self, error: GatewayError, attempt: int) -> None:
        self._on_event(RetryEvent(error, attempt, error.retry_after))

    def _report_fallback(
        self, error: GatewayError, model: models.Target, following: models.Target
    ) -> None:
        self._on_event(FallbackEvent(error, model.name, following.name))

    def _received(self, out: Outgoing, started: float, response: ChatResponse) -> ChatResponse:
        duration = time.perf_counter() - started
        target = out.target
        if self._prices is not None and response.cost is None:
            response = replace(response, cost=self._cost(target, response))
        self._on_event(
            ResponseEvent(response.model, response.finish_reason, response.usage, duration)
        )
        if (unread := unread_tokens(out.request, len(out.body), response.usage)) is not None:
            text = (
                f"The server read at least {unread} tokens less than it was sent: it cuts long prompts without "
                "saying so. Raise its context size (Ollama: num_ctx), or set a window on the context engine."
            )
            self._on_event(WarningEvent(target.model, text))
        return response

    def _cost(self, target: models.Target, response: ChatResponse) -> float | None:
        """What a reply cost, by the name its server gives the model or by the one that was asked
        for.
        """
        if self._prices is None or response.usage is None:
            return None
        for model in filter(None, (response.model, target.model)):
            cost = self._prices.cost(target.provider, model, target.wire.NAME, response.usage)
            if cost is not None:
                return cost
        return None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()
        if self._embedded is not self._connection:
            await self._embedded.aclose()

    async def __aenter__(self) -> "Gateway":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        url = self._targets[0].public_url if self._targets else None
        return f"Gateway({self.model!r}, url={url!r})"


def _secret(value: Any) -> Any:
    """The same text, or the same mapping to texts, with a repr that hides it."""
    if isinstance(value, Mapping):
        return {name: Secret(text) for name, text in value.items()}
    return value and Secret(value)


def _takes_schemas(target: models.Target) -> bool:
    return models.PROVIDERS[target.provider].supports_schema


def _timeouts(timeout: float | Timeouts | None) -> Timeouts:
    if timeout is None:
        return Timeouts()
    return (
        timeout if isinstance(timeout, Timeouts) else Timeouts(min(timeout, 10.0), timeout, timeout)
    )
