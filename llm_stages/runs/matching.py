"""Find the lines that two texts have in common, in time proportional to their length.

`difflib` compares each line with each equal line of the other text, so it is quadratic for texts
with many equal lines. It is used for small parts only: common lines at the beginning and the end
are matched first, then lines that occur once in both texts. The rest of a large part counts as
different. Pure; `compare` and `page/comparison` use it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_SMALL = 40_000
"""The maximum product of the lengths of two parts that are compared line by line."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Adjacent lines of both texts, which are all equal or all different."""

    is_equal: bool
    left: Sequence[str]
    right: Sequence[str]


def chunks(left: Sequence[str], right: Sequence[str]) -> Iterator[Chunk]:
    """Yield the lines of two texts, in order, as equal and different chunks."""
    start = other = 0
    for first, second, size in [*_matches(left, right, True), (len(left), len(right), 0)]:
        if first > start or second > other:
            yield Chunk(False, left[start:first], right[other:second])
        start, other = first + size, second + size
        if size:
            yield Chunk(True, left[first:start], right[second:other])


def _matches(
    left: Sequence[str], right: Sequence[str], may_split: bool
) -> Iterator[tuple[int, int, int]]:
    """Yield equal parts as their start in the first text, in the second one, and their length."""
    begin, end = _common(left, right), 0
    if begin < min(len(left), len(right)):
        end = _common(left[begin:][::-1], right[begin:][::-1])
    middle, other = left[begin : len(left) - end], right[begin : len(right) - end]
    if begin:
        yield 0, 0, begin
    for first, second, size in _inner_matches(middle, other, may_split):
        yield begin + first, begin + second, size
    if end:
        yield len(left) - end, len(right) - end, end


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    pairs = enumerate(zip(left, right, strict=False))
    shorter = min(len(left), len(right))
    return next((index for index, (one, two) in pairs if one != two), shorter)


def _inner_matches(
    left: Sequence[str], right: Sequence[str], may_split: bool
) -> Iterator[tuple[int, int, int]]:
    if not (left and right):
        return
    if len(left) * len(right) <= _SMALL:
        matcher = SequenceMatcher(None, left, right, autojunk=False)
        yield from ((a, b, size) for a, b, size in matcher.get_matching_blocks() if size)
    elif may_split:
        start = other = 0
        for first, second in [*_anchors(left, right), (len(left), len(right))]:
            parts = left[start:first], right[other:second]
            for inner, outer, size in _matches(*parts, may_split=False):
                yield start + inner, other + outer, size
            if first < len(left):
                yield first, second, 1
            start, other = first + 1, second + 1


def _anchors(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of lines that occur once in both texts: the longest ordered selection.

    This is the idea of the patience diff, with the algorithm for the longest increasing sequence.
    """
    counts, others = Counter(left), Counter(right)
    places = {line: place for place, line in enumerate(right) if others[line] == 1}
    ends: list[int] = []  # the place at which the best selection of each length ends
    newest: list[int] = []  # and its last pair, as an index of `pairs`
    pairs: list[tuple[int, int, int]] = []  # positions, and the index of the pair before
    for position, line in enumerate(left):
        if counts[line] != 1 or line not in places:
            continue
        length = bisect_left(ends, places[line])
        before = newest[length - 1] if length else -1
        pairs.append((position, places[line], before))
        ends[length : length + 1] = [places[line]]
        newest[length : length + 1] = [len(pairs) - 1]
    found, index = [], newest[-1] if newest else -1
    while index >= 0:
        position, place, index = pairs[index]
        found.append((position, place))
    return found[::-1]
