"""Write a sequence as the difference from the previous one, and rebuild it.

    before   a b c d          after   a c d e
    parts    [0, 1] [2, 4] e  slices of `before`, and new items

Pure; `recorder` writes the parts and `reader` reads them.
"""

from collections.abc import Iterable, Sequence

Part = str | list[int]
"""A new item, or the start and the end of a slice of the previous sequence."""


def difference(before: Sequence[str], after: Iterable[str]) -> list[Part]:
    """Return the parts of a sequence."""
    positions = {item: position for position, item in reversed([*enumerate(before)])}
    parts: list[Part] = []
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


def rebuild(before: Sequence[str], parts: Iterable[Part]) -> list[str]:
    """Return the sequence with these parts.

    Raises:
        ValueError: A slice is outside of the previous sequence.
    """
    after: list[str] = []
    for part in parts:
        if isinstance(part, str):
            after.append(part)
            continue
        start, end = part
        if not 0 <= start < end <= len(before):
            raise ValueError(f"The previous request has no messages {start} to {end}.")
        after += before[start:end]
    return after
