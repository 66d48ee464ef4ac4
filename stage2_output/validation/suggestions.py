"""Format names for a sentence, and find the nearest known name.

A name may be any text that a model wrote as a key: long, with control characters, or with half a
surrogate pair. This module knows no schemas. Used wherever a sentence contains a name, and by
stage 3.
"""

from collections.abc import Collection, Iterable
from itertools import islice

MOST_LISTED = 10
"""Maximum number of names in one list."""

_LONGEST_NAME = 40
_LONGEST_STEP = 80
# Comparing two names is slow, and the list of known names may be a dictionary.
_MOST_KNOWN, _MOST_COMPARED, _MOST_LETTERS = 10_000, 300, 64
# Required similarity; with less, "water" would be near "date". In short names it is low.
_SIMILAR, _SIMILAR_IF_SHORT, _FEW_LETTERS = 0.7, 0.6, 4


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name with the most similar spelling, or None if no name is similar.

    The comparison ignores case. If no spelling is similar, the only name that has more or fewer
    words is returned: `date` for `input_date`. The time is bounded: not all of very many or very
    long names are compared.

    Args:
        name: Any text.
        known: The known names, more likely ones first.
    """
    from difflib import get_close_matches  # slow to import

    start = name[:_MOST_LETTERS].lower()
    by_start = {other[:_MOST_LETTERS].lower(): other for other in islice(known, _MOST_KNOWN)}
    if start in by_start or not any(map(str.isalpha, start)):
        return by_start.get(start) or None  # numbers have no nearest one: 2009 is not near 2019
    similar = _SIMILAR if len(start) > _FEW_LETTERS else _SIMILAR_IF_SHORT
    if close := get_close_matches(start, islice(by_start, _MOST_COMPARED), n=1, cutoff=similar):
        return by_start[close[0]]
    longer_or_shorter = [
        known
        for other, known in by_start.items()
        if f"_{other}_" in f"_{start}_" or f"_{start}_" in f"_{other}_"
    ]
    return longer_or_shorter[0] if len(longer_or_shorter) == 1 else None


def printable(text: str, most: int) -> str:
    """Return a text on one line, without unprintable characters, cut to `most` characters."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() else " " if mark.isspace() else "\N{REPLACEMENT CHARACTER}"
        for mark in text
    )


def quoted(name: str, most: int = _LONGEST_NAME) -> str:
    """Return a name in backticks, cut to `most` characters."""
    return f"`{printable(name, most).replace('`', chr(39))}`"


def listed(names: Collection[str]) -> str:
    """Return a list of quoted names; names beyond `MOST_LISTED` are counted."""
    first = ", ".join(map(quoted, islice(names, MOST_LISTED)))
    return first if len(names) <= MOST_LISTED else f"{first} and {len(names) - MOST_LISTED} more"


def pointer_step(name: str | int) -> str:
    """Return one step of a JSON pointer; very long names are cut."""
    return "/" + str(name)[:_LONGEST_STEP].replace("~", "~0").replace("/", "~1")
