"""Results of lenient parsing: a repaired value, or the error that ended the parsing.

Used by every module of this room that repairs JSON.
"""

from typing import Any, NamedTuple

from stage2_output.result import Repair


class Repaired(NamedTuple):
    """A value that was read leniently.

    Attributes:
        value: The value.
        end: Index behind its last character in the text.
        repairs: Repaired errors, sorted by position.
        complete: False if a part may be missing, because the parser closed a bracket or quote or
            found an ellipsis.
        fragile: Whether quotes were repaired. This is safe only if the text ends with the value.
    """

    value: Any
    end: int
    repairs: tuple[Repair, ...]
    complete: bool = True
    fragile: bool = False


class Unrepairable(Exception):
    """The JSON cannot be repaired, or can be repaired in more than one way.

    Attributes:
        problem: Description of the error, as the predicate of a sentence about the JSON.
        position: Index of the error in the text.
    """

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem, position)
        self.problem, self.position = problem, position
