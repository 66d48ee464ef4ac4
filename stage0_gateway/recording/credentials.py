"""Find the credentials that a request carries.

Knows HTTP's headers, URLs and bodies, no provider and no file. Used by `recording.py` and
`replay.py`, which hide what is found here with `redact.py`.

Covered: headers, query fields, user and password of a URL (also as the base64 of a Basic header),
and the fields of a body in which servers are given credentials for other servers.
Not covered: a credential that only the server knows; one that a model spells out over several
events of a stream; one inside compressed or encoded data.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from urllib.parse import unquote

import httpx

from stage0_gateway.http.redaction import Secret
from stage0_gateway.json_fields import parse_json

_NAMES_END_WITH = (
    *(
        "auth",
        "authorization",
        "cookie",
        "credential",
        "credentials",
        "jwt",
        "key",
        "passwd",
        "password",
    ),
    *("secret", "sig", "signature", "token"),
)
# In bodies a "key" or a "token" is mostly data; these are what servers call credentials for other
# servers.
_NAMES_IN_BODIES = {
    "authorization",
    "authorization_token",
    "access_token",
    "api_key",
    "client_secret",
}


def names_a_credential(name: str) -> bool:
    """Whether a header or a query field of this name holds a secret, as x-api-key and accessToken
    do.
    """
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return any(word.lower().endswith(_NAMES_END_WITH) for word in words)


def credentials(request: httpx.Request) -> set[Secret]:
    """Every credential that a request carries; its body must have been read."""
    found: set[str] = set()
    for name, value in request.headers.multi_items():
        if names_a_credential(name):
            found.update(_in_header(name, value))
    found.update(
        value for name, value in request.url.params.multi_items() if names_a_credential(name)
    )
    if request.url.userinfo:
        found.add(request.url.password or request.url.username)
        found.add(b64encode(unquote(request.url.userinfo.decode("ascii")).encode()).decode("ascii"))
    found.update(_in_body(request.content))
    return set(map(Secret, found))


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
    left = [parse_json(content)]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left.extend(value)
        elif isinstance(value, dict):
            left.extend(value.values())
            for name, text in value.items():
                # A shorter one is more likely a word of a schema or an example, and would be hidden
                # everywhere.
                if isinstance(text, str) and len(text) >= 8 and _plain(name) in _NAMES_IN_BODIES:
                    yield from _in_header(name, text)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").removeprefix("x_")
