"""What the text around a bracket tells: whether JSON begins there, and whether it ends where it
seems to.

Every pattern looks at a bounded stretch of text, or at one that is passed once; `closes_too_much`
looks at all that follows, so whoever asks it counts how often. Knows no JSON values. Used by
`candidates.py`.
"""

import re

# A bracket that JSON could follow, whole or damaged; "{name}" and "[see below]" in prose are none.
# A line may end in an escape, but `\nabla` is none.
_GAP = r"(?:[\s\u180e\u200b-\u200f\u2060\ufeff]|\\[nrt](?=true|false|null|[^a-zA-Z]|\Z))*+"
_BEGINS = re.compile(
    rf"""[{{｛]{_GAP}(?:["'`“”‘’＂}}｝,]|//|/\*|\{{{_GAP}["']|(?:[\w$-]++|-?[0-9]++\.[0-9]++){_GAP}(?:[":：]|=>)|\\"|\#\s|\Z)
      | [\[［](?:\]|］|{_GAP}(?:["'`“”‘’＂\[{{［｛,}}｝]|\#\s|\Z|//|/\*|-?[0-9.]|\\"
              |(?:true|false|null|True|False|None|undefined)\b
              |(?:\({_GAP})++(?:["'“‘\[{{]|(?:-?[0-9][0-9._]*+|true|false|null|True|False|None){_GAP},)))""",
    re.VERBOSE,
)
_PLACEHOLDER = re.compile(r"[{\[][\w .:/-]*+[}\]]")
# Behind a value: a quote that touches it, but not an apostrophe; the next member; the last item of
# an array around it.
_GOES_ON = re.compile(
    r""""|'(?!\w)|\s*+[,:：，]\s*+(?:["'](?:[^"'\\\n]++|\\.)*+["']\s*+[:,}\]]|[-\w.]++\s*+[}\]])"""
)
# More text that touches it, and ends in a bracket or a quote.
_GLUED = re.compile(r"""(?!\[\^?\w{1,3}\]|\[/|\[END_|\[\|)[^\s`<,;}\]][^"'}\]\n]{0,200}+["'}\]]""")
_GOES_ON_BEHIND_CLOSER = re.compile(r"""\s*+[,:：，"'{\[]""")
_BULLET = re.compile(r"(?:\A|\n)[ \t]{0,8}+(?:[-*+]|[0-9]{1,3}[.)])[ \t]{1,3}+\Z")
_QUOTED = re.compile(r"""(?:"[{\[]"|'[{\[]')(?=[\s.,;:!?)]|\Z)""")
_COMMA = re.compile(r"\s*+[,，]")
_EXTRA_CLOSERS = re.compile(r"(?:[ \t\r\n]*+[}\]])++")
# A string that is never closed reaches to the end, so that nobody looks for its end again and
# again.
_BRACKET_OR_STRING = re.compile(r'[{}\[\]]|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_LINE_ENDS = re.compile(r"[ \t]*+(?:[\r\n]|```|</|\Z)")
_WRAPPING = re.compile(r"\s*+(```|</)")


def begins(text: str, start: int) -> bool:
    """Whether what follows a bracket looks like JSON, whole or damaged."""
    return _BEGINS.match(text, start) is not None


def is_placeholder(text: str, start: int) -> bool:
    """Whether brackets stand around nothing but words, as in `{name}`."""
    return _PLACEHOLDER.match(text, start) is not None


def is_index(text: str, start: int) -> bool:
    """Whether a bracket is part of a word, as in `items[0]`, `f{}` and `${x}`."""
    before = text[start - 1 : start] if start else ""
    part_of_word = before.isascii() and (before.isalnum() or before in ("_", ")", "]", "$", "\\"))
    if text.startswith("[{", start):
        return False  # nothing is looked up by an object
    if text[start] in "{｛":
        return before in ("$", "\\") or (part_of_word and text.startswith("{}", start))
    return part_of_word


def is_quoted(text: str, start: int) -> bool:
    """Whether a single bracket is quoted, as in `opens with "{"`."""
    return start > 0 and _QUOTED.match(text, start - 1) is not None


def is_check_box(text: str, start: int) -> bool:
    """Whether it is a box to be ticked, as in `- [ ] milk`."""
    return (
        text.startswith("[ ]", start)
        and _BULLET.search(text, max(0, start - 12), start) is not None
    )


def goes_on(text: str, end: int) -> bool:
    """Whether a member, an item or a quote follows a value, so that it was a part of something."""
    return _GOES_ON.match(text, end) is not None


def is_glued(text: str, end: int) -> bool:
    """Whether a value is followed at once by text that ends like JSON does."""
    return _GLUED.match(text, end) is not None


def extra_closers(text: str, end: int) -> int:
    """Where the closing brackets end that follow a value and close nothing."""
    found = _EXTRA_CLOSERS.match(text, end)
    return found.end() if found else end


def goes_on_behind_closers(text: str, end: int) -> bool:
    """Whether JSON goes on where brackets closed nothing."""
    return _GOES_ON_BEHIND_CLOSER.match(text, end) is not None


def comma_follows(text: str, end: int) -> bool:
    """Whether a comma follows a value."""
    return _COMMA.match(text, end) is not None


def closes_too_much(text: str, end: int) -> bool:
    """Whether brackets are closed, anywhere behind a value, that were not opened there."""
    depth = 0
    for token in _BRACKET_OR_STRING.finditer(text, end):
        depth += (token[0][0] in "{[") - (token[0][0] in "}]")
        if depth < 0:
            return True
    return False


def stands_as_answer(text: str, start: int) -> bool:
    """Whether a value begins its line, or follows a colon; what stands in a sentence is only
    mentioned.
    """
    before = text[max(0, start - 40) : start]
    line = before.rpartition("\n")[2].strip(" \t*>-")
    return (not line and ("\n" in before or start <= 40)) or line.endswith((":", "："))


def line_ends(text: str, end: int) -> bool:
    """Whether nothing but white space, a fence or a tag follows in the line."""
    return _LINE_ENDS.match(text, end) is not None


def wrapping(text: str, end: int) -> str:
    """The fence or the beginning of a closing tag that follows a value; "" if neither follows."""
    found = _WRAPPING.match(text, end)
    return found[1] if found else ""
