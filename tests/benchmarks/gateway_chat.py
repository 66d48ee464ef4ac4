"""Overhead of `Gateway.chat` over a bare `httpx.AsyncClient.post`: sequential requests, kept alive.

    python tests/benchmarks/gateway_chat.py [rounds]

Both encode their body as JSON and parse the reply; the server answers at once. The figure is the CPU
time of the client.
"""

import asyncio
from contextlib import AsyncExitStack

import httpx
from loopback import (
    Way,
    at_most,
    connections,
    cpu,
    model_server,
    ratio,
    rounds_asked_for,
    table,
    take_turns,
)

from stage0_gateway import Gateway

BARE = "httpx.AsyncClient.post"
_REQUESTS = 100
_BAR = 1.1
_KEY = "sk-0123456789abcdef0123456789abcdef"
_MESSAGES = [
    {"role": "system", "content": "You are helpful."},
    {"role": "user", "content": "Say that all is well, at some length."},
]


async def ways_to_chat(server: str, stack: AsyncExitStack) -> dict[str, Way]:
    """Return variants of one request with its reply: bare, and with the gateway over each connection."""
    client = httpx.AsyncClient(timeout=120, headers={"Authorization": f"Bearer {_KEY}"})
    ways = {BARE: _bare(await stack.enter_async_context(client), f"{server}/v1/chat/completions")}
    for added, transport in connections().items():
        gateway = Gateway("openai:m", api_key=_KEY, base_url=f"{server}/v1", transport=transport)
        ways[f"Gateway.chat{added}"] = _ours(await stack.enter_async_context(gateway))
    return ways


def _bare(client: httpx.AsyncClient, url: str) -> Way:
    body = {"model": "m", "messages": _MESSAGES, "temperature": 0.2}

    async def chat() -> object:
        reply = await client.post(url, json=body)
        return reply.json()

    return chat


def _ours(gateway: Gateway) -> Way:
    async def chat() -> object:
        return await gateway.chat(_MESSAGES, temperature=0.2)

    return chat


def _one_after_the_other(way: Way) -> Way:
    async def requests() -> None:
        for _ in range(_REQUESTS):
            await way()

    return requests


async def main(rounds: int) -> None:
    """Measure and print."""
    with model_server() as server:
        async with AsyncExitStack() as stack:
            ways = await ways_to_chat(server, stack)
            costs = await take_turns(
                {name: _one_after_the_other(way) for name, way in ways.items()}, rounds
            )
    rows = []
    for name, each in costs.items():
        times = ratio(each, costs[BARE], lambda cost: cost.cpu)
        judged = "1.00" if name == BARE else at_most(_BAR, times)
        rows.append((name, f"{cpu(each) / _REQUESTS * 1e6:.0f}", judged))
    title = f"One chat after the other, medians of {rounds} rounds of {_REQUESTS}"
    table(title, ("", "us CPU", "x bare httpx"), *rows)


if __name__ == "__main__":
    asyncio.run(main(rounds_asked_for(25)))
