"""Halves of surrogate pairs, which a `str` or a JSON escape may contain, but no UTF-8 text.

They come from texts that were cut or decoded wrongly. Servers reject a request that contains one,
and some fail with a 500. Two matching halves become their character, and a single one becomes
U+FFFD. All functions are pure; the wire formats and `http/encode.py` use them.
"""

import re

_HIGH, _LOW, _ANY = "u[dD][89abAB]..", "u[dD][c-fC-F]..", "u[dD][89a-fA-F].."
_ESCAPE = re.compile(rf"\\(?:{_HIGH}\\{_LOW}|({_ANY})|.)", re.DOTALL)
"""An escape in JSON; group 1 is a single half."""


def with_whole_characters(text: str) -> str:
    """Return a text in which the halves of pairs are joined or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def with_whole_escapes(arguments: str) -> str:
    """Return JSON text without escapes of single halves, for servers that parse the arguments."""
    if r"\u" not in arguments:
        return arguments
    return _ESCAPE.sub(lambda escape: r"\ufffd" if escape[1] else escape[0], arguments)
