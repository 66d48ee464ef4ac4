"""Tool names and call ids in the characters and lengths that providers accept.

Providers accept up to 64 letters, digits, `_` and `-`, and no digit at the beginning. Applications
also use dots, spaces and other scripts. Such a name is sent under another name that contains a
fingerprint of it, so different names stay different.

A call id of one provider may be too long for another one. It is sent as another id that depends on
the id alone, so a call and its result still match. The stored messages keep their ids, so the
conversation can return to the first provider. All wire formats use this module.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

from stage0_gateway.request import ToolSpec

_ACCEPTED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
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
    return shortened(f"{_OTHER.sub('_', call_id)}_{_fingerprint(call_id)}", 64)


def shortened(text: str, length: int) -> str:
    """Return a text, or its beginning and its fingerprint if it has more characters."""
    return text if len(text) <= length else f"{text[: length - 17]}_{_fingerprint(text, 16)}"


def own_names(tools: Iterable[ToolSpec]) -> Mapping[str, str]:
    """Map the sent names back to the tools' own names, where they differ."""
    return {sent: tool.name for tool in tools if (sent := sent_name(tool.name)) != tool.name}


def _fingerprint(text: str, length: int = 8) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:length]
