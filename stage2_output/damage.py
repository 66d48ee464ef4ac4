"""What can be wrong with JSON and still be read, each under a name; and what cannot.

A `Repair` is a damage that was mended, with its place; `Damaged` says where reading had to be given up.
Used by everything that reads leniently.
"""

from typing import Literal, NamedTuple

RepairName = Literal[
    "comment",
    "control_character",
    "double_encoded",
    "doubled_braces",
    "ellipsis",
    "escaped_json",
    "extra_closer",
    "fullwidth_punctuation",
    "invalid_escape",
    "joined_strings",
    "leading_comma",
    "literal",
    "missing_closer",
    "missing_colon",
    "missing_comma",
    "missing_quote",
    "number",
    "single_quotes",
    "smart_quotes",
    "special_space",
    "trailing_comma",
    "trailing_text",
    "triple_quotes",
    "unescaped_newline",
    "unescaped_quote",
    "unquoted_key",
    "unquoted_text",
    "wrong_closer",
]


class Repair(NamedTuple):
    """One damage that was mended.

    Attributes:
        name: What it was, such as "trailing_comma".
        position: Where it stood: an index into the text.
    """

    name: RepairName
    position: int


class Damaged(Exception):
    """Reading was given up: it cannot be mended, or in more ways than one.

    Attributes:
        why: What is wrong, as the end of a sentence that begins with the place.
        position: Where: an index into the text.
    """

    def __init__(self, why: str, position: int) -> None:
        super().__init__(why, position)
        self.why, self.position = why, position
