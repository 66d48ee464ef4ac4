r"""JSON that was written as a string: with escaped quotes, in quotes or without.

    "{\"a\": 1}"   and   {\"a\": 1}

One layer is taken off. The inside must be valid, except that a key may appear twice with equal values. Used by
`candidates.py`.
"""

import json
import re
from contextlib import suppress

from stage2_output.damage import Damaged, Mended, Repair
from stage2_output.strict import TooDeep, read_strictly

BEGINS_ESCAPED = re.compile(r'[{\[](?:\s|\\[nrt])*+\\"')
_FIRST_SLICE = 2048
_RUN = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_STEP = re.compile(rf"{_PAIR}|\\u[0-9a-fA-F]{{4}}|\\.|[^\\]++", re.DOTALL)


def read_encoded(written: str, start: int) -> Mended | None:
    """Read the object or list that a JSON string holds as JSON; None if it holds none.

    Args:
        written: The string with its quotes.
        start: Where it begins in its text.
    """
    plain = json.loads(written).rstrip()
    begin = len(plain) - len(plain.lstrip())
    found = None
    if plain.startswith(("{", "["), begin):
        with suppress(TooDeep):
            found = _read_valid(plain, begin)
    if found is None or found.end != len(plain):
        return None
    places = _places(written[1:-1], [each.position for each in found.repairs])
    repeated = [Repair("duplicate_key", start + 1 + place) for place in places]
    repairs = (Repair("double_encoded", start), *repeated)
    return found._replace(end=start + len(written), repairs=repairs)


def read_escaped(text: str, start: int, end: int) -> Mended:
    """Read the object or list with escaped quotes that begins at a place.

    Small slices are tried first: the text behind the value may be long, and hold many more such values.

    Raises:
        Damaged: It is not valid.
        TooDeep: It is nested too deeply.
    """
    size = _FIRST_SLICE
    while start + size < end:
        with suppress(Damaged):
            return _read_slice(text, start, start + size)
        size *= 8
    return _read_slice(text, start, end)


def _read_slice(text: str, start: int, end: int) -> Mended:
    run = _RUN.match(text, start, end)
    assert run  # it fits everywhere, if only nothing
    try:
        plain = json.loads(f'"{run[0]}"', strict=False)
    except ValueError:
        raise Damaged("has escapes that JSON does not know", start) from None
    found = _read_valid(plain, 0)
    if found is None:
        raise Damaged("has escaped quotes and is not valid", start)
    *places, stop = _places(run[0], [*(each.position for each in found.repairs), found.end])
    repeated = [Repair("duplicate_key", start + place) for place in places]
    return found._replace(end=start + stop, repairs=(Repair("escaped_json", start), *repeated))


def _read_valid(text: str, start: int) -> Mended | None:
    """Read the valid object or list at a place; its only repairs are duplicate keys with equal values.

    Raises:
        TooDeep: It is nested too deeply.
    """
    if (strict := read_strictly(text, start)) is not None:
        return Mended(*strict, repairs=(), complete=True, fragile=False)
    from stage2_output.repair import read_leniently  # its patterns take time to compile

    try:
        mended = read_leniently(text, start, len(text), {})
    except Damaged:
        return None
    return mended if {each.name for each in mended.repairs} == {"duplicate_key"} else None


def _places(escaped: str, counts: list[int]) -> list[int]:
    """Where in an escaped text its first characters end, for several ascending counts of characters."""
    places: list[int] = []
    done = 0
    for step in _STEP.finditer(escaped):
        is_plain = step[0][0] != "\\"
        size = len(step[0]) if is_plain else 1
        while len(places) < len(counts) and counts[len(places)] <= done + size:
            places.append(step.start() + counts[len(places)] - done if is_plain else step.end())
        if len(places) == len(counts):
            break
        done += size
    return places
