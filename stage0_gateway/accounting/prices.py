"""Compute the cost of a reply from the server's token counts.

The same field counts different tokens in each wire format, and only this module knows the
differences. It contains no prices: a `PriceTable` holds the caller's prices, and `GenaiPrices`
uses a library. Both implement `Prices`, which the gateway accepts as `prices=…`.

An unknown cost is None, never zero. The gateway computes the cost after a reply arrived, and a
reply must not be lost because of its price. Therefore `cost` does not raise.

Covered: prompt tokens that were read, read from a cache or written to one; tokens of the reply and
its thinking.

Not covered: fees for searches and other tools on the server, the prompt tokens of Gemini's own
tools, separate prices for audio and images, longer cache lifetimes, discounts for batches and
slower service. A server that uses the fields of a format with another meaning (xAI excludes
thinking from the output) is detected only if its numbers contradict each other.
"""

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from importlib import import_module
from typing import Protocol

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.response import Usage

MAX_TOKENS = 10**12
"""A larger count of a server is treated as an error."""
_LIBRARY_NAMES = {"gemini": "google", "openai-responses": "openai"}
"""Providers whose names differ in `genai-prices`."""


class Prices(Protocol):
    """Computes the cost of a reply."""

    def cost(self, provider: str, model: str, wire: str, usage: Usage) -> float | None:
        """Return the cost of a reply in US dollars, or None if it is unknown.

        Args:
            provider: The provider's name in `http/endpoint.py`.
            model: The model's name.
            wire: The wire format, which determines the meaning of the counts.
            usage: The server's token counts.
        """


@dataclass(frozen=True, slots=True)
class BilledTokens:
    """The tokens of one reply by price category. No token is counted twice.

    Attributes:
        input: Prompt tokens outside the cache.
        cached_input: Prompt tokens read from the cache.
        cache_write: Prompt tokens written to the cache.
        output: Tokens of the reply and its thinking.
    """

    input: int
    cached_input: int
    cache_write: int
    output: int


def billed_tokens(wire: str, usage: Usage | None) -> BilledTokens | None:
    """Return the billed tokens, or None if the server's counts do not determine them.

    The result is None if the prompt or the output was not counted, or if the counts are invalid:
    negative, or parts larger than their total. A cache that is not reported was not used.

    Args:
        wire: The wire format: "openai", "openai-responses", "mistral", "anthropic" or "gemini";
            None for any other.
        usage: The server's token counts.
    """
    if usage is None or not all(0 <= (count or 0) <= MAX_TOKENS for count in astuple(usage)):
        return None
    output = _output(wire, usage)
    if usage.input_tokens is None or output is None:
        return None
    cached, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
    fresh = usage.input_tokens
    if wire != "anthropic":
        fresh -= cached + written
    return BilledTokens(fresh, cached, written, output) if fresh >= 0 else None


def _output(wire: str, usage: Usage) -> int | None:
    written, thought = usage.output_tokens, usage.reasoning_tokens
    if wire == "gemini":
        # Thinking is a separate count, and zeros are omitted. A reply that was cut off during
        # thinking has no output count.
        return None if written is None and thought is None else (written or 0) + (thought or 0)
    is_known = wire in ("openai", "openai-responses", "mistral", "anthropic")
    return written if is_known and written is not None and (thought or 0) <= written else None


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of one model, in US dollars per million tokens.

    Attributes:
        input: The prompt.
        output: The reply and its thinking.
        cached_input: Tokens read from the cache. The default is the price of the prompt, which is
            too high for nearly all servers.
        cache_write: Tokens written to the cache. Without it, the cost of a reply with such tokens
            is unknown, because some servers charge more for them than for the prompt.

    Raises:
        ConfigurationError: A price is negative or not a finite number.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for number in astuple(self):
            is_price = isinstance(number, int | float) and math.isfinite(number) and number >= 0
            if number is not None and not is_price:
                raise ConfigurationError(
                    f"{self} is invalid. Pass US dollars per million tokens, 0 or more."
                )

    def of(self, tokens: BilledTokens) -> float | None:
        """Return the cost of these tokens, or None if the price of some is missing."""
        if tokens.cache_write and self.cache_write is None:
            return None
        cached_input = self.input if self.cached_input is None else self.cached_input
        dollars = tokens.input * self.input + tokens.output * self.output
        dollars += tokens.cached_input * cached_input + tokens.cache_write * (self.cache_write or 0)
        return dollars / 1_000_000


class PriceTable:
    """Prices by name: `PriceTable({"openai:gpt-5-mini": Price(0.25, 2.0, cached_input=0.025)})`.

    A name is "provider:model", or else the model alone for every provider. Other names do not
    match: "gpt-5-mini-fast" is not "gpt-5-mini". The gateway asks for the model that the server
    reports, often with a date at the end, and then for the requested one.

    Args:
        prices: The table. It is copied.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)
        for name, price in self._prices.items():
            if not isinstance(price, Price):
                raise TypeError(
                    f"The price of {name!r} must be a Price such as Price(input=0.25, output=2.0), "
                    f"not {price!r:.80}."
                )

    def cost(self, provider: str, model: str, wire: str, usage: Usage | None) -> float | None:
        """Return the cost of a reply, or None if the model or the counts are unknown."""
        tokens = billed_tokens(wire, usage)
        price = self._prices.get(f"{provider}:{model}") or self._prices.get(model)
        return None if price is None or tokens is None else price.of(tokens)


class GenaiPrices:
    """The list prices of the `genai-prices` library. Nothing is downloaded.

    The prices are those of the installed version, at the current hour if they depend on the time
    of day. Cached tokens without a list price are billed like the rest of the prompt. A model
    without a list price for the prompt or the output is unknown, even if it is free. Your own
    servers are unknown, too; use a `PriceTable`.

    The library is imported with the first object, which takes some tenths of a second.

    Raises:
        ConfigurationError: The library is not installed.
    """

    def __init__(self) -> None:
        try:
            self._library = import_module("genai_prices")
        except ImportError as error:
            raise ConfigurationError(
                "GenaiPrices needs the genai-prices library: pip install 'llm-stages[prices]'. "
                "Without it, use a PriceTable with your own prices."
            ) from error

    def cost(self, provider: str, model: str, wire: str, usage: Usage | None) -> float | None:
        """Return the cost of a reply, or None if the price or the counts are unknown."""
        tokens = billed_tokens(wire, usage)
        if tokens is None:
            return None
        counts = self._library.Usage(
            input_tokens=tokens.input + tokens.cached_input + tokens.cache_write,
            cache_read_tokens=tokens.cached_input,
            cache_write_tokens=tokens.cache_write,
            output_tokens=tokens.output,
        )
        provider_id = _LIBRARY_NAMES.get(provider, provider)
        try:
            found = self._library.calc_price(counts, model, provider_id=provider_id)
        except (LookupError, ValueError):  # unknown provider or model, or incomplete prices
            return None
        listed = found.model_price.input_mtok, found.model_price.output_mtok
        return None if None in listed else float(found.total_price)
