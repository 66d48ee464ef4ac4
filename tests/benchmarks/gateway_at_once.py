"""Throughput of concurrent requests: `Gateway.chat`, compared with bare httpx and its default pool.

    python tests/benchmarks/gateway_at_once.py [rounds]

The server answers immediately, or after 20 ms. The first is faster than any model; only the second
keeps all requests open together. Throughput is elapsed time, so the server needs its own processor;
the CPU time beside it does not. The cost of bare httpx varies within a run with the number of
connections that its pool uses. So the minimum and the maximum of the rounds are printed as well.
"""

import asyncio
from contextlib import AsyncExitStack

from gateway_chat import BARE, ways_to_chat
from loopback import (
    Cost,
    Way,
    at_least,
    cpu,
    model_server,
    ratio,
    rounds_asked_for,
    table,
    take_turns,
    wall,
)

_AT_ONCE = 256
_ANSWERS = {"at once": "", "after 20 ms": "/after/20"}
_BAR = 3.0


def _all_at_once(way: Way) -> Way:
    async def requests() -> None:
        await asyncio.gather(*(way() for _ in range(_AT_ONCE)))

    return requests


async def measure(path: str, rounds: int) -> dict[str, list[Cost]]:
    """Return the costs of each variant with this server."""
    with model_server() as server:
        async with AsyncExitStack() as stack:
            ways = await ways_to_chat(server + path, stack)
            return await take_turns({name: _all_at_once(way) for name, way in ways.items()}, rounds)


def print_figures(answers: str, costs: dict[str, list[Cost]]) -> None:
    """Print a table."""
    rows = []
    for name, each in costs.items():
        faster = 1 / ratio(each, costs[BARE], lambda cost: cost.wall)
        cheaper = 1 / ratio(each, costs[BARE], lambda cost: cost.cpu)
        every = [bare.wall / ours.wall for bare, ours in zip(costs[BARE], each, strict=True)]
        judged = f"{faster:.2f}" if name == BARE else at_least(_BAR, faster)
        between = f"{min(every):.1f} to {max(every):.1f}"
        price = f"{cpu(each) / _AT_ONCE * 1e6:.0f}"
        rows.append(
            (name, f"{_AT_ONCE / wall(each):.0f}", judged, between, price, f"{cheaper:.2f}")
        )
    title = f"{_AT_ONCE} requests at once, answered {answers}, medians of {len(costs[BARE])} rounds"
    table(
        title, ("", "requests/s", "x bare httpx", "in all rounds", "us CPU", "times cheaper"), *rows
    )


def main(rounds: int) -> None:
    """Measure and print."""
    for answers, path in _ANSWERS.items():
        print_figures(answers, asyncio.run(measure(path, rounds)))


if __name__ == "__main__":
    main(rounds_asked_for(15))
