"""What in a request is a credential, and bytes without it, in whatever spelling it comes back.

A server may repeat a key in its answer, escaped for JSON or for a URL, and the network may break it in
two. Knows HTTP's headers, URLs and bodies, no provider and no file; used by whatever writes traffic down.

Covered: credentials the request itself carries, and those the caller names; spelled as they are, as JSON
(also JSON within JSON) or a URL would write them, or as the base64 of a Basic header.
Not covered: a credential that only the server knows, in a body; one that a model spells out over several
events of a stream; one inside other compressed or encoded data.
"""

import json
import re
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any
from urllib.parse import unquote

import httpx

from stage0_gateway.redact import HIDDEN, redact

_NAMES_END_WITH = (
    *("auth", "authorization", "cookie", "credential", "credentials", "jwt", "key", "passwd", "password"),
    *("secret", "sig", "signature", "token"),
)
# In bodies a "key" or a "token" is mostly data; these are what servers call credentials for other servers.
_NAMES_IN_BODIES = {"authorization", "authorization_token", "access_token", "api_key", "client_secret"}
_SHORT_ESCAPES = {"\b": b"b", "\f": b"f", "\n": b"n", "\r": b"r", "\t": b"t", '"': b'"', "/": b"/"}
_BACKSLASHES = rb"\\{1,8}"  # one, and what escaping it up to three times makes of it


def names_a_credential(name: str) -> bool:
    """Whether a header or a query field of this name holds a secret, as x-api-key and accessToken do."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return any(word.lower().endswith(_NAMES_END_WITH) for word in words)


def credentials(request: httpx.Request) -> set[str]:
    """Every credential that a request carries; its body must have been read."""
    found: set[str] = set()
    for name, value in request.headers.multi_items():
        if names_a_credential(name):
            found.update(_in_header(name, value))
    found.update(value for name, value in request.url.params.multi_items() if names_a_credential(name))
    if request.url.userinfo:
        found.add(request.url.password or request.url.username)
        found.add(b64encode(unquote(request.url.userinfo.decode("ascii")).encode()).decode("ascii"))
    found.update(_in_body(request.content))
    return found


def _in_header(name: str, value: str) -> Iterator[str]:
    yield value
    scheme, _, token = value.partition(" ")
    yield token.strip()
    if scheme.lower() == "basic":
        try:
            yield b64decode(token).decode().partition(":")[2]
        except ValueError:
            return
    elif name.endswith("cookie"):
        yield from (pair.partition("=")[2].strip() for pair in value.split(";"))


def _in_body(content: bytes) -> Iterator[str]:
    try:
        left: list[Any] = [json.loads(content)]
    except (ValueError, RecursionError):
        return
    while left:
        value = left.pop()
        if isinstance(value, list):
            left.extend(value)
        elif isinstance(value, dict):
            left.extend(value.values())
            for name, text in value.items():
                # A shorter one is more likely a word of a schema or an example, and would be hidden everywhere.
                if isinstance(text, str) and len(text) >= 8 and _plain(name) in _NAMES_IN_BODIES:
                    yield from _in_header(name, text)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").removeprefix("x_")


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets; very short ones are passed over, as `redact` does."""
    return hide_in_chunks([text.encode("utf-8", "surrogatepass")], secrets)[0].decode(
        "utf-8", "surrogatepass"
    )


def hide_in_chunks(chunks: Sequence[bytes], secrets: Iterable[str], *, cut: bool = False) -> list[bytes]:
    """As many chunks, without the secrets; one that is broken in two is hidden where it starts.

    Args:
        chunks: Pieces of one body, in order.
        secrets: What to hide.
        cut: Whether the body broke off: then its end may be the beginning of a secret.
    """
    whole = b"".join(chunks)
    spans = _spans(whole, {secret for secret in secrets if redact(secret, [secret]) != secret}, cut)
    if not spans:
        return list(chunks)
    hidden, end = bytearray(), 0
    for start, stop in spans:
        hidden += whole[end:start] + HIDDEN.encode()
        end = stop
    hidden += whole[end:]
    starts = [start for start, _ in spans]
    shifts = list(accumulate((len(HIDDEN) - (stop - start) for start, stop in spans), initial=0))

    def moved(boundary: int) -> int:
        before = bisect_left(starts, boundary)
        if before:
            boundary = max(boundary, spans[before - 1][1])  # inside a secret: now behind what stands for it
        return boundary + shifts[before]

    boundaries = [moved(at) for at in accumulate(map(len, chunks), initial=0)]
    return [bytes(hidden[start:stop]) for start, stop in pairwise(boundaries)]


def _spans(whole: bytes, secrets: set[str], cut: bool) -> list[tuple[int, int]]:
    """Where secrets stand, in order; what overlaps is one."""
    found = [match.span() for secret in secrets for match in _pattern(secret).finditer(whole)]
    if cut:
        begun = max((_begun(secret.encode("utf-8", "surrogatepass"), whole) for secret in secrets), default=0)
        found += [(len(whole) - begun, len(whole))] if begun else []
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def _begun(secret: bytes, whole: bytes) -> int:
    """How many bytes of the secret, of four or more, the end of the text is."""
    return next((n for n in range(len(secret) - 1, 3, -1) if whole.endswith(secret[:n])), 0)


@lru_cache(maxsize=64)
def _pattern(secret: str) -> re.Pattern[bytes]:
    """The secret, each of its characters in any spelling."""
    # Backslashes in a row are one part: taken one by one there would be 8ⁿ ways to read n of them.
    parts = re.findall(r"\\+|[^\\]", secret)
    return re.compile(b"".join(b"(?:%s)" % b"|".join(_spellings(part[0], len(part))) for part in parts))


def _spellings(character: str, times: int) -> Iterator[bytes]:
    literal = character.encode("utf-8", "surrogatepass")
    yield re.escape(literal) if character != "\\" else rb"\\{%d,%d}" % (times, 8 * times)
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = (
        _BACKSLASHES + b"u(?i:%s)" % units[at : at + 2].hex().encode() for at in range(0, len(units), 2)
    )
    yield b"(?:%s){%d}" % (b"".join(escaped), times)
    if character in _SHORT_ESCAPES:
        yield _BACKSLASHES + _SHORT_ESCAPES[character]
    yield b"(?:%s){%d}" % (b"".join(b"%%(?:25)?(?i:%02x)" % byte for byte in literal), times)
    if character == " ":
        yield rb"\+"
