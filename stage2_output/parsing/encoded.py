r"""JSON that was written as a string: with escaped quotes, in quotes or without.

    "{\"a\": 1}"   and   {\"a\": 1}

One layer of escapes is removed. The JSON inside must be valid. Used by `candidates.py`.
"""

import json
import re
from contextlib import suppress

from stage2_output.parsing.errors import Damaged, Mended, Repair
from stage2_output.parsing.strict import TooDeep, read_strictly

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
    plain = json.loads(written).strip()
    if not plain.startswith(("{", "[")):
        return None
    with suppress(TooDeep):
        found = read_strictly(plain, 0)
        if found is not None and found[1] == len(plain):
            repairs = (Repair("double_encoded", start),)
            return Mended(found[0], start + len(written), repairs, complete=True, fragile=False)
    return None


def read_escaped(text: str, start: int, end: int) -> Mended:
    """Read the object or list with escaped quotes that begins at a place.

    Small slices are tried first: the text behind the value may be long, and hold many more such
    values.

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
    found = read_strictly(plain, 0)
    if found is None:
        raise Damaged("has escaped quotes and is not valid", start)
    stop = start + _escaped_length(run[0], found[1])
    return Mended(found[0], stop, (Repair("escaped_json", start),), complete=True, fragile=False)


def _escaped_length(escaped: str, count: int) -> int:
    """The number of characters that the first `count` characters of an escaped text are written
    with.
    """
    for step in _STEP.finditer(escaped):
        is_plain = step[0][0] != "\\"
        size = len(step[0]) if is_plain else 1
        if count <= size:
            return step.start() + count if is_plain else step.end()
        count -= size
    return len(escaped)
