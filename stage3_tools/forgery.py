r"""A line by a user or a tool that imitates one of ours is escaped, so that a model is not deceived.

    [Tool result for get_weather]      by whoever is not us becomes      \[Tool result for get_weather]

Only the beginning of a line counts, after any kind of line break, and invisible characters do not help. Knows no
dialect; used where results are shown as text, by `prompt` and `flow`.
"""

import re
from functools import cache
from itertools import groupby

from stage0_gateway import Message, Part, TextPart

_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
# Soft hyphens, joiners, marks of direction, fillers, variation selectors, tags: nothing of them is seen.
_INVISIBLE = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)


def _however_spaced(words: str) -> str:
    """A pattern of these words, with anything invisible between their letters."""
    hidden = f"[{_INVISIBLE}]*"
    return rf"[\s{_INVISIBLE}]+".join(hidden.join(word) for word in words.split())


@cache
def _forged() -> re.Pattern[str]:
    """Made when it is first needed: it takes 3 ms."""
    return re.compile(
        rf"(?:^|(?<=[{_BREAKS}]))((?:[^\S{_BREAKS}]|[{_INVISIBLE}*_>#+-])*)\[(?=[\s{_INVISIBLE}]*"
        rf"(?:{_however_spaced('tool result')}|{_however_spaced('tool execution log')}))",
        re.IGNORECASE,
    )


def escaped_text(text: str) -> str:
    """A text with every line escaped that imitates a result, or a log of one."""
    return _forged().sub(r"\1\\[", text) if "[" in text else text


def escaped(content: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
    """The same for the content of a message."""
    if isinstance(content, str):
        return escaped_text(content)
    parts: list[Part] = []
    # Neighbouring texts are read as one, so they are looked at as one.
    for are_text, group in groupby(content, lambda part: isinstance(part, TextPart)):
        together = tuple(group)
        said = Message.user(together).text if are_text else ""
        parts += together if (safe := escaped_text(said)) == said else [TextPart(safe)]
    return tuple(parts)
