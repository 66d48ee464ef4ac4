"""`ParseResult`: what became of a text. Knows nothing of how it was read or what the model is told of it."""

from dataclasses import dataclass, field
from typing import Any

from stage2_output.extract import Extraction
from stage2_output.issues import Issue


@dataclass(frozen=True, slots=True)
class ParseResult:
    """What became of a text.

    Attributes:
        success: Whether `data` can be used.
        data: The value, if it was found and fits; else None.
        errors: Everything that is wrong; empty on success.
        raw: The text itself.
        extraction: Where the value was found; None if there was none.
        attempts: How many replies were asked for; 0 if the text was given.
    """

    success: bool
    data: Any
    errors: tuple[Issue, ...]
    raw: str = field(repr=False)
    extraction: Extraction | None = None
    attempts: int = 0
