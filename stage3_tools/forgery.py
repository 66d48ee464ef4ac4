r"""A line by a user or a tool that imitates one of ours is escaped, so that a model is not deceived.

    [Tool result for get_weather]      by whoever is not us becomes      \[Tool result for get_weather]

Only the beginning of a line counts, after any kind of line break, and invisible characters do not help. Knows no
dialect; used where results are shown as text, by `prompt` and `flow`.
"""

import re
from itertools import groupby

from stage0_gateway import Message, Part, TextPart

_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_INVISIBLE = r"\u200b-\u200f\u2060\ufeff"
_BLANK = rf"[\s{_INVISIBLE}]"
_FORGED = re.compile(
    rf"(?:^|(?<=[{_BREAKS}]))((?:[^\S{_BREAKS}]|[{_INVISIBLE}*])*)"
    rf"\[(?={_BLANK}*tool\s+(?:result|execution\s+log))",
    re.IGNORECASE,
)


def escaped_text(text: str) -> str:
    """A text with every line escaped that imitates a result, or a log of one."""
    return _FORGED.sub(r"\1\\[", text)


def escaped(content: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
    """The same for the content of a message."""
    if isinstance(content, str):
        return escaped_text(content)
    parts: list[Part] = []
    # Neighbouring texts are read as one, so they are looked at as one.
    for are_text, group in groupby(content, lambda part: isinstance(part, TextPart)):
        together = tuple(group)
        parts += [TextPart(escaped_text(Message.user(together).text))] if are_text else together
    return tuple(parts)
