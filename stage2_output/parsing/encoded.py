r"""Read JSON that was written as a string: with escaped quotes, inside quotes or without them.

    "{\"a\": 1}"   and   {\"a\": 1}

One layer of escapes is removed. The inner JSON must be valid. Used by `extraction/candidates.py`.
"""

import json
import re
from contextlib import suppress

from stage2_output.parsing.errors import Repaired, Unrepairable
from stage2_output.parsing.strict import TooDeep, read_strictly
from stage2_output.parsing.whitespace import match_end
from stage2_output.result import Repair

BEGINS_ESCAPED = re.compile(r'[{\[](?:\s|\\[nrt])*+\\"')
_FIRST_SLICE = 2048
_UNQUOTED = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SURROGATE_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_CHARACTER = re.compile(rf"{_SURROGATE_PAIR}|\\u[0-9a-fA-F]{{4}}|\\.|[^\\]++", re.DOTALL)


def read_encoded(content: str, start: int, end: int) -> Repaired | None:
    """Read the object or array that a JSON string contains.

    Args:
        content: The value of the string.
        start: Index of its opening quote in the text.
        end: Index behind its closing quote.

    Returns:
        The object or array, or None if the string does not contain exactly one.
    """
    inner = content.strip()
    if inner.startswith(("{", "[")):
        with suppress(TooDeep):
            found = read_strictly(inner, 0)
            if found is not None and found[1] == len(inner):
                return Repaired(found[0], end, (Repair("double_encoded", start),))
    return None


def read_escaped(text: str, start: int, end: int) -> Repaired:
    """Read the object or array with escaped quotes at an index.

    Small slices are tried first, because the text behind the value may be long.

    Raises:
        Unrepairable: The value is invalid.
        TooDeep: The value is nested too deeply.
    """
    size = _FIRST_SLICE
    while start + size < end:
        with suppress(Unrepairable):
            return _read_slice(text, start, start + size)
        size *= 8
    return _read_slice(text, start, end)


def _read_slice(text: str, start: int, end: int) -> Repaired:
    escaped = text[start : match_end(_UNQUOTED, text, start, end)]
    try:
        inner = json.loads(f'"{escaped}"', strict=False)
    except ValueError:
        raise Unrepairable("has invalid escapes", start) from None
    found = read_strictly(inner, 0)
    if found is None:
        raise Unrepairable("has escaped quotes and is not valid", start)
    stop = start + _escaped_length(escaped, found[1])
    return Repaired(found[0], stop, (Repair("escaped_json", start),))


def _escaped_length(escaped: str, count: int) -> int:
    """Return the length of the escaped form of the first `count` characters."""
    for step in _CHARACTER.finditer(escaped):
        is_plain = step[0][0] != "\\"
        size = len(step[0]) if is_plain else 1
        if count <= size:
            return step.start() + count if is_plain else step.end()
        count -= size
    return len(escaped)
