"""Memory used while reading a long stream: it must not grow with the stream.

    python tests/benchmarks/gateway_memory.py

The streams hold keep-alive comments or pings, and events without text. One word follows every 200 of
them, so the text of the reply stays small. The events are read and dropped. Python's allocations are
traced, which is slow, so the speed here has no meaning. The figure is the peak above the memory
before the stream.
"""

import asyncio
import tracemalloc

from loopback import at_most, connections, model_server, table

from stage0_gateway import Gateway

_SIZES = (1, 10, 100)  # MB
_KEY = "sk-0123456789abcdef0123456789abcdef"
_BAR = 2.0  # MB at most at any time, for streams of any length


async def read(gateway: Gateway) -> tuple[int, int]:
    """Read a stream to its end; return the number of events and of letters in the reply."""
    events = 0
    stream = gateway.stream([{"role": "user", "content": "hi"}])
    async for _ in stream:
        events += 1
    return events, len((await stream.final_message()).content)


async def measure(provider: str) -> list[tuple[str, ...]]:
    """Return the rows of one wire format: each size, over each connection."""
    rows = []
    with model_server() as server:
        for size in (0, *_SIZES):  # the first one imports all modules
            for added, transport in connections().items():
                url = f"{server}/megabytes/{size}/v1"
                async with Gateway(
                    f"{provider}:m",
                    api_key=_KEY,
                    base_url=url,
                    transport=transport,
                    max_reply_bytes=10**9,
                ) as gateway:
                    tracemalloc.start()
                    events, letters = await read(gateway)
                    peak = tracemalloc.get_traced_memory()[1] / 1e6
                    tracemalloc.stop()
                text = f"{letters / 1e6:.3f}"
                rows.append(
                    (f"{provider}{added}", f"{size}", f"{events}", text, at_most(_BAR, peak))
                )
    return [row for row in rows if row[1] != "0"]


async def main() -> None:
    """Measure and print."""
    rows = [row for provider in ("openai", "anthropic") for row in await measure(provider)]
    table("gateway.stream", ("", "MB read", "events", "MB of text", "MB held at once"), *rows)


if __name__ == "__main__":
    asyncio.run(main())
