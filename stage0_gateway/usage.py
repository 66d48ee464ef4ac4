"""How many tokens a request cost, in the server's own numbers.

Knows nothing of prices, and derives nothing: where a server is silent, the number is None, not zero.
Used by every wire format, and added up by the loop of stage 3.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as one server reported them; None = not reported.

    Attributes:
        input_tokens: Tokens of the prompt, as the server counts them.
        output_tokens: Tokens the model wrote.
        cached_input_tokens: Prompt tokens that were read from the server's cache.
        reasoning_tokens: Tokens the model spent on thinking.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Add two reports; a number that only one of them knows is kept as it is."""
        return Usage(
            _add(self.input_tokens, other.input_tokens),
            _add(self.output_tokens, other.output_tokens),
            _add(self.cached_input_tokens, other.cached_input_tokens),
            _add(self.reasoning_tokens, other.reasoning_tokens),
        )


def _add(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
