"""Retries and fallback models, as `chat` and `stream` apply them."""

import asyncio
import json
import logging
from traceback import format_exception

import httpx
import pytest
import stamina

from stage0_gateway import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    Gateway,
    GatewayError,
    InvalidRequest,
    MalformedResponse,
    RateLimited,
    RequestTimeout,
    ServerFailed,
)
from stage0_gateway.retry import MAX_WAIT
from tests.stage0_gateway.replies import completion, failure
from tests.stage0_gateway.requests import METHODS, ask, each_method
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each


class ModelServer:
    """Gives each model its answers in order, and repeatedly the last one; records events."""

    def __init__(self, **answers):
        self._answers = {model: Answers(*each) for model, each in answers.items()}
        self.requested, self.events = [], []

    async def answer(self, request):
        model = json.loads(request.content)["model"]
        self.requested.append(model)
        return await self._answers[model].handle_async_request(request)

    def gateway(self, **options):
        first, *others = [f"openai:{model}" for model in self._answers]
        transport = httpx.MockTransport(self.answer)
        events = {"on_event": self.events.append} | options
        return Gateway(first, transport=transport, fallback_models=others, **events)

    def reported(self, name):
        return [event for event in self.events if event.name == name]


def refused(status=503, text="no", **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=names, json=failure(text))


async def content(gateway, method="chat"):
    return (await ask(gateway, method)).content


@pytest.fixture
def waits():
    """The seconds that the gateway would have waited before each retry."""
    from stamina.instrumentation import set_on_retry_hooks

    seen = []
    set_on_retry_hooks([lambda details: seen.append(details.wait_for)])
    yield seen
    set_on_retry_hooks(None)


# ---- retries


@each_method
async def test_a_request_that_may_succeed_is_retried_and_reported(method):
    server = ModelServer(a=[refused(503), refused(429), completion()])
    assert await content(server.gateway(), method) == "yes"
    assert [event.attempt for event in server.reported("request")] == [1, 2, 3]
    retries = [(type(event.error), event.attempt) for event in server.reported("retry")]
    assert retries == [(ServerFailed, 1), (RateLimited, 2)]


async def test_after_the_last_attempt_the_last_error_is_raised_and_not_reported_as_a_retry():
    server = ModelServer(a=[refused(text="a"), refused(text="b"), refused(text="c")])
    with pytest.raises(ServerFailed, match="b"):
        await content(server.gateway(max_retries=1))
    assert len(server.requested) == 2
    assert [event.attempt for event in server.reported("retry")] == [1]


@for_each(
    "response, kind",
    [
        (refused(400), InvalidRequest),
        (httpx.Response(429, json={"error": {"code": "insufficient_quota"}}), RateLimited),
        (refused(429, retry_after=str(MAX_WAIT + 1)), RateLimited),
        (ZeroDivisionError(), ZeroDivisionError),
        (asyncio.CancelledError(), asyncio.CancelledError),
    ],
)
@for_each("before", [[], [refused(503)]])
async def test_a_request_that_cannot_succeed_is_not_retried(response, kind, before):
    server = ModelServer(a=[*before, response])
    with pytest.raises(kind):
        await content(server.gateway(max_retries=5))
    assert len(server.requested) == len(before) + 1
    assert len(server.reported("retry")) == len(before)


async def test_without_retries_there_is_one_attempt():
    server = ModelServer(a=[refused()])
    with pytest.raises(ServerFailed):
        await content(server.gateway(max_retries=0))
    assert server.requested == ["a"]


@pytest.mark.parametrize("seconds", [0.0, 0.25, MAX_WAIT])
async def test_a_wait_that_the_server_requests_is_used(seconds, waits, monkeypatch):
    slept = []

    async def sleep(delay, *rest):
        slept.append(delay)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    server = ModelServer(a=[refused(429, retry_after=str(seconds)), completion()])
    with stamina.set_testing(False):
        assert await content(server.gateway()) == "yes"
    assert (waits, slept) == ([seconds], [seconds])


async def test_other_waits_grow_and_stay_below_eight_seconds(waits, monkeypatch):
    async def sleep(delay, *rest):
        pass

    monkeypatch.setattr(asyncio, "sleep", sleep)
    server = ModelServer(a=[*[refused()] * 9, completion()])
    with stamina.set_testing(False):
        assert await content(server.gateway(max_retries=9)) == "yes"
    assert all(0.5 * 2**n <= wait <= 0.5 * 2**n + 0.5 for n, wait in enumerate(waits[:4]))
    assert waits[5:] == pytest.approx([8.0] * 4)


async def test_a_listener_that_raises_ends_the_attempts():
    def fail(event):
        if event.name == "retry":
            raise ZeroDivisionError

    server = ModelServer(a=[refused()])
    with pytest.raises(ZeroDivisionError):
        await content(server.gateway(on_event=fail))
    assert server.requested == ["a"]


async def test_retries_write_nothing_without_a_listener(capsys):
    await content(ModelServer(a=[refused(), completion()]).gateway(on_event=None))
    assert capsys.readouterr() == ("", "")
    assert logging.getLogger("stamina").handlers


@each_method
async def test_the_global_setting_of_the_retry_library_disables_retries(method):
    server = ModelServer(a=[refused()])
    stamina.set_active(False)
    try:
        with pytest.raises(ServerFailed):
            await content(server.gateway(max_retries=5), method)
    finally:
        stamina.set_active(True)
    assert (server.requested, server.reported("retry")) == (["a"], [])


@each_method
async def test_the_test_mode_of_the_retry_library_limits_the_attempts_of_each_model(method):
    server = ModelServer(a=[refused()], b=[refused(), refused(), completion()])
    with stamina.set_testing(True, attempts=2), pytest.raises(ServerFailed):
        await content(server.gateway(max_retries=5), method)
    assert server.requested == ["a", "a", "b", "b"]


# ---- other models


async def test_other_models_are_not_requested_after_a_reply():
    server = ModelServer(a=[completion()], b=[refused()])
    assert await content(server.gateway()) == "yes"
    assert (server.requested, server.reported("fallback")) == (["a"], [])


@for_each("method", METHODS)
@for_each(
    "response, kind",
    [
        (refused(500), ServerFailed),
        (refused(429), RateLimited),
        (refused(400, "context length exceeded"), ContextOverflow),
        (refused(401), AuthenticationFailed),
        (httpx.ConnectError("refused"), ConnectionFailed),
        (httpx.ReadTimeout("slow"), RequestTimeout),
        (httpx.Response(200, text="<html>"), MalformedResponse),
    ],
)
async def test_after_any_error_of_a_server_the_next_model_is_requested(method, response, kind):
    server = ModelServer(a=[response], b=[completion()])
    assert await content(server.gateway(max_retries=0), method) == "yes"
    (event,) = server.reported("fallback")
    assert (type(event.error), event.model, event.next_model) == (kind, "openai:a", "openai:b")


@for_each(
    "error, kind",
    [
        # configuration
        (httpx.InvalidURL("no"), GatewayError),
        # cancelled
        (asyncio.CancelledError(), asyncio.CancelledError),
    ],
)
async def test_an_error_that_no_other_model_changes_is_raised_at_once(error, kind):
    server = ModelServer(a=[error], b=[completion()])
    with pytest.raises(kind):
        await content(server.gateway())
    assert (server.requested, server.reported("fallback")) == (["a"], [])


async def test_the_last_error_is_raised_with_the_errors_of_the_other_models():
    server = ModelServer(
        a=[refused(429, "slow")],
        b=[refused(503, "broken")],
        c=[refused(400, "context length exceeded")],
    )
    with pytest.raises(ContextOverflow) as caught:
        await content(server.gateway(max_retries=0))
    error = caught.value
    assert list(map(type, error.earlier)) == [RateLimited, ServerFailed]
    first, second = map(str, error.earlier)
    others = f"Errors of the models before it: RateLimited: {first}; ServerFailed: {second}"
    assert str(error).endswith(others)
    assert (error.status, error.retryable) == (400, False)


async def test_the_error_of_a_single_model_is_raised_unchanged():
    with pytest.raises(ConnectionFailed) as caught:
        await content(ModelServer(a=[httpx.ReadError("reset")]).gateway(max_retries=1))
    error = caught.value
    assert str(error) == "The connection to api.openai.com broke (reset)."
    assert (error.earlier, type(error.__cause__)) == ((), httpx.ReadError)


async def test_the_traceback_shows_each_error_once():
    server = ModelServer(a=[refused(503, "broken")], b=[refused(429, "slow")])
    with pytest.raises(RateLimited) as caught:
        await content(server.gateway(max_retries=0))
    shown = "".join(format_exception(caught.value))
    assert shown.count("ServerFailed: broken") == 1
    assert "During handling" not in shown
