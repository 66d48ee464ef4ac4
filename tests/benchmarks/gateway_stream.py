"""How fast `gateway.stream` reads, beside a bare httpx loop over the lines and beside the providers' own SDKs.

    python tests/benchmarks/gateway_stream.py [rounds]

The server's events per second of the client's CPU. First many to a packet, as fast as they can be
read; then one by one, a millisecond apart, as a model writes: there waking up for a packet costs
more than reading it, and bare httpx itself is hardly twice as fast as an SDK, so that bar is for the first. The bare loop does
nothing but `json.loads` each event; ours gives typed events of all kinds, or one kind.
"""

import asyncio
import json
from contextlib import AsyncExitStack

import httpx
from anthropic import AsyncAnthropic
from loopback import (
    Cost,
    Way,
    at_least,
    connections,
    cpu,
    model_server,
    ratio,
    rounds_asked_for,
    table,
    take_turns,
)
from openai import AsyncOpenAI

from stage0_gateway import Gateway

_EVENTS = {64: 4000, 1: 400}  # in one stream, by how many come in a packet
_BAR_BARE, _BAR_SDK = 0.75, 2.0
_KEY = "sk-0123456789abcdef0123456789abcdef"
_BARE, _SDK = "httpx, aiter_lines and json.loads", "the {} SDK"
_PATHS = {"openai": "/chat/completions", "anthropic": "/messages"}


async def ways_to_stream(server: str, provider: str, stack: AsyncExitStack) -> dict[str, Way]:
    """One stream read to its end: bare, through the SDK, and through the gateway over each of its
    connections."""
    client = await stack.enter_async_context(httpx.AsyncClient(timeout=120))
    ways = {_BARE: _bare(client, f"{server}/v1{_PATHS[provider]}")}
    sdk = _openai_sdk if provider == "openai" else _anthropic_sdk
    ways[_SDK.format(provider)] = await sdk(server, stack)
    for added, transport in connections().items():
        gateway = Gateway(
            f"{provider}:m", api_key=_KEY, base_url=f"{server}/v1", transport=transport
        )
        await stack.enter_async_context(gateway)
        ways[f"gateway.stream{added}"] = _ours(gateway)
        ways[f'gateway.stream, events("text"){added}'] = _ours(gateway, "text")
    return ways


def _bare(client: httpx.AsyncClient, url: str) -> Way:
    async def read() -> None:
        async with client.stream("POST", url, content=b"{}") as reply:
            async for line in reply.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    json.loads(line[6:])

    return read


async def _openai_sdk(server: str, stack: AsyncExitStack) -> Way:
    client = await stack.enter_async_context(AsyncOpenAI(api_key=_KEY, base_url=f"{server}/v1"))

    async def read() -> None:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        async for _ in stream:
            pass

    return read


async def _anthropic_sdk(server: str, stack: AsyncExitStack) -> Way:
    client = await stack.enter_async_context(AsyncAnthropic(api_key=_KEY, base_url=server))

    async def read() -> None:
        async with client.messages.stream(
            model="m", max_tokens=4096, messages=[{"role": "user", "content": "hi"}]
        ) as stream:
            async for _ in stream:
                pass

    return read


def _ours(gateway: Gateway, *names: str) -> Way:
    async def read() -> None:
        async for _ in gateway.stream([{"role": "user", "content": "hi"}]).events(*names):
            pass

    return read


async def measure(provider: str, at_once: int, rounds: int) -> dict[str, list[Cost]]:
    """What each way to read the same stream cost."""
    with model_server() as server:
        async with AsyncExitStack() as stack:
            ways = await ways_to_stream(
                f"{server}/events/{_EVENTS[at_once]}/{at_once}", provider, stack
            )
            return await take_turns(ways, rounds)


def print_figures(provider: str, at_once: int, costs: dict[str, list[Cost]]) -> None:
    """One table, with the two bars beside our own figures."""
    sdk, rows = _SDK.format(provider), []
    for name, each in costs.items():
        ours = name.startswith("gateway")
        bare, other = (1 / ratio(each, costs[base], lambda cost: cost.cpu) for base in (_BARE, sdk))
        beside_bare = at_least(_BAR_BARE, bare) if ours else f"{bare:.2f}"
        beside_sdk = at_least(_BAR_SDK, other) if ours and at_once > 1 else f"{other:.2f}"
        rows.append((name, f"{_EVENTS[at_once] / cpu(each):.0f}", beside_bare, beside_sdk))
    title = f"{provider} format, {at_once} to a packet, medians of {len(costs[_BARE])} rounds"
    table(title, ("", "events/s", "x bare httpx", f"x {sdk}"), *rows)


def main(rounds: int) -> None:
    """Measure and print."""
    for provider in _PATHS:
        for at_once in _EVENTS:
            print_figures(provider, at_once, asyncio.run(measure(provider, at_once, rounds)))


if __name__ == "__main__":
    main(rounds_asked_for(11))
