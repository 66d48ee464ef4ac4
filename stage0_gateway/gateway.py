"""`Gateway`: messages go in, a model's reply comes out.

It puts the other files together: a model's name becomes a target (`models`), a request becomes JSON
(`wire`), bytes travel (`connection`), failures are repeated where that can help (`retry`). It knows nothing
of sessions, decisions or tools' code: every call carries the whole conversation.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx

from stage0_gateway import models
from stage0_gateway.connection import Connection, HttpReply, Timeouts
from stage0_gateway.errors import ConfigurationError, GatewayError, MalformedResponse
from stage0_gateway.events import GatewayEvent, RequestEvent, ResponseEvent, RetryEvent
from stage0_gateway.messages import Message, as_message
from stage0_gateway.redact import redact
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse
from stage0_gateway.retry import with_retries


class Gateway:
    """A way to one model, or to several on the same server.

    Args:
        model: "provider:name", such as "openai:gpt-5-mini", "ollama:llama3.2" or "offline:teacher".
        api_key: The provider's key. `Gateway.from_env()` finds it in the environment.
        base_url: Another server that speaks the provider's format.
        transport: Stands in for the network: `ScriptedModel`, `OfflineModel`, `httpx.MockTransport`.
        timeout: Seconds for a whole exchange, or `Timeouts`.
        max_retries: How often a request that may succeed later is sent again.
        on_event: Called with each `GatewayEvent`: a request log without secrets.

    Raises:
        ConfigurationError: The model, the URL or a missing key can be seen to be wrong right away.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout: float | Timeouts | None = None,
        max_retries: int = 2,
        on_event: Callable[[GatewayEvent], None] | None = None,
    ) -> None:
        if max_retries < 0:
            raise ConfigurationError(f"max_retries is {max_retries}; 0 is the least and tries once.")
        self.model = model
        self._api_key = api_key
        self._base_url = base_url
        self._target = models.resolve(model, api_key, base_url)
        if transport is None:
            models.require_key(model, api_key, base_url)
            transport = _embedded(self._target.provider)
        self._max_retries = max_retries
        self._on_event = on_event or (lambda event: None)
        self._connection = Connection(transport, _timeouts(timeout))

    @classmethod
    def from_env(cls, model: str | None = None, **options: Any) -> "Gateway":
        """A gateway as the environment describes it; see `stage0_gateway.settings`.

        Args:
            model: "provider:name", where the caller knows better than LLM_MODEL.
            options: Passed on to `Gateway`.

        Raises:
            ConfigurationError: What is set there does not make a gateway.
        """
        from stage0_gateway.settings import settings_from_env

        return cls(**{**settings_from_env(model), **options})

    async def chat(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        tools: Iterable[ToolSpec] = (),
        tool_choice: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        response_schema: Mapping[str, Any] | None = None,
        stop: str | Iterable[str] = (),
        model: str | None = None,
        provider_options: Mapping[str, Any] | None = None,
    ) -> ChatResponse:
        """Send a conversation and wait for the whole reply.

        Args:
            messages: The conversation, oldest first: `Message`s, or mappings with `role` and `content`.
            tools: Tools for the provider's own tool calls. The prompt dialect of stage 3 sends none.
            tool_choice: "auto", "none", "required", or a tool's name.
            temperature: Randomness; None leaves it to the server.
            max_tokens: The most tokens the model may write.
            response_schema: A JSON Schema for the server to hold the reply to. Check the reply all the same.
            stop: A text, or several, at which the model stops.
            model: Another "provider:name" of the same provider for this request.
            provider_options: Fields put into the body as they are.

        Raises:
            GatewayError: One of the tree in `errors`. The text says what to do about it.
            ValueError: There is no message, one is none, or a number is one that JSON cannot hold.
        """
        target = self._target if model is None else self._other(model)
        request = ChatRequest(
            model=target.model,
            messages=tuple(as_message(message) for message in messages),
            tools=tuple(tools),
            tool_choice=tool_choice,
            temperature=temperature,
            max_tokens=max_tokens,
            response_schema=response_schema,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            provider_options=provider_options,
        )
        if not request.messages:
            raise ValueError("There is no message to send. Pass at least one.")
        body = _to_json(target.encode(request))
        return await with_retries(
            lambda attempt: self._exchange(target, request, body, attempt),
            self._max_retries,
            self._report_retry,
        )

    async def _exchange(
        self, target: models.Target, request: ChatRequest, body: bytes, attempt: int
    ) -> ChatResponse:
        sent = RequestEvent(
            request.model, target.public_url, len(request.messages), len(request.tools), attempt
        )
        self._on_event(sent)
        started = time.perf_counter()
        reply = await self._connection.post(target.url, target.headers, body)
        try:
            response = _decode(target, reply)
        except GatewayError as error:
            error.args = (redact(str(error), target.secrets),)
            raise
        duration = time.perf_counter() - started
        self._on_event(ResponseEvent(response.model, response.finish_reason, response.usage, duration))
        return response

    def _report_retry(self, error: GatewayError, attempt: int) -> None:
        self._on_event(RetryEvent(error, attempt, error.retry_after))

    def _other(self, model: str) -> models.Target:
        target = models.resolve(model, self._api_key, self._base_url)
        if target.provider != self._target.provider:
            raise ConfigurationError(
                f"This gateway speaks to {self._target.provider!r}; make another Gateway for {model!r}."
            )
        return target

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()

    async def __aenter__(self) -> "Gateway":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"Gateway({self.model!r}, url={self._target.public_url!r})"


def _embedded(provider: str) -> httpx.AsyncBaseTransport | None:
    if provider != "offline":
        return None
    from stage0_gateway.offline import OfflineModel

    return OfflineModel()


def _timeouts(timeout: float | Timeouts | None) -> Timeouts:
    if timeout is None:
        return Timeouts()
    return timeout if isinstance(timeout, Timeouts) else Timeouts(min(timeout, 10.0), timeout, timeout)


def _to_json(body: dict[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except TypeError as error:
        raise ValueError(f"The request holds what JSON cannot: {error}.") from error
    except UnicodeEncodeError:  # half a surrogate pair: legal in Python text, not in UTF-8
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


def _decode(target: models.Target, reply: HttpReply) -> ChatResponse:
    try:
        body = json.loads(reply.body)
    except (ValueError, RecursionError):
        body = reply.body.decode(errors="replace")
    if reply.status != 200:
        raise target.wire.decode_error(reply.status, body, _retry_after(reply.headers))
    if not isinstance(body, dict):
        raise MalformedResponse(f"{target.public_url} answered, but not with a JSON object.", status=200)
    return target.wire.decode(body, reply.headers.get("x-request-id"))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None
