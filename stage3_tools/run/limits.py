"""What a run may use: time, tokens, money. At a limit a run ends with a status, not with an
exception.

Tokens and money are looked at after each reply of the model, because only then they are known: no
further tool is begun, and no further request is made. Time is watched all along (`stopping.py`).
Knows no loop.
"""

from dataclasses import dataclass

from stage0_gateway import Usage


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The most a run may use; None is no limit.

    Attributes:
        seconds: From the question to the reply, waiting for approvals included.
        tokens: Of all requests and replies together, as servers report them; what is not reported
            is not counted.
        cost: US dollars; a model without a known price costs nothing here.

    Raises:
        ValueError: A limit is not above 0.
    """

    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "tokens", "cost"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"The limit of {name} is {value!r}; it must be above 0, or None.")

    def reached(self, usage: Usage, cost: float | None) -> str | None:
        """Which limit was reached, in a sentence; or None."""
        used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        if self.tokens is not None and used >= self.tokens:
            return f"The limit of {self.tokens} tokens for this run was reached: {used} were used."
        if self.cost is not None and (cost or 0.0) >= self.cost:
            return (
                f"The limit of {self.cost:g} dollars for this run was reached: {cost:g} were spent."
            )
        return None
