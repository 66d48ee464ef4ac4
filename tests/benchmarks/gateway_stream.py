"""Speed of `gateway.stream`, compared with a bare httpx loop and with the providers' own SDKs.

    python tests/benchmarks/gateway_stream.py [rounds]

The figure is the number of server events per second of the client's CPU. The first measurement has
many events in a packet, read at full speed. The second has single events, a millisecond apart, as a
model writes. There, waking up for a packet costs more than reading it, and bare httpx is hardly
twice as fast as an SDK. So the bar against the SDKs applies to the first only. The bare loop only
parses each event with `json.loads`; ours creates typed events of all kinds, or of one kind.
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

_EVENTS = {64: 4000, 1: 400}  # events of a stream, by events in a packet
_BAR_BARE, _BAR_SDK = 0.75, 2.0
_KEY = "sk-0123456789abcdef0123456789abcdef"
_BARE, _SDK = "httpx, aiter_lines and json.loads", "the {} SDK"
_PATHS = {"openai": "/chat/completions", "anthropic": "/messages"}


async def ways_to_stream(server: str, provider: str, stack: AsyncExitStack) -> dict[str, Way]:
    """Return variants that read a stream to its end: bare, with the SDK, and with the gateway over
    each connection."""
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
    """Return the costs of each variant for the same stream."""
    with model_server() as server:
        async with AsyncExitStack() as stack:
            ways = await ways_to_stream(
                f"{server}/events/{_EVENTS[at_once]}/{at_once}", provider, stack
            )
            return await take_turns(ways, rounds)


def print_figures(provider: str, at_once: int, costs: dict[str, list[Cost]]) -> None:
    """Print a table, with the two bars beside our own figures."""
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
