"""What can be wrong with JSON and still be read, each under a name; and what cannot.

A `Repair` is a damage that was mended, with its place; `Mended` is the value that came of it;
`Damaged` says where reading had to be given up.
Used by everything that reads leniently.
"""

from typing import Any, Literal, NamedTuple

RepairName = Literal[
    "comment",
    "control_character",
    "digit_separators",
    "double_encoded",
    "doubled_braces",
    "duplicate_key",
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
    "tuple",
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


class Mended(NamedTuple):
    """A value that was read leniently.

    Attributes:
        value: What it says.
        end: Where it ends in the text.
        repairs: What was mended, in the order of places.
        complete: False if something had to be closed or was left out, so that a part may be
            missing.
        fragile: Its quotes were mended, which is only right if the text ends where the value does.
    """

    value: Any
    end: int
    repairs: tuple[Repair, ...]
    complete: bool
    fragile: bool


class Damaged(Exception):
    """Reading was given up: it cannot be mended, or in more ways than one.

    Attributes:
        why: What is wrong, as the end of a sentence that begins with the place.
        position: Where: an index into the text.
    """

    def __init__(self, why: str, position: int) -> None:
        super().__init__(why, position)
        self.why, self.position = why, position
