"""Text and JSON that arrive in pieces.

`GrowingText` collects the pieces of a block, and `partial_json` reads JSON that is not complete
yet: for display, never for execution. Knows nothing of replies or tools. Used by `stream_events.py`
and `draft.py`.
"""

from typing import Any


class GrowingText:
    """A text that only grows, so its first characters at any time are a part of it at any later
    time.

    Attributes:
        length: The number of characters so far.
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
    """Read as much as possible of JSON whose end is missing; None if the text is not the beginning
    of JSON.

    Strings are read up to their last complete character. Incomplete numbers, literals and keys are
    left out. Of two equal keys, the last one counts.
    """
    from pydantic_core import from_json  # slow to import, and many programs never read partial JSON

    try:
        return from_json(
            join_surrogates(text), allow_partial="trailing-strings", allow_inf_nan=False
        )
    except (ValueError, TypeError):  # TypeError: half a surrogate pair
        return None


def join_surrogates(text: str) -> str:
    """Join characters that arrived as two halves, from servers that cut text by its UTF-16 code
    units.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text
