"""How many tokens a request cost, in the server's own numbers.

Knows no prices, and derives nothing: where a server is silent, the number is None, not zero. Used
by every wire format, and added up by the loop of stage 3; whoever knows what a token costs is a
`Prices` (`cost.py`).
"""

from dataclasses import dataclass, fields
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as one server reported them; None = not reported.

    Attributes:
        input_tokens: Tokens of the prompt, as the server counts them.
        output_tokens: Tokens the model wrote.
        cached_input_tokens: Prompt tokens that were read from the server's cache.
        reasoning_tokens: Tokens the model spent on thinking.
        cache_write_tokens: Prompt tokens that were written into the server's cache.

    What a number covers differs: OpenAI's and Gemini's input includes what was cached, Anthropic's
    does not; Gemini's output leaves the thinking out. They are kept as they came; `cost.py` knows
    the difference.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Add two reports; a number that only one of them knows is kept as it is."""
        names = [each.name for each in fields(self)]
        return Usage(*(_add(getattr(self, name), getattr(other, name)) for name in names))


class Prices(Protocol):
    """Something that knows what tokens cost."""

    def cost(self, provider: str, model: str, wire: str, usage: Usage) -> float | None:
        """US dollars for a reply, or None where that is not known.

        Args:
            provider: The name of the provider in `models.py`.
            model: The model, as the server names it.
            wire: The wire format, which says what the numbers cover.
            usage: The server's numbers.
        """


def _add(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
