"""Tool names and call ids in the characters that providers accept.

Providers accept up to 64 letters, digits, `_` and `-`, and no digit at the beginning. Applications
also use dots, spaces and other scripts. Such a name is sent under another name that contains a
fingerprint of it, so different names stay different. All wire formats use this module.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

from stage0_gateway.request import ToolSpec

_ACCEPTED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")


def sent_name(name: str) -> str:
    """Return the name under which a tool is sent: its own if providers accept it."""
    if _ACCEPTED.fullmatch(name):
        return name
    accepted = _OTHER.sub("_", name)
    if not accepted.startswith("_") and not accepted[:1].isalpha():
        accepted = f"_{accepted}"
    return f"{accepted[:55]}_{_fingerprint(name)}"


def sent_id(call_id: str) -> str:
    """Return the id under which a call is sent, for providers that accept few characters."""
    if _ID.fullmatch(call_id):
        return call_id
    return f"{_OTHER.sub('_', call_id)}_{_fingerprint(call_id)}"


def own_names(tools: Iterable[ToolSpec]) -> Mapping[str, str]:
    """Map the sent names back to the tools' own names, where they differ."""
    return {sent: tool.name for tool in tools if (sent := sent_name(tool.name)) != tool.name}


def _fingerprint(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
