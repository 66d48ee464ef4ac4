"""Tool names as providers accept them, and back.

Providers take letters, digits, `_` and `-`, up to 64 of them, the first no digit; people also write
dots, spaces and other scripts. A name that a provider would refuse is sent under another one that
holds a fingerprint of it: the same name always becomes the same, and no two become one. Used by all
wire formats.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

from stage0_gateway.request import ToolSpec

_ACCEPTED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")


def sent_name(name: str) -> str:
    """The name under which a tool is sent: its own, where a provider accepts it."""
    if _ACCEPTED.fullmatch(name):
        return name
    mark = sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    accepted = _OTHER.sub("_", name)
    if not accepted.startswith("_") and not accepted[:1].isalpha():
        accepted = f"_{accepted}"
    return f"{accepted[:55]}_{mark}"


def sent_id(call_id: str) -> str:
    """The id under which a call is sent where only some letters are taken; servers make ids of all
    sorts.
    """
    if _ID.fullmatch(call_id):
        return call_id
    mark = sha256(call_id.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{_OTHER.sub('_', call_id)}_{mark}"


def own_names(tools: Iterable[ToolSpec]) -> Mapping[str, str]:
    """From the names that were sent back to the tools' own; only those that differ."""
    sent = ((sent_name(tool.name), tool.name) for tool in tools)
    return {name: own for name, own in sent if name != own}
