"""Values of this stage: extracted JSON, its repairs, validation issues and the final result.

Every other module of the stage uses these values. They contain no logic.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Source = Literal["bare", "fenced", "tagged", "prose", "code", "thinking"]
"""Location of JSON in a text: the whole text, a code fence for JSON, behind a tag such as
<tool_call>, between words, in a fence with other code, or in a thinking block."""

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
]
"""Name of an error in JSON that the lenient parser can repair."""


class Repair(NamedTuple):
    """One repaired error.

    Attributes:
        name: The error, such as "trailing_comma".
        position: Index of the error in the text.
    """

    name: RepairName
    position: int


@dataclass(frozen=True, slots=True)
class Extraction:
    """A JSON value found in a text.

    Attributes:
        value: The value, as `json.loads` returns it.
        start: Index of its first character in the text.
        end: Index behind its last character; `text[start:end]` is the source text of the value.
        source: Location of the value in the text.
        repairs: Repaired errors; empty for valid JSON.
        complete: False if the value may be a part of the intended one, because the parser closed a
            bracket or quote, the model left something out, or the reply was truncated.
        open: JSON pointers to the parts that are still open, outermost first; set by
            `parse_partial` only.
    """

    value: Any
    start: int
    end: int
    source: Source
    repairs: tuple[Repair, ...] = ()
    complete: bool = True
    open: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InvalidJson:
    """A part of a text that begins like JSON but cannot be read.

    Attributes:
        start: Index of its first character in the text.
        problem: Description of the error, as the predicate of a sentence.
        position: Index of the error in the text.
        source: Location of the part in the text.
    """

    start: int
    problem: str
    position: int
    source: Source

    def __str__(self) -> str:
        """Describe the error in one sentence."""
        return (
            f"The JSON that begins at character {self.start} {self.problem}"
            f" (at character {self.position})."
        )


@dataclass(frozen=True, slots=True)
class Issue:
    """One validation error.

    Attributes:
        path: JSON pointer to the invalid part; "" is the root value.
        message: Description of the error, without the value.
        rule: The violated keyword of the schema, such as "type" or "required".
        expected: The violated part of the schema.
        hint: The received keys and the probable correction, or None.
    """

    path: str
    message: str
    rule: str
    expected: Any = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The result of parsing and validating a text.

    Attributes:
        success: Whether `data` is valid.
        data: The value if it was found, is complete and valid; else None.
        errors: All issues; empty on success.
        raw: The text.
        extraction: The position and the repairs of the value; None if no value was found.
        coerced: The changes made by `coerce=True`, each with its JSON pointer.
        attempts: Number of requested replies; 0 if the text was passed in.
        usage: Sum of the usage of these replies, as the chat reports it, or None.
    """

    success: bool
    data: Any
    errors: tuple[Issue, ...]
    raw: str = field(repr=False)
    extraction: Extraction | None = None
    coerced: tuple[str, ...] = ()
    attempts: int = 0
    usage: Any = None
