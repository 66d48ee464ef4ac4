"""Stage 0: three exercises. Each function waits for you, and has a test below.

    .venv/bin/python -m pytest docs/exercises/stage0.py

All three tests fail with NotImplementedError until you write the functions; do them one after the
other (`-k token_meter` runs only the first). You need nothing but the face of `stage0_gateway` and
httpx; there is no network and no key in any of them. If you are stuck, read `events.py`, then
`offline/scripted.py`.
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
    """A listener for `on_event` that adds up tokens, and a way to read the sum.

    One listener may serve several gateways. A server that reports no usage adds nothing, and does
    not turn the sum into None. Hint: which of the events knows a usage?

    Returns:
        The listener, and a function that tells the sum so far; `Usage()` before the first reply.
    """
    raise NotImplementedError


def busy_first(times: int, inner: httpx.AsyncBaseTransport) -> httpx.AsyncBaseTransport:
    """A transport that is busy at first, then passes every request on to another one.

    Busy means status 429 with the header `Retry-After: 0`, and an error in OpenAI's form:
    `{"error": {"message": "Busy."}}`. Closing it closes the other one.

    Args:
        times: How many requests to refuse.
        inner: Who answers the rest.

    Returns:
        Something to pass as `transport=`.
    """
    raise NotImplementedError


async def ask_several(
    gateway: Gateway, messages: Iterable[Message], models: Iterable[str]
) -> list[str | GatewayError]:
    """Ask several models the same question, all at once.

    One failing model must not cost you the answers of the others. A mistake of the caller (a
    message that is none) is no model's failure: let it be raised.

    Args:
        gateway: A way to all of them.
        messages: The question.
        models: "provider:name" of each.

    Returns:
        In the order of `models`: the text of the reply, or the GatewayError that came instead.
    """
    raise NotImplementedError


def test_token_meter():
    """Three replies, of which one reports no usage."""
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
    """Two refusals: enough retries, then one too few."""
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
        with pytest.raises(ScriptError):  # closing reaches the script, which has a reply left
            await gateway.aclose()

    asyncio.run(impatient())


def test_ask_several():
    """Nobody is answered before all have asked; one model is missing, one is elsewhere."""

    async def ask(messages: list[Message], names: list[str]) -> list[str | GatewayError]:
        everyone = asyncio.Barrier(3)  # nobody is answered before all three have asked

        async def server(request: httpx.Request) -> httpx.Response:
            async with asyncio.timeout(5):
                await everyone.wait()
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
