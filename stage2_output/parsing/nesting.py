"""The stack of objects and arrays that are open while invalid JSON is read.

The stack limits the nesting depth, lists the expected closing brackets and compares the values of
duplicate keys. It does not know the text. Used by the lenient parser.
"""

import json
from typing import Any, Literal

from stage2_output.parsing.errors import Unrepairable
from stage2_output.parsing.strict import MOST_DEPTH, TooDeep

_CLOSERS = {"{": "}", "[": "]", "(": ")"}


class Frame:
    """An open object, array or tuple.

    Args:
        bracket: Its opening bracket.

    Attributes:
        value: The value so far.
        closer: The bracket that closes it.
        state: The last part that was read: nothing ("first"), a comma before any value
            ("leading"), a "value", or the "comma" behind a value.
        comma: Index of the last comma.
        key: The key whose value is being read.
        double_braces: Whether it began with two braces and must end with two.
        bare_text: Whether its last value was a string without quotes.
    """

    def __init__(self, bracket: str) -> None:
        self.value: Any = {} if bracket == "{" else []
        self.closer = _CLOSERS[bracket]
        self.state: Literal["first", "leading", "value", "comma"] = "first"
        self.comma = 0
        self.key = ""
        self.double_braces = False
        self.bare_text = False
        self._duplicates: list[tuple[str, int, Any]] = []

    def add_duplicate(self, key: str, position: int) -> None:
        """Record a duplicate key and its index in the text; `close` compares the values."""
        self._duplicates.append((key, position, self.value[key]))

    def add(self, value: Any) -> None:
        """Append an item, or store the value of the current key."""
        if self.closer == "}":
            self.value[self.key] = value
        else:
            self.value.append(value)
        self.state, self.bare_text = "value", False

    def close(self) -> None:
        """Restore the first value of each duplicate key.

        Raises:
            Unrepairable: A duplicate key has a different value.
        """
        for key, position, value in reversed(self._duplicates):
            # Values that are equal and of the same types: 1 differs from 1.0.
            if json.dumps(value, sort_keys=True) != json.dumps(self.value[key], sort_keys=True):
                raise Unrepairable(f'has the key "{key[:60]}" twice in one object', position)
            self.value[key] = value


class Nesting:
    """The stack of open frames.

    Attributes:
        frames: The open frames, innermost last.
        closers: The expected closing brackets, innermost first.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.closers = ""

    def open(self, bracket: str) -> Frame:
        """Open an object, array or tuple inside the innermost frame.

        Raises:
            TooDeep: The maximum depth is reached.
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
        """Close the innermost frame.

        Raises:
            Unrepairable: A duplicate key has a different value.
        """
        self.frames.pop().close()
        self.closers = self.closers[1:]

    def close_all(self) -> None:
        """Close all frames, innermost first.

        Raises:
            Unrepairable: A duplicate key has a different value.
        """
        while self.frames:
            self.close()
