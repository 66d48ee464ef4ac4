"""Format names for a sentence, and find the nearest known name.

A name may be any text that a model wrote as a key: long, with control characters, or with half a
surrogate pair. This module knows no schemas. Used wherever a sentence contains a name, and by
stage 3.
"""

import re
from collections.abc import Collection, Iterable
from itertools import islice

MOST_LISTED = 10
"""Maximum number of names in one list."""

_LONGEST_NAME = 40
_LONGEST_STEP = 80
# Comparing two names is slow, and the list of known names may be a dictionary.
_MOST_KNOWN, _MOST_COMPARED, _MOST_LETTERS = 10_000, 300, 64
# Required similarity of two names: in general, of short names or a prefix, of near duplicates.
_NEAR, _NEAR_IF_SHORT, _CLOSE = 0.7, 0.6, 0.8
_FEW_LETTERS, _FEW_WORDS = 4, 2


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name with the most similar spelling, or None if no name is similar.

    The comparison ignores case. If no spelling is close, the only name that has all words of this
    one, or no other words, is returned: `input_date` and `date`, `seats` and `number_of_seats`. The
    time is bounded: not all of very many or very long names are compared.

    Args:
        name: Any text.
        known: The known names, more likely ones first.
    """
    start = name[:_MOST_LETTERS].lower()
    by_start = {other[:_MOST_LETTERS].lower(): other for other in islice(known, _MOST_KNOWN)}
    if start in by_start or not any(map(str.isalpha, start)):
        return by_start.get(start) or None  # numbers have no nearest one: 2009 is not near 2019
    scores = {other: _spelling(start, other) for other in islice(by_start, _MOST_COMPARED)}
    best = max(scores, key=scores.__getitem__, default="")
    if scores.get(best, 0.0) < _CLOSE:
        same_words = [by_start[other] for other in scores if _share_words(name, by_start[other])]
        if len(same_words) == 1:
            return same_words[0]
    return by_start[best] if scores.get(best) else None


def similarity(name: str, other: str) -> float:
    """Return the similarity of two names by spelling or words, from 0 (none) to 1 (equal)."""
    score = _spelling(name[:_MOST_LETTERS].lower(), other[:_MOST_LETTERS].lower())
    return _CLOSE if score < _CLOSE and _share_words(name, other) else score


def _spelling(name: str, other: str) -> float:
    import difflib  # slow to import

    matcher = difflib.SequenceMatcher(None, other, name, autojunk=False)
    if matcher.quick_ratio() < _NEAR_IF_SHORT:
        return 0.0  # an upper bound of the ratio, which takes far longer
    ratio = matcher.ratio()
    is_prefix = name.startswith(other) or other.startswith(name)
    is_short = max(len(name), len(other)) <= _FEW_LETTERS
    return ratio if ratio >= (_NEAR_IF_SHORT if is_prefix or is_short else _NEAR) else 0.0


def _share_words(name: str, other: str) -> bool:
    """Whether one of two names has all words of the other."""
    words, other_words = _words(name), _words(other)
    return bool(words and other_words) and (words <= other_words or words >= other_words)


def _words(name: str) -> set[str]:
    """Return the words of a name in any usual style; longer names drop single letters."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name[:_MOST_LETTERS])
    words = {word for word in re.split(r"[\W_]+", spaced.lower()) if word}
    return words if len(words) <= _FEW_WORDS else {word for word in words if len(word) > 1}


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


def pointer_order(pointer: str) -> list[tuple[bool, int, str]]:
    """Return a sort key for JSON pointers that orders array indexes by number: 2 before 10."""
    steps = pointer.split("/")
    return [
        (not step.isdecimal(), int(step[:9]) if step.isdecimal() else 0, step) for step in steps
    ]
