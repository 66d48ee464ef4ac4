"""Names in words for a model: cleaned, shortened, counted, and the nearest of those there are.

A name may be anything a model wrote as a key: a page of text, control characters, half a surrogate pair that
no server would take. Knows no schemas; used wherever a name is put into a sentence, and by stage 3.
"""

from collections.abc import Collection, Iterable
from itertools import islice

MOST_SHOWN = 10
"""Names in one list; more would not be read."""

_LONGEST = 40
_LONGEST_STEP = 80
# Comparing two names takes far longer than looking at them, and a list of known ones may be a dictionary.
_MOST_KNOWN, _MOST_COMPARED, _MOST_READ, _MOST_LETTERS = 10_000, 300, 20, 64


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like this one, or None where none is near.

    Case does not matter. The time is bounded: of very many or very long names some are not compared.

    Args:
        name: Anything.
        known: The names there are, the likelier first.
    """
    short = name[:_MOST_LETTERS].lower()
    by_short = {each[:_MOST_LETTERS].lower(): each for each in islice(known, _MOST_KNOWN)}
    if not short or short in by_short:
        return by_short.get(short) or None
    import difflib  # when a name is wrong, which few are

    # Each way of comparing says at most what the next, dearer one says: lengths, letters, and their order.
    similar = (each for each in by_short if 10 * min(len(each), len(short)) >= 3 * (len(each) + len(short)))
    letters = difflib.SequenceMatcher(None, "", short, autojunk=False)
    scores: dict[str, float] = {}
    for each in islice(similar, _MOST_COMPARED):
        letters.set_seq1(each)
        scores[each] = letters.quick_ratio()
    best = sorted(scores, key=scores.__getitem__, reverse=True)[:_MOST_READ]
    near = difflib.get_close_matches(short, best, n=1, cutoff=0.6)
    return by_short[near[0]] if near else None


def shown(text: str, most: int) -> str:
    """A text on one line, without what cannot be printed, and not longer than this many characters."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else " " if each.isspace() else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )


def quoted(name: str) -> str:
    """A name as it stands in a sentence."""
    return f"`{shown(name, _LONGEST).replace('`', chr(39))}`"


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
    return [(not each.isdecimal(), int(each[:9]) if each.isdecimal() else 0, each) for each in steps]
