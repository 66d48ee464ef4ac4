"""JSON that arrives in pieces: what can be read of it so far, after every piece.

`JsonReader` goes on where it stopped, so the work is linear in the text however it is cut, and it never
raises: what is not JSON (as strict as `json.loads`, and without NaN and Infinity) ends the reading. What was
read is shown as live views that nobody can write to; `plain` makes an ordinary value of one. Good for
showing, never for running: a duplicate key wins here, and is refused where arguments are checked.

Knows nothing of tools, replies or wire formats. Used by `draft.py` for the arguments of tool calls.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

MOST_DEPTH = 200
"""Objects and arrays within each other; deeper nesting is refused, so that no view exhausts the stack."""
LONGEST_NUMBER = 4300
"""Characters after the sign; a longer number is refused, as Python itself refuses so many digits."""

_NUMBER_CHARACTERS = re.compile(r"[-+.eE0-9]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][-+]?[0-9]++)?")
_WORDS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_PLAIN = re.compile(r'"([^"\\\x00-\x1f]*+)"')  # a whole string that means what it says
_CHARACTERS = re.compile(r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+')
# The first half of a character outside the basic plane, unless what follows cannot be the second half.
_HALF = re.compile(r'\\u[dD][89abAB][0-9a-fA-F]{2}(?!"|\\u(?:[0-9abcefABCEF]|[dD][0-9abAB]))')
_CUT_ESCAPE = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")


class JsonReader:
    """Reads JSON text piece by piece.

    A string is shown as it grows, without an escape that is not complete. A number is shown up to where it
    is valid: "1.5e" as 1.5, "-" not at all. `true`, `false` and `null` are shown when they are complete, and
    a key when there is something of its value. After a text all is the same, however the text was cut.
    """

    __slots__ = ("_failed", "_held", "_next", "_open", "_place", "_root", "_text")

    def __init__(self) -> None:
        self._root: list[Any] = []  # the value, once there is one
        self._open: list[Any] = [self._root]  # and the dicts and lists that are not closed yet
        self._place: Any = 0  # where in the last of them the next value belongs: a key, or an index
        self._text: _Text | None = None  # the string that is being read, a key or a value
        self._held = ""  # the beginning of a number, word or escape, looked at again with the next piece
        self._next: Callable[[JsonReader, str, int], int] = JsonReader._value
        self._failed = False

    @property
    def value(self) -> Any:
        """What has been read, objects and arrays as live views; None before there is anything, and for null."""
        return _view(self._root[0]) if self._root else None

    @property
    def complete(self) -> bool:
        """Whether the text so far is a whole JSON value; a bare number may still go on after that."""
        if self._failed or len(self._open) > 1 or self._text is not None:
            return False
        return self._next is JsonReader._fail or _NUMBER.fullmatch(self._held) is not None

    @property
    def failed(self) -> bool:
        """Whether the text stopped being JSON; the value stays what it was, and what follows is ignored."""
        return self._failed

    def feed(self, text: str) -> None:
        """Read on."""
        if self._failed:
            return
        if self._held:
            text, self._held = self._held + text, ""
        at, end = 0, len(text)
        while at < end:
            if self._text is not None:
                at = self._characters(self._text, text, at)
            elif text[at] in " \t\n\r":
                at += 1
            else:
                at = self._next(self, text, at)

    # ---- what may come next: each step reads from `at` on, which is no white space, and says how far ----

    def _value(self, text: str, at: int) -> int:
        first = text[at]
        if first == '"':
            return self._string(text, at)
        if first in "{[":
            return self._begin({} if first == "{" else [], text, at)
        if first in "-0123456789":
            return self._number(text, at)
        return self._word(text, at)

    def _first_item(self, text: str, at: int) -> int:
        return self._close(at) if text[at] == "]" else self._value(text, at)

    def _first_key(self, text: str, at: int) -> int:
        return self._close(at) if text[at] == "}" else self._begin_key(text, at)

    def _begin_key(self, text: str, at: int) -> int:
        if text[at] != '"':
            return self._fail(text)
        self._text, self._next = _Text(), JsonReader._colon
        return at + 1

    def _colon(self, text: str, at: int) -> int:
        if text[at] != ":":
            return self._fail(text)
        self._next = JsonReader._value
        return at + 1

    def _comma(self, text: str, at: int) -> int:
        is_object = type(self._open[-1]) is dict
        if text[at] == ("}" if is_object else "]"):
            return self._close(at)
        if text[at] != ",":
            return self._fail(text)
        self._next = JsonReader._begin_key if is_object else JsonReader._value
        self._place = len(self._open[-1])
        return at + 1

    def _begin(self, container: Any, text: str, at: int) -> int:
        if len(self._open) > MOST_DEPTH:
            return self._fail(text)
        self._show(container)
        self._open.append(container)
        self._place = 0
        self._next = JsonReader._first_key if type(container) is dict else JsonReader._first_item
        return at + 1

    def _close(self, at: int) -> int:
        self._open.pop()
        self._done()
        return at + 1

    def _string(self, text: str, at: int) -> int:
        self._done()
        if whole := _PLAIN.match(text, at):
            self._show(whole[1])
            return whole.end()
        self._text = _Text()
        self._show(self._text)
        return at + 1

    def _characters(self, string: "_Text", text: str, at: int) -> int:
        """What follows within a string, and its closing quote."""
        found = _CHARACTERS.match(text, at)
        assert found  # it fits everywhere, if only nothing
        piece, end = found[0], found.end()
        if "\\" in piece:
            piece = json.loads(f'"{piece}"')
            if "\ud800" <= piece[-1] <= "\udbff" and _HALF.match(text, end - 6):
                piece, end = piece[:-1], end - 6
        string.pieces.append(piece)
        if text.startswith('"', end):
            self._text = None
            if self._next is JsonReader._colon:
                self._place = string.read()
            else:
                self._show(string.read())
            return end + 1
        if not _CUT_ESCAPE.match(text, end):
            return self._fail(text)
        self._held = text[end:]
        return len(text)

    def _number(self, text: str, at: int) -> int:
        found = _NUMBER_CHARACTERS.match(text, at)
        assert found
        number, end = found[0], found.end()
        longest = LONGEST_NUMBER + number.startswith("-")
        valid = _NUMBER.match(number, 0, longest)
        if valid:
            try:
                self._show(int(valid[0]) if valid.lastindex is None else float(valid[0]))
            except ValueError:  # this interpreter was told to refuse even fewer digits
                return self._fail(text)
        whole = valid is not None and valid.end() == len(number)
        # A number that one more digit would make valid has only begun.
        if end == len(text) and (whole or (len(number) <= longest and _NUMBER.fullmatch(number + "0"))):
            self._held = number
        elif whole:
            self._done()
        else:
            return self._fail(text)
        return end

    def _word(self, text: str, at: int) -> int:
        word, value = _WORDS.get(text[at], ("", None))
        if word and text.startswith(word, at):
            self._show(value)
            self._done()
            return at + len(word)
        if not word.startswith(text[at:]):
            return self._fail(text)
        self._held = text[at:]
        return len(text)

    def _show(self, value: Any) -> None:
        """Put the value that is being read in its place, for the first time or again."""
        into = self._open[-1]
        if type(into) is list and self._place == len(into):
            into.append(value)
        else:
            into[self._place] = value

    def _done(self) -> None:
        self._next = JsonReader._comma if len(self._open) > 1 else JsonReader._fail

    def _fail(self, text: str, at: int = 0) -> int:
        self._failed = True
        return len(text)


# ---- what is shown --------------------------------------------------------------------------------------


class _Text:
    """A string that grows. It stands in its dict or list until it is complete."""

    __slots__ = ("_read", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._read = ""

    def read(self) -> str:
        if self.pieces:
            # With no second reference CPython appends in place: looking after every piece stays linear.
            text, self._read = self._read, ""
            text += "".join(self.pieces)
            self._read = text
            self.pieces.clear()
        return self._read


class _View:
    __slots__ = ("_data",)

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return repr(plain(self))


class ObjectView(_View, Mapping[str, Any]):
    """A JSON object as far as it was read: equal to a dict of the same content, and read-only."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        return _view(self._data[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __eq__(self, other: object) -> bool:
        return dict(plain(other)) == plain(self) if isinstance(other, Mapping) else NotImplemented


class ArrayView(_View, Sequence[Any]):
    """A JSON array as far as it was read: equal to a list of the same content, and read-only."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        return _view(self._data[index])

    def __eq__(self, other: object) -> bool:
        return plain(other) == plain(self) if isinstance(other, list | ArrayView) else NotImplemented


def plain(value: Any) -> Any:
    """A copy of a view as it is now, of dicts and lists that are yours; any other value as it is."""
    whole = [value._data if isinstance(value, _View) else value]
    copies: list[Any] = [whole] if isinstance(value, _View) else []
    for copy in copies:  # grows on the way: no recursion
        for place, each in copy.items() if type(copy) is dict else enumerate(copy):
            if type(each) is _Text:
                copy[place] = each.read()
            elif type(each) in (dict, list):
                copy[place] = each.copy()
                copies.append(copy[place])
    return whole[0]


_VIEWS: dict[type, Callable[[Any], Any]] = {dict: ObjectView, list: ArrayView, _Text: _Text.read}


def _view(data: Any) -> Any:
    view = _VIEWS.get(type(data))
    return view(data) if view else data
