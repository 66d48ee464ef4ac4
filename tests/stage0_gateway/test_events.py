from dataclasses import FrozenInstanceError, fields

import httpx
import pytest

from stage0_gateway import (
    FallbackEvent,
    Gateway,
    GatewayError,
    RateLimited,
    RequestEvent,
    ResponseEvent,
    RetryEvent,
    ScriptedModel,
    ServerFailed,
    Usage,
    WarningEvent,
)
from tests.stage0_gateway.replies import completion, failure
from tests.stage0_gateway.requests import METHODS, ask, each_method
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each

URL = "https://api.openai.com/v1/chat/completions"


@each_method
async def test_a_retried_request_is_reported_in_order(method):
    events = []
    async with Gateway(
        "openai:m", transport=ScriptedModel([429, "yes"]), on_event=events.append
    ) as gateway:
        await ask(gateway, method)
    first, retry, second, response = events
    assert first == RequestEvent("m", URL, messages=1, tools=0, attempt=1)
    assert (type(retry), type(retry.error), retry.attempt, retry.wait) == (
        RetryEvent,
        RateLimited,
        1,
        0.5,
    )
    assert second == RequestEvent("m", URL, messages=1, tools=0, attempt=2)
    assert response == ResponseEvent("scripted", "stop", Usage(10, 5), response.duration)
    assert response.duration > 0
    assert [event.name for event in events] == ["request", "retry", "request", "response"]


@each_method
async def test_a_fallback_to_another_model_is_reported_in_order(method):
    events = []
    gateway = Gateway(
        "openai:m",
        transport=ScriptedModel([400, "yes"]),
        fallback_models=["openai:other"],
        on_event=events.append,
    )
    async with gateway:
        await ask(gateway, method)
    _, fallback, second, _ = events
    assert isinstance(fallback, FallbackEvent)
    assert (fallback.model, fallback.next_model) == ("openai:m", "openai:other")
    assert second == RequestEvent("other", URL, messages=1, tools=0, attempt=1)
    assert [event.name for event in events] == ["request", "fallback", "request", "response"]


@each_method
async def test_the_wait_that_a_server_requests_is_reported(method):
    refusal = httpx.Response(429, headers={"retry-after": "7"}, json=failure("slow"))
    server, events = Answers(refusal, completion()), []
    await ask(Gateway("openai:m", transport=server, on_event=events.append), method)
    assert [event.wait for event in events if isinstance(event, RetryEvent)] == [7.0]


@each_method
async def test_the_error_that_ends_a_request_is_raised_and_not_reported(method):
    events = []
    gateway = Gateway(
        "openai:m", transport=ScriptedModel([500]), max_retries=0, on_event=events.append
    )
    with pytest.raises(ServerFailed):
        await ask(gateway, method)
    assert [event.name for event in events] == ["request"]


@each_method
async def test_exceptions_from_a_listener_propagate_to_the_caller(method):
    def fail(event):
        raise ZeroDivisionError

    gateway = Gateway("openai:m", transport=ScriptedModel([]), on_event=fail)
    with pytest.raises(ZeroDivisionError):
        await ask(gateway, method)


async def test_the_reported_url_is_the_url_that_is_requested():
    server, events = Answers(500), []
    gateway = Gateway("gemini:m", transport=server, on_event=events.append, max_retries=0)
    for method in METHODS:
        with pytest.raises(ServerFailed):
            await ask(gateway, method)
    requested = [str(request.url).partition("?")[0] for request in server.requests]
    assert [event.url for event in events] == requested


@for_each(
    "event",
    [
        RequestEvent("m", URL, messages=1, tools=0, attempt=1),
        ResponseEvent("m", "stop", None, 0.1),
        RetryEvent(GatewayError("x"), 1, 0.5),
        FallbackEvent(GatewayError("x"), "a:b", "c:d"),
        WarningEvent("m", "x"),
    ],
)
def test_events_are_immutable(event):
    with pytest.raises(FrozenInstanceError):
        setattr(event, fields(event)[0].name, "other")
