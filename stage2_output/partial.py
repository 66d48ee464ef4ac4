"""Show JSON while a model is still writing it.

`parse_partial` receives the complete text so far after every chunk and reads all of it, in linear
time. It never withdraws what it has shown: strings and arrays grow at their end, objects gain keys
at the end, and numbers, `true`, `false` and `null` never change. So it shows the first value to its
end, even if the model abandons it.

It is strict and repairs nothing. At invalid JSON or a duplicate key the value stops growing and is
never complete. A value that does not begin like JSON is skipped. The result is for display; at the
end of the stream, `extract_json` or the controller decides. No other module of this stage uses it.
"""

import json
import re
from typing import Any

from stage2_output.extraction import lookaround
from stage2_output.extraction.markup import BLANK, MarkupScanner, next_mark
from stage2_output.parsing.strict import MOST_DEPTH, read_strictly
from stage2_output.parsing.whitespace import match_end
from stage2_output.result import Extraction, Source

LONGEST_POINTER = 1000
"""Maximum length of a pointer in `open`, because 200 levels of long keys would take 100 MB."""

_SPACE = r"[ \t\n\r]*+"
_CHARACTERS = r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?"

# Text that certainly begins JSON, and text that may also be a reference or code.
_CERTAIN = re.compile(rf'(?:\[{_SPACE})*+(?:"|\{{{_SPACE}")')
_LIKELY = re.compile(
    rf"(?:\[{_SPACE})*+(?:\{{{_SPACE}\}}|(?<=\[)\]|(?:{_NUMBER}|true|false|null){_SPACE},)"
)
_LONGEST_INDENT = 100
_ARRAYS = re.compile(r"(?:[\[［]\s*+)*+")
_BRACKET_OR_STRING = re.compile(
    r'(?P<opens>[{\[｛［])|(?P<closes>[}\]｝］])|"(?:[^"\\]++|\\.)*+"?', re.DOTALL
)
_KEY = re.compile(rf'"({_CHARACTERS})"{_SPACE}:{_SPACE}')
_STRING = re.compile(_CHARACTERS)
# A number is complete when another character follows it.
_SCALAR = re.compile(rf"true|false|null|{_NUMBER}(?=[ \t\n\r,\]}}])")
_BLANK = re.compile(_SPACE)


def parse_partial(text: str) -> Extraction:
    """Return the JSON value of a reply that is still being written, as far as it has arrived.

    The value is the first object or array outside thinking tags. `complete` is True when its last
    bracket has arrived. `open` lists the open parts as JSON pointers, outermost first. `end` is the
    index behind the part that was read. A key appears with the first part of its value, a number
    when another character follows it, an escape when it is complete. `source` is "bare" if no text
    precedes the value.

    Two cases cannot be decided in time. A draft in a thinking block that began in the prompt is
    shown, because only its closing tag reveals it. Text behind an opening tag is held back, even if
    the tag is never closed.

    Args:
        text: The complete text so far. No text raises an exception.

    Returns:
        The value. If there is none yet, the value is None, at the end of the text, and incomplete.
    """
    beginning = _find_beginning(text)
    if beginning is None:
        return Extraction(None, len(text), len(text), "prose", complete=False)
    start, source = beginning
    reader = _Reader(text, start)
    pointers = reader.pointers()
    return Extraction(reader.value, start, reader.at, source, complete=not pointers, open=pointers)


def _find_beginning(text: str) -> tuple[int, Source] | None:
    """Return the index and the location of the value.

    The text behind an accepted bracket affects neither this bracket nor earlier ones.
    """
    markup = MarkupScanner(text)
    position: int | None = 0
    last_mark = 0
    while position is not None and (mark := next_mark(text, position)):
        start, position = mark.span()
        if not mark["bracket"]:
            markup.consume(mark)
            if markup.begins_thinking(mark):
                position = markup.end(position)  # the end of the text for an unclosed tag
            last_mark = position
        elif _is_json(text, start, last_mark):
            return start, markup.source(start) if text[:start].strip(BLANK) else "bare"
        else:
            position = _skip_value(text, start)
    return None


def _is_json(text: str, start: int, last_mark: int) -> bool:
    """Whether a bracket certainly begins JSON; `last_mark` is the end of the last fence or tag."""
    if lookaround.is_subscript(text, start):
        return False
    if _CERTAIN.match(text, start):
        return True
    before = text[max(last_mark, start - _LONGEST_INDENT) : start].rpartition("\n")[2]
    return not before.strip(BLANK) and _LIKELY.match(text, start) is not None


def _skip_value(text: str, start: int) -> int | None:
    """Return the index behind an invalid value, or None while it is open."""
    inner = match_end(_ARRAYS, text, start, len(text))
    first = text[inner : inner + 1]
    is_value = first in ("'", '"', "“", "‘", "＂") or (
        first in ("{", "｛") and lookaround.begins_json(text, inner)
    )
    if not is_value:
        return max(start + 1, inner)
    depth = 0
    for token in _BRACKET_OR_STRING.finditer(text, start):
        depth += (token["opens"] is not None) - (token["closes"] is not None)
        if depth == 0:
            return token.end()
    return None


class _Reader:
    """Read a value until it is closed, the text ends, or the JSON is invalid."""

    __slots__ = ("_open", "_open_string", "_text", "at", "value")

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        # Open objects and arrays: the container, its closing bracket, and its key or index.
        self._open: list[tuple[Any, str, str]] = []
        self._open_string: list[str] = []  # the key or index of a string that is not closed
        root: list[Any] = []
        self.at = start
        self._read_container(root, 0, start)
        self.value = root[0]
        while self._open and self._read_next():
            pass

    def pointers(self) -> tuple[str, ...]:
        """Return JSON pointers to the open parts, outermost first."""
        steps = [step for _, _, step in self._open] + self._open_string
        pointers = [""] if steps else []
        for step in steps[1:]:
            pointer = f"{pointers[-1]}/{step.replace('~', '~0').replace('/', '~1')}"
            if len(pointer) > LONGEST_POINTER:
                break
            pointers.append(pointer)
        return tuple(pointers)

    def _read_next(self) -> bool:
        """Read the next member or closing bracket; return False if the value stops growing."""
        container, closer, _ = self._open[-1]
        at = self._skip_blank(self.at)
        if self._text.startswith(closer, at):
            self._open.pop()
            self.at = at + 1
            return True
        if container:
            if not self._text.startswith(",", at):
                return False
            at = self._skip_blank(at + 1)
        if closer == "]":
            return self._read_value(container, len(container), at)
        key = _KEY.match(self._text, at)
        if key is None or (name := _decoded(key[1])) in container:
            return False
        return self._read_value(container, name, key.end())

    def _read_value(self, parent: Any, key: Any, at: int) -> bool:
        first = self._text[at : at + 1]
        if first == '"':
            return self._read_string(parent, key, at + 1)
        if first in ("{", "["):
            return self._read_container(parent, key, at)
        return self._read_scalar(parent, key, at)

    def _read_container(self, parent: Any, key: Any, at: int) -> bool:
        if len(self._open) == MOST_DEPTH:
            return False
        is_object = self._text[at] == "{"
        container: Any = {} if is_object else []
        _store(parent, key, container)
        self._open.append((container, "}" if is_object else "]", str(key)))
        self.at = at + 1
        return True

    def _read_string(self, parent: Any, key: Any, at: int) -> bool:
        self.at = match_end(_STRING, self._text, at, len(self._text))
        value = _decoded(self._text[at : self.at])
        is_closed = self._text.startswith('"', self.at)
        if is_closed:
            self.at += 1
        else:
            self._open_string.append(str(key))
            if "\ud800" <= value[-1:] <= "\udbff":  # the other half of the pair may follow
                value = value[:-1]
        _store(parent, key, value)
        return is_closed

    def _read_scalar(self, parent: Any, key: Any, at: int) -> bool:
        scalar = read_strictly(self._text, at) if _SCALAR.match(self._text, at) else None
        if scalar is None:
            return False
        value, self.at = scalar
        _store(parent, key, value)
        return True

    def _skip_blank(self, at: int) -> int:
        return match_end(_BLANK, self._text, at, len(self._text))


def _store(parent: Any, key: Any, value: Any) -> None:
    if type(parent) is list:
        parent.append(value)
    else:
        parent[key] = value


def _decoded(content: str) -> str:
    return str(json.loads(f'"{content}"')) if "\\" in content else content
