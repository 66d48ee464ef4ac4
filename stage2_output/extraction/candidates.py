"""Every JSON value in a text, and every stretch that only begins like one.

The walk visits marks (fences, tags, brackets). A value that begins at a bracket is read strictly,
then leniently; its inside is skipped, marks included. A value inside a broken one is never
returned.

The time is linear in the length of the text. The walk ends at a broken value, except where the end
of the broken part is known: other code ends with its fence, a mention with its backtick. Lenient
reading stops there, so no stretch of text is read leniently more than a few times. The number of
lenient readings is bounded too.

Knows neither schemas nor which value was meant: `extract.py` and the controller choose.
"""

from dataclasses import dataclass, replace
from typing import Any

from stage2_output.extraction import lookaround as clues
from stage2_output.extraction.markup import BLANK, Source, Surroundings, next_mark, scalar_place
from stage2_output.parsing.encoded import BEGINS_ESCAPED, read_encoded, read_escaped
from stage2_output.parsing.errors import Damaged, Repair
from stage2_output.parsing.strict import IntactParts, TooDeep, read_strictly

_WRAPPING_OF = {"fenced": "```", "code": "```", "tagged": "</"}
_MOST_GUESSES = (
    8  # brackets that do not look like JSON and are tried all the same, alone or in a fence
)
_MOST_LOOKS = 8  # how often all the text behind a value is looked at
_LONGEST_MENTION = 300  # characters in which the closing backtick of inline code is searched
MOST_PIECES = 10_000
"""Maximum number of values read in one text; the next value counts as broken."""

MOST_DAMAGED = 1000
"""Maximum number of values read leniently in one text; the next damaged value counts as broken."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """A JSON value found in a text.

    Attributes:
        value: The value, as `json.loads` gives it.
        start: Where it begins in the text.
        end: Where it ends; `text[start:end]` is what the model wrote.
        source: Where it was found: "bare" (the text is nothing else), "fenced", "tagged", "prose"
            or "thinking".
        repairs: What had to be mended to read it; empty for valid JSON.
        complete: False if something had to be closed or was left out, or the model was cut off: the
            value may be a part of what was meant.
        open: JSON pointers to what is not closed yet, the outermost first; only `parse_partial`
            says so.
    """

    value: Any
    start: int
    end: int
    source: Source
    repairs: tuple[Repair, ...] = ()
    complete: bool = True
    open: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """A stretch of text that begins like JSON and cannot be read.

    Attributes:
        start: Where it begins.
        why: What is wrong, as the end of a sentence.
        position: Where that is.
        source: Where it was found.
    """

    start: int
    why: str
    position: int
    source: Source

    def __str__(self) -> str:
        """The sentence that says so."""
        return f"The JSON that begins at character {self.start} {self.why} (at character {self.position})."


def candidates(text: str) -> list[Extraction | Broken]:
    """Every value and every broken stretch in a text, in order.

    Raises:
        TypeError: It is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"What a model wrote is text (str), not {type(text).__name__}.")
    return _scalar(text) or _Walk(text).pieces()


def _scalar(text: str) -> list[Extraction | Broken]:
    """A text that is one string, number or literal; and the object or list that such a string may
    hold.
    """
    whole = _skip_blank(text, 0), len(text.rstrip(BLANK))
    if text[whole[0] : whole[0] + 1] in "{[":
        return []
    places: list[tuple[int, int, Source]] = [(*whole, "bare"), scalar_place(text)]
    for start, end, source in places:
        bare = text[start:end]
        found = read_strictly(bare, 0) if bare and bare[0] not in "{[" else None
        if found is None or found[1] != len(bare):
            continue
        scalar = Extraction(found[0], start, end, source)
        encoded = read_encoded(bare, start) if isinstance(found[0], str) else None
        if encoded is None:
            return [scalar]
        return [scalar, replace(scalar, value=encoded.value, repairs=encoded.repairs)]
    return []


class _Walk:
    def __init__(self, text: str) -> None:
        self._text = text
        self._around = Surroundings(text)
        self._intact = IntactParts(text)
        self._unclosed: dict[str, tuple[int, int]] = {}
        self._beginning = self._first = _skip_blank(
            text, 0
        )  # of the text, and of it without its thoughts
        self._last = len(text.rstrip(BLANK))
        self._guesses = 0
        self._looks = 0
        self._damaged = 0
        self._sound = True  # nothing was found damaged yet

    def pieces(self) -> list[Extraction | Broken]:
        pieces: list[Extraction | Broken] = []
        position: int | None = 0
        thoughts = 0
        while position is not None and (mark := next_mark(self._text, position)):
            position = mark.end()
            if mark["bracket"]:
                piece = self._piece(mark.start())
                if isinstance(piece, Broken) and (
                    end := self._known_end(piece.start, piece.source)
                ):
                    position = end + 1  # what is broken there was not meant
                    continue
                if len(pieces) == MOST_PIECES and piece is not None:
                    piece = Broken(piece.start, "is one value too many", piece.start, piece.source)
                if piece is not None:
                    pieces.append(piece)
                    position = self._behind(piece)
            else:
                if self._around.pass_by(mark):  # all before it was thinking
                    pieces[thoughts:] = [
                        replace(each, source="thinking") for each in pieces[thoughts:]
                    ]
                    thoughts = len(pieces)
                if mark["closing"]:
                    self._first = _skip_blank(self._text, position)
        return pieces

    def _behind(self, piece: Extraction | Broken) -> int | None:
        """Where the walk continues; None if everything behind a piece may belong to it, so that it
        is not trusted.

        A fence or a closing tag ends an unfinished value. It ends an unfinished string only if the
        value is in such a fence or tag: elsewhere it may be a part of the string.
        """
        if isinstance(piece, Extraction) and (piece.complete or self._is_wrapped(piece)):
            return piece.end
        return self._around.end(piece.start) if piece.source == "thinking" else None

    def _is_wrapped(self, piece: Extraction) -> bool:
        in_string = any(repair.name == "missing_quote" for repair in piece.repairs)
        mark = clues.wrapping(self._text, piece.end)
        return mark == _WRAPPING_OF.get(piece.source) if in_string else bool(mark)

    def _known_end(self, start: int, source: Source) -> int | None:
        """The end of the other code or the inline code that a bracket stands in; None outside of
        both.
        """
        if (end := self._around.end_of_code(start)) is not None:
            return end
        if source == "prose" and self._text[start - 1 : start] == "`":
            line = self._text[start : start + _LONGEST_MENTION].partition("\n")[0]
            return start + line.index("`") if "`" in line else None
        return None

    def _piece(self, start: int) -> Extraction | Broken | None:
        """What begins at a bracket; None if that is no JSON at all."""
        source = self._around.source(start)
        text = self._text
        no_json = clues.is_index(text, start) or (
            source == "prose" and (clues.is_check_box(text, start) or clues.is_quoted(text, start))
        )
        likely = clues.begins(text, start) and not (no_json and start != self._first)
        if not likely and not self._may_guess(start, source):
            return None
        try:
            return self._checked(self._read(start, source))
        except Damaged as damaged:
            alone = start == self._first or source in ("fenced", "tagged")
            if not likely and (not alone or clues.is_placeholder(text, start)):
                return None
            return Broken(start, damaged.why, damaged.position, source)
        except TooDeep:
            return Broken(start, "is nested too deeply", start, source)

    def _may_guess(self, start: int, source: Source) -> bool:
        """Whether brackets around bare words are tried, as in `[a, b]`: not in prose, and not too
        often.
        """
        if start != self._first and source not in ("fenced", "tagged"):
            return False
        self._guesses += 1
        return self._guesses <= _MOST_GUESSES

    def _read(self, start: int, source: Source) -> Extraction:
        """Read the value that begins at a bracket: strictly if possible, otherwise leniently."""
        text, end = self._text, self._around.end(start)
        if self._sound and text[start] in "{[":
            strict = read_strictly(text, start)  # at once; the parts are for texts that hold damage
            self._sound = strict is not None
        else:
            strict = self._intact.read(start, end)
        if strict is not None:
            return Extraction(strict[0], start, strict[1], source)
        self._damaged += 1
        if self._damaged > MOST_DAMAGED:
            raise Damaged("is one damaged value too many", start)
        known_end = self._known_end(start, source)
        end = end if known_end is None else known_end
        if BEGINS_ESCAPED.match(text, start, end):
            escaped = read_escaped(text, start, end)
            return Extraction(escaped.value, start, escaped.end, source, escaped.repairs)
        from stage2_output.parsing.lenient import (
            read_leniently,  # at the first damage: its patterns take time to compile
        )

        mended = read_leniently(text, start, end, self._intact, self._unclosed)
        if source == "prose" and mended.end == known_end and not mended.complete:
            raise Damaged("is not closed within its backticks", mended.end)
        line = text[mended.end : mended.end + 1000].partition("\n")[0]
        if mended.fragile and ('"' in line or "'" in line):
            raise Damaged("has quotes that can be read in more ways than one", mended.end)
        return Extraction(mended.value, start, mended.end, source, mended.repairs, mended.complete)

    def _checked(self, found: Extraction) -> Extraction:
        """What stands behind a value may say that it is not the whole, or not alone in the text."""
        text, start, end = self._text, found.start, found.end
        alone = start == self._first
        inside = alone or found.source in ("fenced", "tagged")
        in_quotes = start > 0 and text[start - 1] in "\"'"
        closed = clues.extra_closers(text, end)
        if (
            (clues.goes_on(text, end) and not in_quotes)
            or (clues.is_glued(text, end) and inside)
            or (closed > end and clues.goes_on_behind_closers(text, closed))
            or self._is_part(end)
        ):
            raise Damaged("goes on behind its last bracket", end)
        if closed > end and inside:
            found = replace(found, repairs=(*found.repairs, Repair("extra_closer", end)))
        if start == self._beginning and closed >= self._last:
            return replace(found, source="bare")
        if alone and not clues.line_ends(text, closed):
            return replace(found, repairs=(*found.repairs, Repair("trailing_text", closed)))
        return found

    def _is_part(self, end: int) -> bool:
        if self._looks >= _MOST_LOOKS or not clues.comma_follows(self._text, end):
            return False
        self._looks += 1
        return clues.closes_too_much(self._text, end)


def _skip_blank(text: str, start: int) -> int:
    while start < len(text) and text[start] in BLANK:
        start += 1
    return start
