"""Text and JSON that arrive in pieces.

`GrowingText` collects the pieces of a block. `partial_json` reads incomplete JSON, for display
only, never for execution. This module knows no replies and no tools. `events.py` and
`reply_builder.py` use it.
"""

from typing import Any


class GrowingText:
    """A text that only grows, so every earlier text is a prefix of the current one.

    Attributes:
        length: The number of characters.
    """

    def __init__(self) -> None:
        self.length = 0
        self._pieces: list[str] = []

    def append(self, piece: str) -> None:
        """Add a piece."""
        self._pieces.append(piece)
        self.length += len(piece)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


def partial_json(text: str) -> Any:
    """Return the readable part of incomplete JSON, or None if the text does not begin as JSON.

    Strings are read up to their last complete character. Incomplete numbers, literals and keys are
    left out. The last of two equal keys counts.
    """
    from pydantic_core import from_json  # slow to import, and rarely used

    try:
        text = join_surrogates(text)
        return from_json(text, allow_partial="trailing-strings", allow_inf_nan=False)
    except (ValueError, TypeError):  # TypeError: half a surrogate pair
        return None


def join_surrogates(text: str) -> str:
    """Join surrogate pairs from servers that split text by its UTF-16 code units."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text
