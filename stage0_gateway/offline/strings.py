"""A text for one string parameter: what kind of text its name and description ask for, and where it stands.

Knows pieces of questions and names of parameters, not schemas and not tools. Optional parameters are
filled only from a piece that is clearly theirs. Used by `filling.py`.
"""

import re
from itertools import dropwhile

from stage0_gateway.offline.names import find_name
from stage0_gateway.offline.pieces import Kind, Piece, Sheet
from stage0_gateway.offline.wanted import FREE, Wanted
from stage0_gateway.offline.words import STOP_WORDS, meaning, meanings, says_nothing

_SHAPES: tuple[tuple[Kind, str], ...] = (
    ("email", "email mail recipient"),
    ("url", "url uri link website webpage endpoint"),
    ("path", "path file filename directory folder"),
    ("date", "date day deadline birthday"),
    ("time", "time hour"),
    ("code", "id code identifier key reference"),
)
_SHAPE_OF = {meaning(word): kind for kind, words in _SHAPES for word in words.split()}


_FORMULA = meanings("expression formula equation calculation")
_SPELLED = (("plus", "+"), ("minus", "-"), ("times", "*"), ("multiplied by", "*"), ("divided by", "/"))
_SUMS = re.compile(r"[\d\s+\-*/^().%×÷]{3,}")


def find_text(want: Wanted, form: str, sheet: Sheet, subject: frozenset[str]) -> str | None:
    """The text in the question for this parameter, or None.

    Args:
        want: The parameter.
        form: The schema's `format`, such as "date" or "email"; may be empty.
        sheet: The question.
        subject: The words of the tool's name, which are not part of a free text.
    """
    piece = _shaped(want, form, sheet)
    if piece is not None:
        return sheet.use(piece).text
    if (spelled := _spelled_out(want, sheet)) is not None:
        return spelled
    if want.asks_for(_FORMULA):
        return find_expression(sheet.text)
    if want.is_called(FREE):
        return _free_text(want, sheet, subject)
    return find_name(want, sheet, subject)


def find_expression(text: str) -> str | None:
    """The longest arithmetic expression: a stretch of digits and signs that holds a number on both ends."""
    for spelled, sign in _SPELLED:
        text = text.replace(f" {spelled} ", f" {sign} ")
    runs = [run.strip(" \t\n*/+^.%×÷") for run in _SUMS.findall(text)]
    sums = [run for run in runs if re.search(r"\d\)?\s?[-+*/^%×÷]\s?[(\d-]", run)]
    return max(sums, key=len, default=None)


def _shaped(want: Wanted, form: str, sheet: Sheet) -> Piece | None:
    asked_for = (meaning(form.partition("-")[0]), *want.words[: want.own])
    kinds = [_SHAPE_OF[word] for word in asked_for if word in _SHAPE_OF]
    for kind in kinds:
        for piece in sheet.free(kind):
            return piece
    return None


def _spelled_out(want: Wanted, sheet: Sheet) -> str | None:
    """What follows the parameter's own name: `title: Dune`, `color is red`, `named Rex`."""
    name = re.escape(want.name[:60].replace("_", " "))
    found = re.search(
        rf"(?i)\b{name}(?: (?:is|called|named|set to) | ?[=:] ?)([^\s,;.?!]{{1,100}})", sheet.text
    )
    if found is None or found[1].lower() in STOP_WORDS:
        return None
    for piece in sheet.free("quoted", "name", "weak_name", "number", "code"):
        if piece.start <= found.start(1) < piece.end:
            return sheet.use(piece).text
    return found[1].strip("\"'“”")


def _free_text(want: Wanted, sheet: Sheet, subject: frozenset[str]) -> str | None:
    for piece in sheet.free("quoted"):
        return sheet.use(piece).text
    if not want.required:
        return None
    after = re.search(r"(?<=[^\W\d_]):\s|\b(?:saying|that says)\s|：", sheet.text)
    if after and sheet.text[after.end() :].strip():
        return sheet.text[after.end() :].strip()
    return _without_subject(sheet.text, subject) or None


def _without_subject(text: str, subject: frozenset[str]) -> str:
    """The question without the words at its start that only ask, or name the tool."""
    words = list(dropwhile(lambda word: says_nothing(word, subject), text.split()))
    return " ".join(words).rstrip("?.! ？。！")
