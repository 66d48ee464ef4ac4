"""Rules about the text around a bracket: whether JSON begins there and whether it ends there.

Every pattern reads a bounded part of the text, except for `closes_unopened`, which reads the
remaining text; callers limit how often they use it. This module does not know JSON values.
"""

import re

# A bracket that JSON may follow, valid or not. "{name}" and "[see below]" in prose are excluded.
# An escaped line break may follow the bracket, but not a command such as `\nabla`.
_SPACE = r"(?:[\s\u180e\u200b-\u200f\u2060\ufeff]|\\[nrt](?=true|false|null|[^a-zA-Z]|\Z))*+"
_BEGINS_JSON = re.compile(
    rf"""[{{｛]{_SPACE}(?:["'`“”‘’＂}}｝,]|//|/\*|\{{{_SPACE}["']
              |(?:[\w$-]++|-?[0-9]++\.[0-9]++){_SPACE}(?:[":：]|=>)|\\"|\#\s|\Z)
      | [\[［](?:\]|］|{_SPACE}(?:["'`“”‘’＂\[{{［｛,}}｝]|\#\s|\Z|//|/\*|-?[0-9.]|\\"
              |(?:true|false|null|True|False|None|undefined)\b
              |(?:\({_SPACE})++(?:["'“‘\[{{]
                |(?:-?[0-9][0-9._]*+|true|false|null|True|False|None){_SPACE},)))""",
    re.VERBOSE,
)
_PLACEHOLDER = re.compile(r"[{\[][\w .:/-]*+[}\]]")
# Text behind a value: a quote without space before it (but no apostrophe), the next member, or the
# last item of an enclosing array.
_CONTINUES = re.compile(
    r""""|'(?!\w)|\s*+[,:：，]\s*+(?:["'](?:[^"'\\\n]++|\\.)*+["']\s*+[:,}\]]|[-\w.]++\s*+[}\]])"""
)
# Text without space before it that ends in a bracket or a quote.
_GLUED = re.compile(r"""(?!\[\^?\w{1,3}\]|\[/|\[END_|\[\|)[^\s`<,;}\]][^"'}\]\n]{0,200}+["'}\]]""")
_CONTINUES_BEHIND_CLOSERS = re.compile(r"""\s*+[,:：，"'{\[]""")
_BULLET = re.compile(r"(?:\A|\n)[ \t]{0,8}+(?:[-*+]|[0-9]{1,3}[.)])[ \t]{1,3}+\Z")
_QUOTED = re.compile(r"""(?:"[{\[]"|'[{\[]')(?=[\s.,;:!?)]|\Z)""")
_COMMA = re.compile(r"\s*+[,，]")
_EXTRA_CLOSERS = re.compile(r"(?:[ \t\r\n]*+[}\]])++")
# An unclosed string extends to the end, so that its end is searched only once.
_BRACKET_OR_STRING = re.compile(r'[{}\[\]]|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_LINE_ENDS = re.compile(r"[ \t]*+(?:[\r\n]|```|</|\Z)")
_CLOSING_MARKUP = re.compile(r"\s*+(```|</)")


def begins_json(text: str, start: int) -> bool:
    """Whether the text behind a bracket looks like JSON, valid or not."""
    return _BEGINS_JSON.match(text, start) is not None


def is_placeholder(text: str, start: int) -> bool:
    """Whether brackets contain only words, as in `{name}`."""
    return _PLACEHOLDER.match(text, start) is not None


def is_subscript(text: str, start: int) -> bool:
    """Whether a bracket is part of a word, as in `items[0]`, `f{}` and `${x}`."""
    before = text[start - 1 : start] if start else ""
    part_of_word = before.isascii() and (before.isalnum() or before in ("_", ")", "]", "$", "\\"))
    if text.startswith("[{", start):
        return False  # a subscript is not an object
    if text[start] in "{｛":
        return before in ("$", "\\") or (part_of_word and text.startswith("{}", start))
    return part_of_word


def is_quoted_bracket(text: str, start: int) -> bool:
    """Whether a single bracket is quoted, as in `opens with "{"`."""
    return start > 0 and _QUOTED.match(text, start - 1) is not None


def is_checkbox(text: str, start: int) -> bool:
    """Whether a bracket begins an empty checkbox of a list, as in `- [ ] milk`."""
    is_box = text.startswith("[ ]", start)
    return is_box and _BULLET.search(text, max(0, start - 12), start) is not None


def continues(text: str, end: int) -> bool:
    """Whether a member, an item or a quote follows a value, so that it is part of a larger one."""
    return _CONTINUES.match(text, end) is not None


def is_glued(text: str, end: int) -> bool:
    """Whether text that ends like JSON follows a value without a space."""
    return _GLUED.match(text, end) is not None


def extra_closers_end(text: str, end: int) -> int:
    """Return the end of the closing brackets behind a value, or `end` if there are none."""
    found = _EXTRA_CLOSERS.match(text, end)
    return found.end() if found else end


def continues_behind_closers(text: str, end: int) -> bool:
    """Whether JSON continues behind extra closing brackets."""
    return _CONTINUES_BEHIND_CLOSERS.match(text, end) is not None


def is_comma_next(text: str, end: int) -> bool:
    """Whether a comma follows a value."""
    return _COMMA.match(text, end) is not None


def closes_unopened(text: str, end: int) -> bool:
    """Whether the text behind a value closes more brackets than it opens."""
    depth = 0
    for token in _BRACKET_OR_STRING.finditer(text, end):
        depth += (token[0][0] in "{[") - (token[0][0] in "}]")
        if depth < 0:
            return True
    return False


def is_answer_position(text: str, start: int) -> bool:
    """Whether a value begins its line or follows a colon; inside a sentence it is a mention."""
    before = text[max(0, start - 40) : start]
    line = before.rpartition("\n")[2].strip(" \t*>-")
    return (not line and ("\n" in before or start <= 40)) or line.endswith((":", "："))


def ends_line(text: str, end: int) -> bool:
    """Whether only white space, a fence or a closing tag follows in the line."""
    return _LINE_ENDS.match(text, end) is not None


def closing_markup(text: str, end: int) -> str:
    """Return the fence or the beginning of the closing tag behind a value, or ""."""
    found = _CLOSING_MARKUP.match(text, end)
    return found[1] if found else ""
