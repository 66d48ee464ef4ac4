"""Which number of a question belongs to which parameter, and whether a yes or a no was said.

A number belongs to the parameter whose words stand next to it: "3 days" to `days`, "base = 10" to `base`.
Knows no schemas but the range of a number. Used by `filling.py`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stage0_gateway.offline.pieces import Piece, Sheet
from stage0_gateway.offline.wanted import Wanted
from stage0_gateway.offline.words import meaning, words_of

_NEAR = 40  # characters on each side in which a word explains a number
_NO = re.compile(r"(?i)\b(?:not|no|don't|dont|without|disabled?|off|never|exclude|excluding|false)\b|不")


def hinted_numbers(wants: Sequence[Wanted], sheet: Sheet) -> dict[str, Piece]:
    """The number each parameter is named next to; a number is given once, to the nearest.

    Args:
        wants: The parameters that take a number.
        sheet: The question.
    """
    numbers = sheet.free("number")[:64]
    pairs = [
        (distance, piece.start, want.name, piece)
        for piece in numbers
        for want, distance in _explained(piece, wants, sheet.text)
    ]
    found: dict[str, Piece] = {}
    given: set[int] = set()
    for _, start, name, piece in sorted(pairs, key=lambda pair: pair[:3]):
        if name not in found and start not in given:
            found[name] = piece
            given.add(start)
    return found


def fits_range(number: int | float, schema: Mapping[str, Any], whole: bool) -> bool:
    """Whether a number keeps to the schema's type, `minimum` and `maximum`."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if whole and not isinstance(number, int):
        return False
    return not (isinstance(low, int | float) and number < low) and not (
        isinstance(high, int | float) and number > high
    )


def bool_for(want: Wanted, text: str) -> bool | None:
    """Whether the text says yes or no to a parameter; None where an optional one is not spoken of."""
    own = set(want.words[: want.own])
    said = [match for match in re.finditer(r"[^\W_]{1,40}", text) if meaning(match[0]) in own]
    if said:
        return not _NO.search(text[max(0, said[0].start() - 20) : said[0].start()])
    return not _NO.search(text) if want.required else None


def _explained(piece: Piece, wants: Sequence[Wanted], text: str) -> Iterator[tuple[Wanted, int]]:
    before = text[max(0, piece.start - _NEAR) : piece.start]
    before = re.split(r"[.;?!,]\s|\d", before)[-1]
    after = re.split(r"[.;?!,]|\d", text[piece.end : piece.end + _NEAR])[0]
    for want in wants:
        if re.search(rf"(?i)(?<!\w){re.escape(want.name[:60])}\s?(?:=|:|is|of|to|as)?\s?$", before):
            yield want, 0
        elif (distance := _distance(want, before, after)) is not None:
            yield want, distance


def _distance(want: Wanted, before: str, after: str) -> int | None:
    """How many words lie between the number and a word of the parameter; its own name is nearer."""
    left, right = words_of(before)[::-1], words_of(after)
    best: int | None = None
    for rank, words in enumerate((want.words[: want.own], want.words[want.own :])):
        for side, said in enumerate((right[:2], left[:4])):
            for at, word in enumerate(said):
                if word in words:
                    here = 1 + at * 2 + side + rank * 3
                    best = here if best is None else min(best, here)
    return best
