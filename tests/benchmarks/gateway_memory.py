"""How much memory reading a long stream takes: it must not grow with the stream.

    python tests/benchmarks/gateway_memory.py

The streams hold keep-alive comments or pings, and events that surround no text; after every 200 of
each comes one word, so what is kept as the reply's text stays small beside them. The events are
looked at and let go. What Python allocates is traced (that is slow: the speed here says nothing);
the peak is what was held at once above what there was before the stream.
"""

import asyncio
import tracemalloc

from loopback import at_most, connections, model_server, table

from stage0_gateway import Gateway

_SIZES = (1, 10, 100)  # MB
_KEY = "sk-0123456789abcdef0123456789abcdef"
_BAR = 2.0  # MB that may be held at once, however long the stream


async def read(gateway: Gateway) -> tuple[int, int]:
    """Read a stream to its end: how many events it told, and how many letters the reply has."""
    events = 0
    stream = gateway.stream([{"role": "user", "content": "hi"}])
    async for _ in stream:
        events += 1
    return events, len((await stream.final_message()).content)


async def measure(provider: str) -> list[tuple[str, ...]]:
    """The rows of one wire format: each size, over each connection."""
    rows = []
    with model_server() as server:
        for size in (0, *_SIZES):  # the first so that everything is imported
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
                kept = f"{letters / 1e6:.3f}"
                rows.append(
                    (f"{provider}{added}", f"{size}", f"{events}", kept, at_most(_BAR, peak))
                )
    return [row for row in rows if row[1] != "0"]


async def main() -> None:
    """Measure and print."""
    rows = [row for provider in ("openai", "anthropic") for row in await measure(provider)]
    table("gateway.stream", ("", "MB read", "events", "MB of text", "MB held at once"), *rows)


if __name__ == "__main__":
    asyncio.run(main())
