"""The objects and arrays that are open while damaged JSON is read, the innermost last.

This module knows how deep they may be, which brackets are still to come, and that duplicate keys
must have equal values. It knows nothing of the text. Used by `repair.py`.
"""

from typing import Any, Literal

from stage2_output.parsing.errors import Damaged
from stage2_output.parsing.strict import MOST_DEPTH, TooDeep, are_identical

_CLOSERS = {"{": "}", "[": "]", "(": ")"}


class Frame:
    """An object, array or tuple that is open.

    Args:
        bracket: The bracket that opened it.

    Attributes:
        value: What it holds so far.
        closer: The bracket that closes it.
        state: What was read last of it: nothing ("first"), a comma before anything ("leading"), a
            "value", or the "comma" behind one.
        comma: Where the last comma stood.
        key: The key whose value is being read.
        doubled: It began with two braces and needs as many to end.
        bare_text: Its last value was text without quotes.
    """

    __slots__ = ("_duplicates", "bare_text", "closer", "comma", "doubled", "key", "state", "value")

    def __init__(self, bracket: str) -> None:
        self.value: Any = {} if bracket == "{" else []
        self.closer = _CLOSERS[bracket]
        self.state: Literal["first", "leading", "value", "comma"] = "first"
        self.comma = 0
        self.key = ""
        self.doubled = False
        self.bare_text = False
        self._duplicates: list[tuple[str, int, Any]] = []

    def repeat(self, key: str, place: int) -> None:
        """Note that a key appears again at a place in the text; `close` compares the values."""
        self._duplicates.append((key, place, self.value[key]))

    def close(self) -> None:
        """Keep the first value of each duplicate key.

        Raises:
            Damaged: A duplicate key has another value.
        """
        for key, place, value in reversed(self._duplicates):
            if not are_identical(value, self.value[key]):
                raise Damaged(f'has the key "{key[:60]}" twice in one object', place)
            self.value[key] = value

    def add(self, value: Any) -> None:
        """Put a value in its place."""
        if self.closer == "}":
            self.value[self.key] = value
        else:
            self.value.append(value)
        self.state, self.bare_text = "value", False


class Nesting:
    """The frames that are open.

    Attributes:
        frames: All of them, the innermost last.
        closers: The brackets that are still to come, the innermost first.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.closers = ""

    def open(self, bracket: str) -> Frame:
        """Open an object, array or tuple in the innermost open one.

        Raises:
            TooDeep: There are too many around it.
        """
        if len(self.frames) >= MOST_DEPTH:
            raise TooDeep
        frame = Frame(bracket)
        if self.frames:
            self.frames[-1].add(frame.value)
        self.frames.append(frame)
        self.closers = frame.closer + self.closers
        return frame

    def close(self) -> None:
        """Close the innermost.

        Raises:
            Damaged: It has a duplicate key with different values.
        """
        self.frames.pop().close()
        self.closers = self.closers[1:]

    def close_all(self) -> None:
        """Close all, the innermost first.

        Raises:
            Damaged: One has a duplicate key with different values.
        """
        while self.frames:
            self.close()
