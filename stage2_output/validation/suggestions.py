"""Names in words for a model: cleaned, shortened, counted, and the nearest of those there are.

A name may be anything a model wrote as a key: a page of text, control characters, half a surrogate
pair that no server would take. Knows no schemas; used wherever a name is put into a sentence, and
by stage 3.
"""

import re
from collections.abc import Collection, Iterable
from itertools import islice

MOST_SHOWN = 10
"""Names in one list; more would not be read."""

_LONGEST = 40
_LONGEST_STEP = 80
# Comparing two names takes far longer than looking at them, and a list of known ones may be a
# dictionary.
_MOST_KNOWN, _MOST_COMPARED, _MOST_LETTERS = 10_000, 300, 64
# How like each other names must be: any; short ones, or where one begins the other; to be hardly
# another one.
_NEAR, _NEAR_IF_SHORT, _CLOSE = 0.7, 0.6, 0.8
_FEW_LETTERS, _FEW_WORDS = 4, 2


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like this one, or None where none is near.

    Case does not matter. Where no spelling is close, the only one that has all of this one's words,
    or has no others, is near: `input_date` and `date`, `seats` and `number_of_seats`. The time is
    bounded: of very many or very long names some are not compared.

    Args:
        name: Anything.
        known: The names there are, the likelier first.
    """
    short = name[:_MOST_LETTERS].lower()
    by_short = {each[:_MOST_LETTERS].lower(): each for each in islice(known, _MOST_KNOWN)}
    if short in by_short or not any(map(str.isalpha, short)):
        return by_short.get(short) or None  # of numbers none is near: 2009 is not meant for 2019
    scores = {each: _spelled_alike(short, each) for each in islice(by_short, _MOST_COMPARED)}
    near = max(scores, key=scores.__getitem__, default="")
    most = scores.get(near, 0.0)
    if most < _CLOSE:
        same = [by_short[each] for each in scores if _has_the_words_of(name, by_short[each])]
        if len(same) == 1:
            return same[0]
    return by_short[near] if most else None


def likeness(name: str, other: str) -> float:
    """How near two names are, between 0 and 1, by their spelling or their words; 0 where they are
    not.
    """
    alike = _spelled_alike(name[:_MOST_LETTERS].lower(), other[:_MOST_LETTERS].lower())
    return _CLOSE if alike < _CLOSE and _has_the_words_of(name, other) else alike


def _spelled_alike(short: str, other: str) -> float:
    import difflib  # at the first unknown name

    letters = difflib.SequenceMatcher(None, other, short, autojunk=False)
    if letters.quick_ratio() < _NEAR_IF_SHORT:
        return 0.0  # an upper bound of the ratio, which takes far longer
    alike = letters.ratio()
    begun = short.startswith(other) or other.startswith(short)
    few = max(len(short), len(other)) <= _FEW_LETTERS
    return alike if alike >= (_NEAR_IF_SHORT if begun or few else _NEAR) else 0.0


def _has_the_words_of(name: str, other: str) -> bool:
    """Whether one of the names has all the words of the other."""
    ours, theirs = _words(name), _words(other)
    return bool(ours and theirs) and (ours <= theirs or ours >= theirs)


def _words(name: str) -> set[str]:
    """The words of a name in any of the usual styles; in a longer one a single letter is none."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name[:_MOST_LETTERS])
    words = {word for word in re.split(r"[\W_]+", spaced.lower()) if word}
    return words if len(words) <= _FEW_WORDS else {word for word in words if len(word) > 1}


def shown(text: str, most: int) -> str:
    """A text on one line, without what cannot be printed, and not longer than this many
    characters.
    """
    text = text if len(text) <= most else text[: most - 1] + "…"
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else " " if each.isspace() else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )


def quoted(name: str, most: int = _LONGEST) -> str:
    """A name as it stands in a sentence, cut after this many characters."""
    return f"`{shown(name, most).replace('`', chr(39))}`"


def listed(names: Collection[str]) -> str:
    """Several names as they stand in a sentence; many are counted."""
    some = ", ".join(map(quoted, islice(names, MOST_SHOWN)))
    return some if len(names) <= MOST_SHOWN else f"{some} and {len(names) - MOST_SHOWN} more"


def step(name: str | int) -> str:
    """One step of a JSON pointer; a name that is longer than any sensible one is cut."""
    return "/" + str(name)[:_LONGEST_STEP].replace("~", "~0").replace("/", "~1")


def order(pointer: str) -> list[tuple[bool, int, str]]:
    """Sorts pointers as their places stand in a list: 2 before 10."""
    steps = pointer.split("/")
    return [
        (not each.isdecimal(), int(each[:9]) if each.isdecimal() else 0, each) for each in steps
    ]
