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

URL = "https://api.openai.com/v1/chat/completions"
ASK = [{"role": "user", "content": "hi"}]
BOTH = pytest.mark.parametrize("ask", ["chat", "stream"])


async def reply(gateway, ask):
    return await (gateway.chat(ASK) if ask == "chat" else gateway.stream(ASK).final_message())


@BOTH
async def test_a_retried_request_is_reported_in_order(ask):
    events = []
    async with Gateway(
        "openai:m", transport=ScriptedModel([429, "yes"]), on_event=events.append
    ) as gateway:
        await reply(gateway, ask)
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


@BOTH
async def test_a_fallback_to_another_model_is_reported_in_order(ask):
    events = []
    gateway = Gateway(
        "openai:m",
        transport=ScriptedModel([400, "yes"]),
        fallback_models=["openai:other"],
        on_event=events.append,
    )
    async with gateway:
        await reply(gateway, ask)
    _, fallback, second, _ = events
    assert isinstance(fallback, FallbackEvent)
    assert (fallback.model, fallback.next_model) == ("openai:m", "openai:other")
    assert second == RequestEvent("other", URL, messages=1, tools=0, attempt=1)
    assert [event.name for event in events] == ["request", "fallback", "request", "response"]


@BOTH
async def test_the_wait_that_a_server_requests_is_reported(ask):
    answers = [
        httpx.Response(429, headers={"retry-after": "7"}, json={"error": {"message": "slow"}}),
        httpx.Response(
            200, json={"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}
        ),
    ]
    events = []
    transport = httpx.MockTransport(lambda request: answers.pop(0))
    await reply(Gateway("openai:m", transport=transport, on_event=events.append), ask)
    assert [event.wait for event in events if isinstance(event, RetryEvent)] == [7.0]


@BOTH
async def test_the_error_that_ends_a_request_is_raised_and_not_reported(ask):
    events = []
    gateway = Gateway(
        "openai:m", transport=ScriptedModel([500]), max_retries=0, on_event=events.append
    )
    with pytest.raises(ServerFailed):
        await reply(gateway, ask)
    assert [event.name for event in events] == ["request"]


@BOTH
async def test_exceptions_from_a_listener_propagate_to_the_caller(ask):
    def fail(event):
        raise ZeroDivisionError

    gateway = Gateway("openai:m", transport=ScriptedModel([]), on_event=fail)
    with pytest.raises(ZeroDivisionError):
        await reply(gateway, ask)


async def test_the_reported_url_is_the_url_that_is_requested():
    urls, events = [], []

    def answer(request):
        urls.append(str(request.url))
        return httpx.Response(500)

    transport = httpx.MockTransport(answer)
    gateway = Gateway("gemini:m", transport=transport, on_event=events.append, max_retries=0)
    for ask in "chat", "stream":
        with pytest.raises(ServerFailed):
            await reply(gateway, ask)
    assert [event.url for event in events] == [url.partition("?")[0] for url in urls]


@pytest.mark.parametrize(
    "event",
    [
        RequestEvent("m", URL, messages=1, tools=0, attempt=1),
        ResponseEvent("m", "stop", None, 0.1),
        RetryEvent(GatewayError("x"), 1, 0.5),
        FallbackEvent(GatewayError("x"), "a:b", "c:d"),
        WarningEvent("m", "x"),
    ],
    ids=lambda event: event.name,
)
def test_events_are_immutable(event):
    with pytest.raises(FrozenInstanceError):
        setattr(event, fields(event)[0].name, "other")
