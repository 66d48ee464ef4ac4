r"""JSON that was written as a string: with escaped quotes, in quotes or without.

    "{\"a\": 1}"   and   {\"a\": 1}

One layer is taken off; what is inside must be valid. Used by `candidates.py`.
"""

import json
import re
from contextlib import suppress
from typing import Any

from stage2_output.damage import Damaged
from stage2_output.strict import read_strictly

BEGINS_ESCAPED = re.compile(r'[{\[](?:\s|\\[nrt])*+\\"')
_FIRST_SLICE = 2048
_RUN = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_STEP = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]++", re.DOTALL)


def inside_of(value: Any) -> Any:
    """The object or list that a string holds as JSON; None if it holds none."""
    text = value.strip() if isinstance(value, str) else ""
    found = read_strictly(text, 0) if text.startswith(("{", "[")) else None
    return found[0] if found is not None and found[1] == len(text) else None


def read_escaped(text: str, start: int, end: int) -> tuple[Any, int]:
    """Read the object or list with escaped quotes that begins at a place; return it and where it ends.

    Small slices are tried first: the text behind the value may be long, and hold many more such values.

    Raises:
        Damaged: It is not valid.
    """
    size = _FIRST_SLICE
    while start + size < end:
        with suppress(Damaged):
            return _read_slice(text, start, start + size)
        size *= 8
    return _read_slice(text, start, end)


def _read_slice(text: str, start: int, end: int) -> tuple[Any, int]:
    run = _RUN.match(text, start, end)
    assert run  # it fits everywhere, if only nothing
    try:
        plain = json.loads(f'"{run[0]}"', strict=False)
    except ValueError:
        raise Damaged("has escapes that JSON does not know", start) from None
    found = read_strictly(plain, 0)
    if found is None:
        raise Damaged("has escaped quotes and is not valid", start)
    return found[0], _place(run[0], found[1]) + start


def _place(escaped: str, length: int) -> int:
    """Where in an escaped text its first `length` characters end."""
    at = done = 0
    for step in _STEP.finditer(escaped):
        if done >= length:
            break
        size = len(step[0]) if step[0][0] != "\\" else 1
        at = step.end() if done + size <= length else step.start() + length - done
        done += size
    return at
