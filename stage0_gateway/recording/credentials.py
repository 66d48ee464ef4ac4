"""Find the credentials that a request carries.

This module knows headers, URLs and bodies, but no provider and no file. `recorder.py` and
`replayer.py` hide its results with `http/redaction.py`.

Covered: headers (also the password of a Basic header), query fields, and the fields of a body with
credentials for other servers. The user and the password of a URL are sent as a Basic header.
Not covered: a credential that only the server knows; one that a model writes over several events of
a stream; one inside compressed or encoded data.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx

from stage0_gateway.http.redaction import Secret

_CREDENTIAL_WORD = re.compile(
    r"(?i)(?:auth|authorization|cookie|credentials?|jwt|key|passw(?:or)?d|secret|sig|signature"
    r"|token)\Z"
)
# In bodies, most fields named "key" or "token" are data. These fields hold credentials for other
# servers.
_BODY_NAMES = {"authorization", "authorization_token", "access_token", "api_key", "client_secret"}


def names_a_credential(name: str) -> bool:
    """Return whether a header or a query field holds a secret, like x-api-key and accessToken."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return any(map(_CREDENTIAL_WORD.search, words))


def credentials(request: httpx.Request) -> set[Secret]:
    """Return every credential of a request whose body was read."""
    found: set[str] = set()
    for name, value in request.headers.multi_items():
        if names_a_credential(name):
            found.update(_in_header(name, value))
    query = request.url.params.multi_items()
    found.update(value for name, value in query if names_a_credential(name))
    found.update(_in_body(request.content))
    return set(map(Secret, found))


def _in_header(name: str, value: str) -> Iterator[str]:
    yield value
    scheme, _, token = value.partition(" ")
    yield token.strip()
    if scheme.lower() == "basic":
        try:
            user, _, password = b64decode(token).decode().partition(":")
            yield password or user  # a token may be the user's name
        except ValueError:
            return
    elif name.endswith("cookie"):
        yield from (pair.partition("=")[2].strip() for pair in value.split(";"))


def _in_body(content: bytes) -> list[str]:
    found: list[str] = []

    def search(fields: dict[str, Any]) -> None:
        for name, text in fields.items():
            # A shorter text is probably a word of a schema or an example. Hiding it would hide that
            # word everywhere.
            plain_name = name.lower().replace("-", "_").removeprefix("x_")
            if isinstance(text, str) and len(text) >= 8 and plain_name in _BODY_NAMES:
                found.extend(_in_header(name, text))

    with suppress(ValueError, RecursionError):
        json.loads(content, object_hook=search)
    return found
