"""Stage 0: three exercises. Write the three functions; each one has a test below.

    .venv/bin/python -m pytest docs/exercises/stage0.py

Each test fails with NotImplementedError until you write its function. Start with the first:
`-k token_meter` runs only its test. The exercises use the public names of `stage0_gateway` and
httpx, and need neither a network nor a key. If you are stuck, read `stage0_gateway/events.py`, then
`stage0_gateway/offline/scripted.py`.
"""

import asyncio
import json
from collections.abc import Callable, Iterable

import httpx
import pytest

from stage0_gateway import (
    Gateway,
    GatewayError,
    GatewayEvent,
    InvalidRequest,
    Message,
    RateLimited,
    ScriptedModel,
    ScriptError,
    Usage,
)

HELLO = [Message.user("Hello!")]


def token_meter() -> tuple[Callable[[GatewayEvent], None], Callable[[], Usage]]:
    """Return a listener for `on_event` that adds up tokens, and a function that returns the sum.

    One listener may serve several gateways. A reply without usage adds nothing, and does not change
    the sum to None. Hint: find the event that has a usage.

    Returns:
        The listener, and a function that returns the sum so far; `Usage()` before the first reply.
    """
    raise NotImplementedError


def busy_first(times: int, inner: httpx.AsyncBaseTransport) -> httpx.AsyncBaseTransport:
    """Return a transport that rejects the first requests and forwards all others.

    A rejected request is answered with status 429, the header `Retry-After: 0`, and an error in
    OpenAI's format: `{"error": {"message": "Busy."}}`. Closing the transport closes `inner`.

    Args:
        times: The number of requests to reject.
        inner: The transport that answers the other requests.

    Returns:
        A transport for `Gateway(transport=...)`.
    """
    raise NotImplementedError


async def ask_several(
    gateway: Gateway, messages: Iterable[Message], models: Iterable[str]
) -> list[str | GatewayError]:
    """Ask several models the same question at the same time.

    If one model fails, the answers of the others are still returned. A mistake of the caller, such
    as an invalid message, is not a failure of a model: its exception propagates.

    Args:
        gateway: The gateway for all requests.
        messages: The question.
        models: The "provider:name" of each model.

    Returns:
        In the order of `models`: the text of the reply, or the GatewayError of the request.
    """
    raise NotImplementedError


def test_token_meter():
    """Three replies are counted; one of them has no usage."""
    usages = [
        {"prompt_tokens": 10, "completion_tokens": 5},
        None,
        {"prompt_tokens": 7, "completion_tokens": 3},
    ]
    answers = iter(usages)

    def server(request: httpx.Request) -> httpx.Response:
        choices = [{"message": {"content": "Hi."}}]
        return httpx.Response(200, json={"choices": choices, "usage": next(answers)})

    listener, total = token_meter()
    _, other_total = token_meter()
    assert total() == Usage()

    async def talk() -> None:
        for _ in usages:
            transport = httpx.MockTransport(server)
            async with Gateway("openai:any", transport=transport, on_event=listener) as gateway:
                await gateway.chat(HELLO)

    asyncio.run(talk())
    assert total() == Usage(input_tokens=17, output_tokens=8)
    assert other_total() == Usage()


def test_busy_first():
    """Two rejected requests: first with enough retries, then with one too few."""
    events: list[GatewayEvent] = []

    async def patient() -> str:
        transport = busy_first(2, ScriptedModel(["At last.", "At once."]))
        async with Gateway("openai:any", transport=transport, on_event=events.append) as gateway:
            first, second = await gateway.chat(HELLO), await gateway.chat(HELLO)
        return f"{first.content} {second.content}"

    assert asyncio.run(patient()) == "At last. At once."
    names = ["request", "retry", "request", "retry", "request", "response", "request", "response"]
    assert [event.name for event in events] == names
    assert [(str(event.error)[:5], event.wait) for event in events if event.name == "retry"] == [
        ("Busy.", 0)
    ] * 2

    async def impatient() -> None:
        gateway = Gateway(
            "openai:any", transport=busy_first(2, ScriptedModel(["Too late."])), max_retries=1
        )
        with pytest.raises(RateLimited):
            await gateway.chat(HELLO)
        with pytest.raises(ScriptError):  # closing closes the script, which has a reply left
            await gateway.aclose()

    asyncio.run(impatient())


def test_ask_several():
    """All requests are sent before the first answer; two models fail in different ways."""

    async def ask(messages: list[Message], names: list[str]) -> list[str | GatewayError]:
        all_sent = asyncio.Barrier(3)  # the server answers when it has three requests

        async def server(request: httpx.Request) -> httpx.Response:
            async with asyncio.timeout(5):
                await all_sent.wait()
            model = json.loads(request.content)["model"]
            if model == "none":
                return httpx.Response(404, json={"error": {"message": "No such model."}})
            return httpx.Response(
                200, json={"choices": [{"message": {"content": f"I am {model}."}}]}
            )

        async with Gateway("openai:any", transport=httpx.MockTransport(server)) as gateway:
            return await ask_several(gateway, messages, names)

    first, second, third, other = asyncio.run(
        ask(HELLO, ["openai:a", "openai:none", "openai:b", "offline:teacher"])
    )
    assert (first, third) == ("I am a.", "I am b.")
    assert isinstance(second, InvalidRequest)
    assert "Create another Gateway" in str(other)

    with pytest.raises(ValueError, match="Unknown role"):
        asyncio.run(ask([{"role": "nobody", "content": "Hello!"}], ["openai:a"]))
