"""Where the reading of damaged JSON has come to in its text, and what was mended on the way.

Knows gaps and marks; nothing of what they mean. Used by `repair.py`.
"""

from stage2_output.parsing.errors import Repair, RepairName
from stage2_output.parsing.whitespace import skip_gap, wrapping_ends

FULLWIDTH = {"｛": "{", "｝": "}", "［": "[", "］": "]", "，": ",", "：": ":"}
"""The marks of JSON as they are typed in Chinese and Japanese, and what they stand for."""


class Cursor:
    """A place in a text that moves on.

    Attributes:
        text: The text.
        at: The place: an index into it.
        end: Where the text is taken to end.
        repairs: What was mended so far.
    """

    def __init__(self, text: str, at: int, end: int) -> None:
        self.text, self.at, self.end = text, at, end
        self.repairs: list[Repair] = []

    def gap(self) -> None:
        """Go on behind white space and comments."""
        self.at = skip_gap(self.text, self.at, self.end, self.repairs)

    def at_end(self) -> bool:
        """Whether the text ends here, or what is wrapped around the JSON does."""
        if self.at >= self.end:
            return True
        return self.text[self.at] in "`<" and wrapping_ends(self.text, self.at, self.end)

    def mark(self) -> str:
        """The mark that stands here, as ASCII."""
        mark = self.text[self.at]
        if mark in FULLWIDTH:
            self.mended("fullwidth_punctuation")
            return FULLWIDTH[mark]
        return mark

    def mended(self, name: RepairName) -> None:
        """Note what is mended here; once, however often it is looked at."""
        repair = Repair(name, self.at)
        if self.repairs[-1:] != [repair]:
            self.repairs.append(repair)
