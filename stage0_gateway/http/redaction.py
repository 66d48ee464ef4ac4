"""Remove secrets from texts, errors, replies and recordings.

Servers repeat keys in their replies: escaped for JSON, a URL or HTML, and sometimes truncated.
`http/`, `recording/` and the models of `offline/` use this module.

Covered: a secret as it is, with backslashes before punctuation, or escaped for JSON (also nested
JSON), a URL, HTML or a string literal. Also the first characters of a long secret whose rest is
truncated or masked. Not covered: encodings that change every character (base64, hex); the end or
the middle of a secret; secrets with fewer than four characters, because hiding them would make
texts unreadable.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from stage0_gateway.errors import GatewayError
from stage0_gateway.response import ChatResponse

HIDDEN = "[hidden]"
_SHORTEST = 4
_LONG, _PREFIX = 16, 8  # the first 8 characters of a secret of at least 16 are hidden, too
_REST = rb"[\w.~+/=%&#;\\-]*"  # the rest of the same word
_NAMED = {"&": b"amp", "<": b"lt", ">": b"gt", '"': b"quot", "'": b"apos"}
_SHORT_ESCAPES = {"\b": b"b", "\f": b"f", "\n": b"n", "\r": b"r", "\t": b"t"}
_BACKSLASHES = rb"\\\\{0,7}"  # one backslash, escaped up to three times


class Secret(str):
    """A text with a hidden repr, because error reports show the reprs of variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"


def redact(text: str, secrets: Collection[str]) -> str:
    """Replace every secret of at least four characters in a text, in any of its spellings."""
    # A fast check first, because every event of a stream is redacted. All spellings but the plain
    # one contain one of these characters.
    if not ("\\" in text or "%" in text or "&" in text or "+" in text):
        for secret in secrets:
            if secret[:_PREFIX] in text:
                break
        else:
            return text
    content, pieces, end = text.encode("utf-8", "surrogatepass"), [], 0
    for start, stop in _spans(content, secrets):
        pieces.append(content[end:start])
        end = stop
    return HIDDEN.encode().join([*pieces, content[end:]]).decode("utf-8", "surrogatepass")


def redact_error(error: GatewayError, secrets: tuple[str, ...]) -> GatewayError:
    """Remove secrets from an error and from its causes, and return the error.

    The tracebacks are removed as well: the variables of their frames contain the server's reply,
    which may repeat a key, and error reports show them.
    """
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, GatewayError):
            current.args = (redact(str(current), secrets),)
        current.__traceback__ = None
        cause = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if cause is not None and not isinstance(cause, GatewayError):
            text = f"{cause!r} {cause}"
            if redact(text, secrets) != text:  # a library's error cannot be changed
                cause = current.__cause__ = None
        current.__context__ = cause
        current = cause
    return error


_METADATA = ("raw_finish_reason", "model", "request_id", "refusal", "block_reason")


def redact_response(reply: ChatResponse, secrets: tuple[str, ...]) -> ChatResponse:
    """Remove secrets from the metadata of a reply, which appears in logs; keep the message."""
    changed: dict[str, Any] = {}
    for name in _METADATA:
        if (text := getattr(reply, name)) and (redacted := redact(text, secrets)) != text:
            changed[name] = redacted
    return replace(reply, **changed) if changed else reply


def redact_chunks(chunks: Sequence[bytes], secrets: Iterable[str]) -> list[bytes]:
    """Replace the bytes of every secret in a body by stars, also if it spans several chunks.

    Args:
        chunks: The pieces of one body, in order.
        secrets: The secrets.
    """
    content = bytearray().join(chunks)
    for start, stop in _spans(content, secrets):
        content[start:stop] = b"*" * (stop - start)
    boundaries = accumulate(map(len, chunks), initial=0)
    return [bytes(content[start:stop]) for start, stop in pairwise(boundaries)]


def _spans(content: bytes | bytearray, secrets: Iterable[str]) -> list[tuple[int, int]]:
    """Return the positions of secrets, in order; overlapping positions are merged."""
    found: list[tuple[int, int]] = []
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            found += [match.span() for match in _pattern(secret).finditer(content)]
        if len(secret) >= _LONG:
            found += [match.span() for match in _pattern(secret[:_PREFIX], _REST).finditer(content)]
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


@lru_cache(maxsize=64)
def _pattern(secret: str, rest: bytes = b"") -> re.Pattern[bytes]:
    """Return a pattern for a secret, with each of its characters in any spelling."""
    # A run of n backslashes is one part. As n parts they could be matched in 8ⁿ ways.
    parts = re.findall(r"\\+|[^\\]", secret)
    spelled = [b"(?:%s)" % b"|".join(_spellings(part[0], len(part))) for part in parts]
    return re.compile(b"".join(spelled) + rest)


def _spellings(character: str, times: int) -> Iterator[bytes]:
    """Yield patterns of a character, or of a run of backslashes.

    Each starts with a plain byte, which is fast.
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
    """Yield a character's escape sequences in string literals, URLs and HTML."""
    code, units = ord(character), character.encode("utf-16-be", "surrogatepass").hex().encode()
    halves = (units[at : at + 4] for at in range(0, len(units), 4))
    yield b"".join(_BACKSLASHES + b"u(?i:%s)" % half for half in halves)
    yield b"".join(_BACKSLASHES + b"x(?i:%02x)" % byte for byte in literal)
    yield _BACKSLASHES + (b"x(?i:%02x)" if code < 256 else b"U(?i:%08x)") % code
    yield b"".join(b"%%(?:25)*(?i:%02x)" % byte for byte in literal)
    yield b"&(?:amp;)*#(?:0*%d|(?i:x0*%x));" % (code, code)
    if character in _NAMED:
        yield b"&(?:amp;)*%b;" % _NAMED[character]
