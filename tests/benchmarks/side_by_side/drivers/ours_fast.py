"""This project with the connections of the extra `[fast]`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from drivers import ours
from job import Ask, Work

TITLE = "llm-stages [fast]"
PACKAGES = ("llm-stages", "httpx", "pydantic", "jsonschema", "aiohttp", "httpx-aiohttp")
IMPORT = f"{ours.IMPORT}, stage0_gateway.fast"
SPEAKS = ours.SPEAKS


def transport() -> None:
    """What the gateway takes where nothing else is given: `httpx-aiohttp`, as it is installed."""


@asynccontextmanager
async def asking(work: Work) -> AsyncIterator[Ask]:
    """The same loop."""
    async with ours.asking(work, transport) as ask:
        yield ask


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[ours.Read]:
    """The same stream."""
    async with ours.reading(url, transport) as read:
        yield read
