"""Find every JSON value in a text, and every part that begins like JSON but cannot be read.

A text that is one JSON value is read at once. In other texts the scanner visits marks (fences,
tags, brackets). It reads the value at a bracket strictly, then leniently, and skips its content.
A value inside an invalid one is never returned.

The time is linear in the length of the text. The scan ends at an invalid value, except where the
end of the invalid part is known: other code ends with its fence, a mention with its backtick.
Lenient reading stops there, so no part of the text is read leniently more than a few times. The
number of lenient reads is limited too.

This room knows no schemas. `extract.py` and the controller choose between the candidates.
"""

from dataclasses import replace
from typing import Any

from stage2_output.extraction import lookaround
from stage2_output.extraction.markup import BLANK, MarkupScanner, next_mark
from stage2_output.parsing.encoded import BEGINS_ESCAPED, read_encoded, read_escaped
from stage2_output.parsing.errors import Unrepairable
from stage2_output.parsing.lenient import LenientReader
from stage2_output.parsing.strict import IntactParts, TooDeep, read_strictly
from stage2_output.parsing.strings import UnclosedRanges
from stage2_output.result import Extraction, InvalidJson, Repair, Source

MOST_CANDIDATES = 10_000
"""Maximum number of values read in one text; the next value counts as invalid."""

MOST_LENIENT_READS = 1000
"""Maximum number of values read leniently in one text; the next one counts as invalid."""

_CLOSING_MARKUP = {"fenced": "```", "code": "```", "tagged": "</"}
_MOST_GUESSES = 8  # brackets without JSON's look that are read nevertheless
_MOST_LOOKAHEADS = 8  # searches in the complete text behind a value
_LONGEST_INLINE_CODE = 300  # characters
_TOO_DEEP = "is nested too deeply"


def candidates(text: str) -> list[Extraction | InvalidJson]:
    """Return every value and every invalid part of a text, in order.

    Raises:
        TypeError: The text is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"A model's text must be a str, not {type(text).__name__}.")
    start, end = len(text) - len(text.lstrip(BLANK)), len(text.rstrip(BLANK))
    try:
        first = read_strictly(text, start)
    except TooDeep:
        return [InvalidJson(start, _TOO_DEEP, start, "prose")]
    if first is not None and first[1] == end:
        return _single_value(first[0], start, end, "bare")
    markup = MarkupScanner(text)
    scalar_start, scalar_end, source = markup.scalar_range()
    if scalar_start > start or text[start : start + 1] not in "{[":
        scalar = text[scalar_start:scalar_end]
        found = read_strictly(scalar, 0) if scalar[:1] not in "{[" else None
        if found is not None and found[1] == len(scalar):
            return _single_value(found[0], scalar_start, scalar_end, source)
    return _Scanner(text, markup, start, end, first).candidates()


def _single_value(
    value: Any, start: int, end: int, source: Source
) -> list[Extraction | InvalidJson]:
    """Return a value that is the only one, and the object or array that a string encodes."""
    extraction = Extraction(value, start, end, source)
    if isinstance(value, str) and (encoded := read_encoded(value, start, end)):
        return [extraction, replace(extraction, value=encoded.value, repairs=encoded.repairs)]
    return [extraction]


class _Scanner:
    """One pass over a text.

    Args:
        text: The text.
        markup: The markup of the text.
        start: Index of its first character that is not blank.
        end: Index behind its last character that is not blank.
        first: The result of reading strictly at `start`.
    """

    def __init__(
        self, text: str, markup: MarkupScanner, start: int, end: int, first: tuple[Any, int] | None
    ) -> None:
        self._text, self._markup = text, markup
        self._start, self._end, self._first = start, end, first
        self._intact = IntactParts(text)
        self._unclosed: UnclosedRanges = {}
        self._guesses = self._lookaheads = self._lenient_reads = 0
        self._all_valid = True

    def candidates(self) -> list[Extraction | InvalidJson]:
        found: list[Extraction | InvalidJson] = []
        thoughts = 0  # number of candidates in thinking blocks that began in the prompt
        position: int | None = 0
        while position is not None and (mark := next_mark(self._text, position)):
            position = mark.end()
            if mark["bracket"]:
                candidate = self._candidate(mark.start())
                if candidate is None:
                    continue
                if isinstance(candidate, InvalidJson) and (
                    end := self._enclosing_code_end(candidate.start, candidate.source)
                ):
                    position = end + 1  # invalid JSON in code is ignored
                    continue
                if len(found) == MOST_CANDIDATES:
                    start = candidate.start
                    problem = "is one value too many"
                    candidate = InvalidJson(start, problem, start, candidate.source)
                found.append(candidate)
                position = self._next_position(candidate)
            elif self._markup.consume(mark):  # everything before the mark is thinking
                found[thoughts:] = [replace(each, source="thinking") for each in found[thoughts:]]
                thoughts = len(found)
        return found

    def _next_position(self, candidate: Extraction | InvalidJson) -> int | None:
        """Return where the scan continues, or None if the remaining text may belong to the value.

        A fence or a closing tag ends an incomplete value. It ends an unclosed string only if the
        value is inside such a fence or tag, because elsewhere it may be part of the string.
        """
        if isinstance(candidate, Extraction) and (
            candidate.complete or self._ends_at_markup(candidate)
        ):
            return candidate.end
        return self._markup.end(candidate.start) if candidate.source == "thinking" else None

    def _ends_at_markup(self, value: Extraction) -> bool:
        is_in_string = any(repair.name == "missing_quote" for repair in value.repairs)
        mark = lookaround.closing_markup(self._text, value.end)
        return mark == _CLOSING_MARKUP.get(value.source) if is_in_string else bool(mark)

    def _enclosing_code_end(self, start: int, source: Source) -> int | None:
        """Return the end of the code fence or inline code around a bracket; None outside both."""
        if (end := self._markup.code_end(start)) is not None:
            return end
        if source == "prose" and self._text[start - 1 : start] == "`":
            line = self._text[start : start + _LONGEST_INLINE_CODE].partition("\n")[0]
            return start + line.index("`") if "`" in line else None
        return None

    def _candidate(self, start: int) -> Extraction | InvalidJson | None:
        """Read the value at a bracket; return None if the bracket does not begin JSON."""
        text, source = self._text, self._markup.source(start)
        is_first = start == self._markup.answer_start
        is_other = (
            lookaround.is_subscript(text, start)
            or lookaround.is_checkbox(text, start)
            or lookaround.is_quoted_bracket(text, start)
        )
        may_be_bare = is_first or source in ("fenced", "tagged")
        is_likely = lookaround.begins_json(text, start) and (is_first or not is_other)
        if not is_likely:
            # Brackets around bare words, as in `[a, b]`, are read outside prose, and not too often.
            if not may_be_bare or self._guesses == _MOST_GUESSES:
                return None
            self._guesses += 1
        try:
            return self._checked(self._read(start, source))
        except Unrepairable as error:
            if not is_likely and (not may_be_bare or lookaround.is_placeholder(text, start)):
                return None
            return InvalidJson(start, error.problem, error.position, source)
        except TooDeep:
            return InvalidJson(start, _TOO_DEEP, start, source)

    def _read(self, start: int, source: Source) -> Extraction:
        """Read the value at a bracket, strictly if possible, else leniently."""
        text, end = self._text, self._markup.end(start)
        if self._all_valid and text[start] in "{[":
            strict = self._first if start == self._start else read_strictly(text, start)
            self._all_valid = strict is not None
        else:
            strict = self._intact.read(start, end)
        if strict is not None:
            return Extraction(strict[0], start, strict[1], source)
        self._lenient_reads += 1
        if self._lenient_reads > MOST_LENIENT_READS:
            raise Unrepairable("is one invalid value too many", start)
        code_end = self._enclosing_code_end(start, source)
        end = end if code_end is None else code_end
        if BEGINS_ESCAPED.match(text, start, end):
            value = read_escaped(text, start, end)
        else:
            value = LenientReader(text, start, end, self._intact, self._unclosed).read()
        if source == "prose" and value.end == code_end and not value.complete:
            raise Unrepairable("is not closed within its backticks", value.end)
        line = text[value.end : value.end + 1000].partition("\n")[0]
        if value.fragile and ('"' in line or "'" in line):
            raise Unrepairable("has quotes that can be read in more ways than one", value.end)
        return Extraction(value.value, start, value.end, source, value.repairs, value.complete)

    def _checked(self, found: Extraction) -> Extraction:
        """Check the text behind a value, which may show that the value is only a part.

        Raises:
            Unrepairable: The value continues.
        """
        text, start, end = self._text, found.start, found.end
        is_first = start == self._markup.answer_start
        is_answer = is_first or found.source in ("fenced", "tagged")
        is_in_quotes = start > 0 and text[start - 1] in "\"'"
        closers_end = lookaround.extra_closers_end(text, end)
        if (
            (lookaround.continues(text, end) and not is_in_quotes)
            or (is_answer and lookaround.is_glued(text, end))
            or (closers_end > end and lookaround.continues_behind_closers(text, closers_end))
            or self._is_item(end)
        ):
            raise Unrepairable("continues behind its last bracket", end)
        if closers_end > end and is_answer:
            found = replace(found, repairs=(*found.repairs, Repair("extra_closer", end)))
        if start == self._start and closers_end >= self._end:
            return replace(found, source="bare")
        if is_first and not lookaround.ends_line(text, closers_end):
            return replace(found, repairs=(*found.repairs, Repair("trailing_text", closers_end)))
        return found

    def _is_item(self, end: int) -> bool:
        """Whether a value is an item of an array whose beginning could not be read."""
        if self._lookaheads >= _MOST_LOOKAHEADS or not lookaround.is_comma_next(self._text, end):
            return False
        self._lookaheads += 1
        return lookaround.closes_unopened(self._text, end)
