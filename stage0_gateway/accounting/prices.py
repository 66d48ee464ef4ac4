"""What a reply cost: the server's raw token counts, sorted by what is paid for them, times a price.

The same name covers different tokens in each wire format; only this file knows how they differ. It
knows no price by heart: a `PriceTable` holds the caller's, `GenaiPrices` asks a library. Both are a
`Prices`, which the gateway takes as `prices=…`.

A cost is None where it is not known, never zero. The gateway asks after a reply has arrived, and a
reply must not be lost over its price: `cost` does not raise.

Covered: prompt tokens read afresh, read from a cache and written into one; what the model wrote and
thought.

Not covered: fees for searches and other tools on the server, the prompt tokens of Gemini's own
tools, audio and images at prices of their own, a cache kept longer than usual, discounts for
batches and slower service. A server that speaks a format and means other tokens by its names (xAI
leaves the thinking out of the output) is found out only where its numbers contradict each other.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from importlib import import_module

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.usage import Usage

MOST_TOKENS = 10**12
"""No reply counts more; a server that says so is not believed."""

_DATE = re.compile(r"-20[0-9]{2}(?:-[0-9]{2}-[0-9]{2}|[0-9]{4})\Z")


@dataclass(frozen=True, slots=True)
class BilledTokens:
    """The tokens of one reply by what is paid for them; none is counted twice.

    Attributes:
        input: Prompt tokens that were read afresh.
        cached_input: Prompt tokens that were read from the cache.
        cache_write: Prompt tokens that were written into the cache.
        output: Tokens the model wrote, its thinking included.
    """

    input: int
    cached_input: int
    cache_write: int
    output: int


def billed_tokens(wire: str, usage: Usage | None) -> BilledTokens | None:
    """Sort a server's raw numbers, or None where they do not tell what is billed.

    That is so where the prompt or the output was not counted, and where numbers are absurd: below
    zero, or parts that are more than the whole. A cache that is not spoken of was not used.

    Args:
        wire: The wire format: "openai", "anthropic" or "gemini"; nothing is known of any other.
        usage: The server's numbers.
    """
    if usage is None or not all(_believable(count) for count in astuple(usage)):
        return None
    output = _output(wire, usage)
    if usage.input_tokens is None or output is None:
        return None
    cached, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
    fresh = usage.input_tokens
    if wire != "anthropic":
        fresh -= cached + written
    return BilledTokens(fresh, cached, written, output) if fresh >= 0 else None


def _believable(count: int | None) -> bool:
    return count is None or 0 <= count <= MOST_TOKENS


def _output(wire: str, usage: Usage) -> int | None:
    written, thought = usage.output_tokens, usage.reasoning_tokens
    if wire == "gemini":
        # Thoughts stand beside the output. It leaves zeros out: thoughts alone are a reply cut
        # while thinking.
        return None if written is None and thought is None else (written or 0) + (thought or 0)
    if wire not in ("openai", "anthropic") or written is None or (thought or 0) > written:
        return None
    return written


@dataclass(frozen=True, slots=True)
class Price:
    """What one model costs, in US dollars per million tokens.

    Attributes:
        input: For the prompt.
        output: For what the model writes, its thinking included.
        cached_input: For what is read from the cache. Not given: it is billed like the rest of the
            prompt, which nearly everywhere is too much.
        cache_write: For what is written into the cache. Not given: a reply that wrote there has no
            known cost, because some servers ask more for it than for the rest of the prompt.

    Raises:
        ConfigurationError: A price is below zero, or no number.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        if not all(each is None or (math.isfinite(each) and each >= 0) for each in astuple(self)):
            raise ConfigurationError(
                f"{self} is no price. Give US dollars per million tokens, 0 or more."
            )

    def of(self, tokens: BilledTokens) -> float | None:
        """US dollars for these tokens, or None where they include some whose price is not given."""
        if tokens.cache_write and self.cache_write is None:
            return None
        cached_input = self.input if self.cached_input is None else self.cached_input
        dollars = tokens.input * self.input + tokens.output * self.output
        dollars += tokens.cached_input * cached_input + tokens.cache_write * (self.cache_write or 0)
        return dollars / 1_000_000


class PriceTable:
    """Prices by name: `PriceTable({"openai:gpt-5-mini": Price(0.25, 2.0, cached_input=0.025)})`.

    A name is "provider:model", or the model alone, which holds at every provider. Of the names a
    model could stand under, the first that is in the table counts:

    1. "provider:model"
    2. "model"
    3. 1. and 2. again, without a date at the end ("-2025-08-07", "-20250807")

    Nothing else is guessed: "gpt-5-mini-fast" is not "gpt-5-mini".

    Args:
        prices: The table; a later change to it changes nothing here.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)

    def cost(self, provider: str, model: str, wire: str, usage: Usage | None) -> float | None:
        """US dollars for a reply; None where the model is not in the table, or the counts do not
        tell.
        """
        tokens = billed_tokens(wire, usage)
        found = (self._prices[name] for name in _names(provider, model) if name in self._prices)
        price = next(found, None)
        return None if price is None or tokens is None else price.of(tokens)


def _names(provider: str, model: str) -> Iterator[str]:
    for each in (model, _DATE.sub("", model)):
        yield f"{provider}:{each}"
        yield each


class GenaiPrices:
    """The list prices that come with the `genai-prices` library; nothing is fetched.

    They are as old as the installed version, and those of the present hour where a provider's
    prices change with the time of day. Cached tokens for which it lists no price are billed like
    the rest of the prompt. A model for which it lists no price for the prompt or the output is
    unknown, even if it is free. Servers of your own are unknown too; give them a `PriceTable`.

    The library is loaded when the first object is made, some tenths of a second, rather than by the
    first reply.

    Raises:
        ConfigurationError: The library is not installed.
    """

    def __init__(self) -> None:
        try:
            self._library = import_module("genai_prices")
        except ImportError as error:
            raise ConfigurationError(
                "GenaiPrices needs the genai-prices library: pip install 'llm-stages[prices]'. "
                "Without it, PriceTable takes prices of your own."
            ) from error

    def cost(self, provider: str, model: str, wire: str, usage: Usage | None) -> float | None:
        """US dollars for a reply; None where the library has no price, or the counts do not
        tell.
        """
        tokens = billed_tokens(wire, usage)
        if tokens is None:
            return None
        counts = self._library.Usage(
            input_tokens=tokens.input + tokens.cached_input + tokens.cache_write,
            cache_read_tokens=tokens.cached_input,
            cache_write_tokens=tokens.cache_write,
            output_tokens=tokens.output,
        )
        try:
            found = self._library.calc_price(
                counts, model, provider_id="google" if provider == "gemini" else provider
            )
        except (
            LookupError,
            ValueError,
        ):  # an unknown provider or model, or prices it cannot add up
            return None
        listed = found.model_price.input_mtok, found.model_price.output_mtok
        return None if None in listed else float(found.total_price)
