"""Take secrets out of text before a person or a file sees it.

Servers repeat keys in their error messages. Knows only texts; used wherever a server's words end up in
an exception.
"""

from collections.abc import Iterable

HIDDEN = "[hidden]"


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret in the text.

    Args:
        text: Any text.
        secrets: Keys and passwords; very short ones (under 4 characters) are passed over, because
            replacing them would make the text unreadable.
    """
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
    return text
