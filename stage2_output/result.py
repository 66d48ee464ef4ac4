"""`ParseResult`: what became of a text. Knows nothing of how it was read or what the model is told
of it.
"""

from dataclasses import dataclass, field
from typing import Any

from stage2_output.extraction.candidates import Extraction
from stage2_output.validation.issues import Issue


@dataclass(frozen=True, slots=True)
class ParseResult:
    """What became of a text.

    Attributes:
        success: Whether `data` can be used.
        data: The value, if it was found, is complete and fits; else None.
        errors: Everything that is wrong; empty on success.
        raw: The text itself.
        extraction: Where the value was found and what was mended; None if there was none.
        coerced: What `coerce=True` changed, each with its place.
        attempts: How many replies were asked for; 0 if the text was given.
        usage: What the replies used together, in the terms of the chat that was asked; None if it
            did not say.
    """

    success: bool
    data: Any
    errors: tuple[Issue, ...]
    raw: str = field(repr=False)
    extraction: Extraction | None = None
    coerced: tuple[str, ...] = ()
    attempts: int = 0
    usage: Any = None
