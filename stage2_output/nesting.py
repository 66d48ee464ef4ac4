"""The objects and arrays that are open while damaged JSON is read, the innermost last.

Knows how deep they may be and which brackets are still to come; nothing of the text. Used by `repair.py`.
"""

from typing import Any, Literal

from stage2_output.strict import MOST_DEPTH, TooDeep


class Frame:
    """An object or array that is open.

    Attributes:
        value: What it holds so far.
        closer: The bracket that closes it.
        state: What was read last of it: nothing ("first"), a comma before anything ("leading"), a "value", or the
            "comma" behind one.
        comma: Where the last comma stood.
        key: The key whose value is being read.
        doubled: It began with two braces and needs as many to end.
        bare_text: Its last value was text without quotes.
    """

    __slots__ = ("bare_text", "closer", "comma", "doubled", "key", "state", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.closer = "}" if isinstance(value, dict) else "]"
        self.state: Literal["first", "leading", "value", "comma"] = "first"
        self.comma = 0
        self.key = ""
        self.doubled = False
        self.bare_text = False

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
        """A new object or array, in its place in the one around it.

        Raises:
            TooDeep: There are too many around it.
        """
        if len(self.frames) >= MOST_DEPTH:
            raise TooDeep
        value: Any = {} if bracket == "{" else []
        if self.frames:
            self.frames[-1].add(value)
        self.frames.append(Frame(value))
        self.closers = self.frames[-1].closer + self.closers
        return self.frames[-1]

    def close(self) -> None:
        """The innermost is closed."""
        self.frames.pop()
        self.closers = self.closers[1:]

    def close_all(self) -> None:
        """All are closed."""
        self.frames.clear()
        self.closers = ""
