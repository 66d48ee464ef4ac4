"""What can be shown of a model's JSON while it is still being written.

`parse_partial` is given the whole text so far, after every piece of it, and each time reads all of
it: the time is linear in the text. What it has shown it never takes back: strings grow at their
end, arrays too, objects gain keys at the end; numbers, `true`, `false` and `null` are shown once
and stay. So it cannot wait for the best value in the text, as `extract_json` does: it takes the
first one, and shows it to its end even if the model gives it up.

It is strict and repairs nothing. At anything that is not JSON, and at a key that appears twice, the
value stays what it was and is never complete. A value that does not even begin like JSON is
skipped. The result is for display, not for acting: at the end `extract_json` or the controller
decide. This module knows no schema, and nothing else in this stage uses it.
"""

import json
import re
from typing import Any

from stage2_output.extraction import lookaround as clues
from stage2_output.extraction.candidates import Extraction
from stage2_output.extraction.markup import BLANK, Source, Surroundings
from stage2_output.parsing.strict import MOST_DEPTH

LONGEST_POINTER = 1000
"""Characters; what lies deeper is not told as open, or 200 pointers of 1 MB could come of one long
key."""

_SPACE = r"[ \t\n\r]*+"
_CHARACTERS = r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?"

# As in `wrapping.py`, but no tag holds a bracket: whether it is a tag would be known only behind
# the bracket.
_MARK = re.compile(
    r"(?P<fence>`{3,}+)|<(?P<closing>/?)(?:think(?:ing)?|thoughts?|reasoning)>"
    r"|(?P<tag><(?:[a-z_][\w:.-]{0,60}+(?:[ \t=][^<>\n{}\[\]｛［]{0,200}+)?|\|\w{1,60}+\|)>)|(?P<bracket>[{\[｛［])",
    re.IGNORECASE,
)
# How JSON begins; what is only likely to be JSON may be a reference or code as well.
_SURE = re.compile(rf'(?:\[{_SPACE})*+(?:"|\{{{_SPACE}")')
_LIKELY = re.compile(
    rf"(?:\[{_SPACE})*+(?:\{{{_SPACE}\}}|(?<=\[)\]|(?:{_NUMBER}|true|false|null){_SPACE},)"
)
_FURTHEST_INDENT = 100
_LISTS = re.compile(r"(?:[\[［]\s*+)*+")
_BRACKET_OR_STRING = re.compile(
    r'(?P<opens>[{\[｛［])|(?P<closes>[}\]｝］])|"(?:[^"\\]++|\\.)*+"?', re.DOTALL
)

_QUOTES = ("'", '"', "“", "‘", "＂")
_BRACES = ("{", "｛")
_INFINITE = (float("inf"), float("-inf"))
_KEY = re.compile(rf'"({_CHARACTERS})"{_SPACE}:{_SPACE}')
_STRING = re.compile(_CHARACTERS)
# A number may go on until something else follows.
_SCALAR = re.compile(rf"true|false|null|{_NUMBER}(?=[ \t\n\r,\]}}])")
_BLANK = re.compile(_SPACE)


def parse_partial(text: str) -> Extraction:
    """The JSON value of a reply that is still being written, as far as it has come.

    Shown is the first object or list outside thinking tags. `complete` says that its last bracket
    has been written; `open` is what has not been closed yet, as JSON pointers, outermost first;
    `end` is how far the value was read. A key is shown with the beginning of its value, a number
    when something follows it, an escape when it is whole. `source` is "bare" if nothing stands
    before the value.

    Two things cannot be known in time: thoughts that began in the prompt are told by their closing
    tag only, so a draft in them is shown; and what follows an opening tag is held back even if it
    is never closed.

    Args:
        text: All that the model has written so far. Nothing raises.

    Returns:
        The value; with nothing to show yet it is None, at the end of the text, and not complete.
    """
    begin = _begin(text)
    if begin is None:
        return Extraction(None, len(text), len(text), "prose", complete=False)
    start, source = begin
    reader = _Reader(text, start)
    opened = reader.pointers()
    return Extraction(reader.value, start, reader.at, source, complete=not opened, open=opened)


def _begin(text: str) -> tuple[int, Source] | None:
    """Where the value begins, and what it stands in.

    Nothing behind a bracket that was taken makes a difference to it, nor to the brackets before.
    """
    around = Surroundings(text)
    position: int | None = 0
    line = 0
    while position is not None and (mark := _MARK.search(text, position)):
        start, position = mark.span()
        if not mark["bracket"]:
            around.pass_by(mark)
            if mark["closing"] == "":
                position = around.end(position)  # of the text, if the tag is never closed
            line = position
            continue
        if _is_json(text, start, line):
            return start, around.source(start) if text[:start].strip(BLANK) else "bare"
        position = _behind(text, start)
    return None


def _is_json(text: str, start: int, line: int) -> bool:
    """Whether a bracket surely begins JSON; `line` is where the text after the last mark begins."""
    if clues.is_index(text, start):
        return False
    if _SURE.match(text, start):
        return True
    before = text[max(line, start - _FURTHEST_INDENT) : start].rpartition("\n")[2]
    return not before.strip(BLANK) and _LIKELY.match(text, start) is not None


def _behind(text: str, start: int) -> int | None:
    """Where to look on behind a bracket: behind all of a value that is damaged; None before that is
    closed.
    """
    lists = _LISTS.match(text, start)
    inner = lists.end() if lists else start
    damaged = text[inner : inner + 1] in _QUOTES or (
        text[inner : inner + 1] in _BRACES and clues.begins(text, inner)
    )
    if not damaged:
        return max(start + 1, inner)
    depth = 0
    for token in _BRACKET_OR_STRING.finditer(text, start):
        depth += (token["opens"] is not None) - (token["closes"] is not None)
        if depth == 0:
            return token.end()
    return None


class _Reader:
    """Read a value member by member, until it is closed, the text ends, or the JSON is invalid."""

    __slots__ = ("_open", "_string", "_text", "at", "value")

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._open: list[
            tuple[Any, str, str]
        ] = []  # objects and arrays: their closing bracket, their place
        self._string: list[str] = []  # the place of a string that is not closed
        root: list[Any] = []
        self.at = start
        self._container(root, 0, start)
        self.value = root[0]
        while self._open and self._member():
            pass

    def pointers(self) -> tuple[str, ...]:
        """What is not closed yet, outermost first."""
        places = [place for _, _, place in self._open] + self._string
        pointers = [""] if places else []
        for place in places[1:]:
            pointer = f"{pointers[-1]}/{place.replace('~', '~0').replace('/', '~1')}"
            if len(pointer) > LONGEST_POINTER:
                break
            pointers.append(pointer)
        return tuple(pointers)

    def _member(self) -> bool:
        """Read one member more, or the closing bracket; False if there is none, be it not yet or
        never.
        """
        container, closing, _ = self._open[-1]
        at = self._after_blank(self.at)
        if self._text.startswith(closing, at):
            self._open.pop()
            self.at = at + 1
            return True
        if container:
            if not self._text.startswith(",", at):
                return False
            at = self._after_blank(at + 1)
        if closing == "]":
            return self._value(container, len(container), at)
        key = _KEY.match(self._text, at)
        if key is None:
            return False
        name = _decoded(key[1])
        if name in container:
            return False
        return self._value(container, name, key.end())

    def _value(self, into: Any, place: Any, at: int) -> bool:
        first = self._text[at : at + 1]
        if first == '"':
            return self._characters(into, place, at + 1)
        if first in ("{", "["):
            return self._container(into, place, at)
        return self._scalar(into, place, at)

    def _container(self, into: Any, place: Any, at: int) -> bool:
        if len(self._open) == MOST_DEPTH:
            return False
        container: Any = {} if self._text[at] == "{" else []
        _put(into, place, container)
        self._open.append((container, "}" if self._text[at] == "{" else "]", str(place)))
        self.at = at + 1
        return True

    def _characters(self, into: Any, place: Any, at: int) -> bool:
        found = _STRING.match(self._text, at)
        assert found  # it fits everywhere, if only nothing
        value, self.at = _decoded(found[0]), found.end()
        if self._text.startswith('"', self.at):
            _put(into, place, value)
            self.at += 1
            return True
        # The first half of a character; the escape that is its second half may still come.
        if "\ud800" <= value[-1:] <= "\udbff":
            value = value[:-1]
        _put(into, place, value)
        self._string.append(str(place))
        return False

    def _scalar(self, into: Any, place: Any, at: int) -> bool:
        found = _SCALAR.match(self._text, at)
        if found is None:
            return False
        try:
            value = json.loads(found[0])
        except ValueError:  # Python refuses numbers of thousands of digits
            return False
        if value in _INFINITE:
            return False
        _put(into, place, value)
        self.at = found.end()
        return True

    def _after_blank(self, at: int) -> int:
        blank = _BLANK.match(self._text, at)
        assert blank  # it fits everywhere, if only nothing
        return blank.end()


def _put(into: Any, place: Any, value: Any) -> None:
    if type(into) is list:
        into.append(value)
    else:
        into[place] = value


def _decoded(written: str) -> str:
    return str(json.loads(f'"{written}"')) if "\\" in written else written
