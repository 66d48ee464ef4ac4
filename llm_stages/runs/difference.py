"""Write a sequence as the difference from the previous one, and rebuild it.

    before   a b c d          after   a c d e
    parts    [0, 1] [2, 4] e  slices of `before`, and new items

Pure; `writer` writes the parts and `reader` reads them. `page/view` writes them into a page.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

Part = str | list[int]
"""A new item, or the start and the end of a slice of the previous sequence."""


def difference(before: Sequence[T], after: Iterable[T]) -> list[T | list[int]]:
    """Return the parts of a sequence: slices [start, end] of the previous one, and new items."""
    positions = {item: position for position, item in reversed([*enumerate(before)])}
    parts: list[T | list[int]] = []
    end = 0  # of the newest slice
    for item in after:
        position = end if end < len(before) and before[end] == item else positions.get(item)
        if position is None:
            parts.append(item)
        elif parts and isinstance(parts[-1], list) and position == parts[-1][1]:
            parts[-1][1] = end = position + 1
        else:
            end = position + 1
            parts.append([position, end])
    return parts


def rebuild(
    before: Sequence[str], parts: Iterable[Part]
) -> tuple[list[str], tuple[int, ...], tuple[int, ...]]:
    """Return the sequence with these parts, the indexes of its new items, and of the removed ones.

    Raises:
        ValueError: A slice is outside of the previous sequence.
    """
    after: list[str] = []
    added: list[int] = []
    kept: set[int] = set()
    for part in parts:
        if isinstance(part, str):
            added.append(len(after))
            after.append(part)
            continue
        start, end = part
        if not 0 <= start < end <= len(before):
            raise ValueError(f"the previous request has no messages {start} to {end}")
        after += before[start:end]
        kept.update(range(start, end))
    removed = tuple(index for index in range(len(before)) if index not in kept)
    return after, tuple(added), removed
