"""Keep secrets out of texts, files and tracebacks.

Servers repeat keys in what they answer, escaped for JSON, a URL or HTML, and sometimes cut. Knows
only texts; used wherever a server's words end up in an error, a reply's metadata or a recording.

Covered: a secret as it is, with backslashes before punctuation, as JSON (also JSON within JSON), a
URL, HTML or a string literal would write it; the first characters of a long secret whose rest is
cut off or masked. Not covered: encodings that change every character (base64, hex); an end or a
middle of a secret; secrets of under four characters, because hiding them would make texts
unreadable.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

HIDDEN = "[hidden]"
_SHORTEST = 4
_LONG, _BEGINNING = (
    16,
    8,
)  # of a secret this long, this many of its first characters are hidden, too
_REST = rb"[\w.~+/=%&#;\\-]*"  # what belongs to the same word
_NAMED = {"&": b"amp", "<": b"lt", ">": b"gt", '"': b"quot", "'": b"apos"}
_SHORT_ESCAPES = {"\b": b"b", "\f": b"f", "\n": b"n", "\r": b"r", "\t": b"t"}
_BACKSLASHES = rb"\\\\{0,7}"  # one, and what escaping it up to three times makes of it


class Secret(str):
    """A text whose repr hides it: tools that show a traceback's variables show their reprs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"


def redact(text: str, secrets: Collection[str]) -> str:
    """Replace every secret in the text, in any of its spellings.

    Args:
        text: Any text.
        secrets: Keys and passwords; those of under four characters are ignored.
    """
    if not _may_contain_any(text, secrets):
        return text
    whole = text.encode("utf-8", "surrogatepass")
    spans = _spans(whole, secrets)
    return _hidden(whole, spans).decode("utf-8", "surrogatepass") if spans else text


def redact_chunks(chunks: Sequence[bytes], secrets: Iterable[str]) -> list[bytes]:
    """Replace every secret in a body; one that spans several chunks is replaced in the first of
    them.

    Args:
        chunks: The pieces of one body, in order.
        secrets: The texts to hide.

    Returns:
        The same number of chunks.
    """
    whole = b"".join(chunks)
    spans = _spans(whole, secrets)
    if not spans:
        return list(chunks)
    hidden = _hidden(whole, spans)
    starts = [start for start, _ in spans]
    shifts = list(accumulate((len(HIDDEN) - (stop - start) for start, stop in spans), initial=0))

    def moved(boundary: int) -> int:
        before = bisect_left(starts, boundary)
        if before:
            boundary = max(
                boundary, spans[before - 1][1]
            )  # inside a secret: now behind what stands for it
        return boundary + shifts[before]

    boundaries = [moved(at) for at in accumulate(map(len, chunks), initial=0)]
    return [hidden[start:stop] for start, stop in pairwise(boundaries)]


def _may_contain_any(text: str, secrets: Collection[str]) -> bool:
    """Whether a text may contain a secret. A quick check, because every event of a stream is
    checked.

    All spellings but the plain one contain a backslash, a percent sign, an ampersand or a plus
    sign.
    """
    if "\\" in text or "%" in text or "&" in text or "+" in text:
        return True
    return any(secret[:_BEGINNING] in text for secret in secrets)


def _hidden(whole: bytes, spans: list[tuple[int, int]]) -> bytes:
    hidden, end = bytearray(), 0
    for start, stop in spans:
        hidden += whole[end:start] + HIDDEN.encode()
        end = stop
    return bytes(hidden + whole[end:])


def _spans(whole: bytes, secrets: Iterable[str]) -> list[tuple[int, int]]:
    """The positions of secrets, in order; secrets that overlap have one."""
    found: list[tuple[int, int]] = []
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            found += [match.span() for match in _pattern(secret).finditer(whole)]
        if len(secret) >= _LONG:
            found += [
                match.span() for match in _pattern(secret[:_BEGINNING], _REST).finditer(whole)
            ]
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


@lru_cache(maxsize=64)
def _pattern(secret: str, rest: bytes = b"") -> re.Pattern[bytes]:
    """The secret, each of its characters in any spelling, and what may follow."""
    # Backslashes in a row are one part: taken one by one there would be 8ⁿ ways to read n of them.
    parts = re.findall(r"\\+|[^\\]", secret)
    return re.compile(
        b"".join(b"(?:%s)" % b"|".join(_spellings(part[0], len(part))) for part in parts) + rest
    )


def _spellings(character: str, times: int) -> Iterator[bytes]:
    """Patterns of one character, or of a run of backslashes; each starts with a plain byte, which
    is fast.
    """
    literal = character.encode("utf-8", "surrogatepass")
    if character == "\\":
        yield rb"\\{%d,%d}" % (times, 8 * times)
    else:
        yield re.escape(literal)
        if not character.isalnum():
            yield _BACKSLASHES + re.escape(literal)
    if character in _SHORT_ESCAPES:
        yield _BACKSLASHES + _SHORT_ESCAPES[character]
    if character == " ":
        yield rb"\+"
    for escaped in _escapes(character, literal):
        yield escaped if times == 1 else b"(?:%s){%d}" % (escaped, times)


def _escapes(character: str, literal: bytes) -> Iterator[bytes]:
    """The character as an escape sequence of string literals, URLs and HTML."""
    code, units = ord(character), character.encode("utf-16-be", "surrogatepass").hex().encode()
    yield b"".join(
        _BACKSLASHES + b"u(?i:%s)" % units[at : at + 4] for at in range(0, len(units), 4)
    )
    yield b"".join(_BACKSLASHES + b"x(?i:%02x)" % byte for byte in literal)
    yield _BACKSLASHES + (b"x(?i:%02x)" if code < 256 else b"U(?i:%08x)") % code
    yield b"".join(b"%%(?:25)*(?i:%02x)" % byte for byte in literal)
    yield b"&(?:amp;)*#(?:0*%d|(?i:x0*%x));" % (code, code)
    if character in _NAMED:
        yield b"&(?:amp;)*%b;" % _NAMED[character]
