"""Find the JSON in what a model wrote.

Models wrap their answers: in prose, in code fences, behind drafts in thinking tags. `find_json` returns
every whole JSON value in the text and `extract_json` picks the one that was most likely meant. Nothing is
guessed: what looks like JSON and does not parse is an error, and so is a value JSON does not allow (a
duplicate key, NaN, Infinity). A value inside a broken one is never handed out for the whole.

Knows no schema: the controller, which does, checks every candidate. One pass over the text, so the time is
linear in its length.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

from stage2_output.errors import ExtractionError

Source = Literal["bare", "fenced", "prose", "thinking"]

# What matters outside of JSON: the marks around it, and an opening bracket.
_MARK = re.compile(r"(?P<fence>```)|<(?P<closing>/?)think(?:ing)?>|[{\[]", re.IGNORECASE)
# A bracket that JSON could follow; "{name}" and "[see below]" in prose are none.
_JSON_BEGINS = re.compile(r'\{\s*["}]|\[\s*[\[{"\]\-0-9tfn]')
# A string that is never closed reaches to the end, so that nobody looks for its end again and again.
_BRACKET_OR_STRING = re.compile(r'[{}\[\]]|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_MOST_STRAY_BRACKETS = 4  # each unclosed one costs a look at all the text behind it
_SOURCE_ORDER: dict[Source, int] = {"bare": 1, "fenced": 0, "prose": 1, "thinking": 2}


@dataclass(frozen=True, slots=True)
class Extraction:
    """A JSON value found in a text.

    Attributes:
        value: The value, as `json.loads` gives it.
        start: Where it begins in the text.
        end: Where it ends; `text[start:end]` is what the model wrote.
        source: "bare" (the text is nothing else), "fenced", "prose" or "thinking".
        repairs: What had to be mended to read it; empty for valid JSON.
        complete: False if the text was cut off, so that the value may be a part of what was meant.
    """

    value: Any
    start: int
    end: int
    source: Source
    repairs: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Broken:
    """A stretch of text that begins like JSON and is none."""

    start: int
    why: str


def extract_json(text: str, *, truncated: bool = False) -> Extraction:
    """The JSON value a text most likely means.

    Outside thinking tags before inside, fenced before bare, an object before a list before a scalar, and
    the first of equals.

    Args:
        text: Anything a model wrote.
        truncated: The model was cut off (finish reason "length"), so nothing in the text counts as complete.

    Raises:
        ExtractionError: No JSON, or only broken JSON.
    """
    found, broken = find_json(text, truncated=truncated)
    if not found:
        raise ExtractionError(why_nothing_found(text, broken), broken[0].start if broken else None)
    return min(found, key=_rank)


def find_json(text: str, *, truncated: bool = False) -> tuple[list[Extraction], list[Broken]]:
    """Every whole JSON value in a text, in order, and every stretch that only looks like one.

    Args:
        text: Anything a model wrote.
        truncated: The model was cut off, so nothing counts as complete.
    """
    whole = _whole_text(text)
    pieces = [whole] if whole is not None else _pieces(text)
    found = [replace(p, complete=not truncated) for p in pieces if isinstance(p, Extraction)]
    return found, [p for p in pieces if isinstance(p, Broken)]


def why_nothing_found(text: str, broken: list[Broken]) -> str:
    """The sentence that says why a text holds no JSON."""
    if broken:
        return f"The JSON that begins at character {broken[0].start} {broken[0].why}."
    return "No JSON was found." if text.strip() else "The text is empty."


def _rank(found: Extraction) -> tuple[int, int, int]:
    kind = 0 if isinstance(found.value, dict) else 1 if isinstance(found.value, list) else 2
    return (_SOURCE_ORDER[found.source], kind, found.start)


def _whole_text(text: str) -> Extraction | None:
    stripped = text.strip()
    value = _parse(stripped, 0) if stripped else None
    if not isinstance(value, Extraction):
        return None
    start = text.index(stripped)
    return Extraction(value.value, start, start + len(stripped), "bare")


def _pieces(text: str) -> list[Extraction | Broken]:
    """Walk from mark to mark; what stands inside of brackets is passed over, marks included."""
    pieces: list[Extraction | Broken] = []
    around = _Surroundings(text)
    position = strays = thoughts = 0
    while mark := _MARK.search(text, position):
        start, position = mark.span()
        if mark[0] not in "{[":
            if around.pass_by(mark):  # all before it was thinking
                pieces[thoughts:] = map(_thought, pieces[thoughts:])
                thoughts = len(pieces)
            continue
        end = _matching_end(text, start)
        serious = _JSON_BEGINS.match(text, start) is not None
        if serious:
            pieces.append(_piece(text, start, end, around.source))
        if end is not None:
            position = end
        elif serious or (strays := strays + 1) > _MOST_STRAY_BRACKETS:
            break  # whatever follows may belong to it, so nothing behind it can be trusted
    return pieces


class _Surroundings:
    """Whether the walk is inside a fence or a thought."""

    def __init__(self, text: str) -> None:
        self._fenced = self._thinking = False
        self._beginning = len(text) - len(text.lstrip())
        self._last_closing = text.lower().rfind("</think")

    @property
    def source(self) -> Source:
        return "thinking" if self._thinking else "fenced" if self._fenced else "prose"

    def pass_by(self, mark: re.Match[str]) -> bool:
        """Take note of a mark; returns True for the end of a thought whose beginning was in the prompt."""
        if mark["fence"]:
            self._fenced = not self._fenced
            return False
        if mark["closing"]:
            ended_only, self._thinking = not self._thinking, False
            return ended_only
        # A tag that is never closed opens thoughts at the beginning only; later on it is talked about.
        self._thinking = mark.start() < self._last_closing or mark.start() == self._beginning
        return False


def _piece(text: str, start: int, end: int | None, source: Source) -> Extraction | Broken:
    if end is None:
        return Broken(start, "is never closed")
    piece = _parse(text[start:end], start)
    return replace(piece, source=source) if isinstance(piece, Extraction) else piece


def _thought(piece: Extraction | Broken) -> Extraction | Broken:
    return replace(piece, source="thinking") if isinstance(piece, Extraction) else piece


def _matching_end(text: str, start: int) -> int | None:
    depth = 0
    for token in _BRACKET_OR_STRING.finditer(text, start):
        mark = token[0][0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _parse(text: str, start: int) -> Extraction | Broken:
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        return Broken(start, f"is not valid: {error.msg} at character {start + error.pos}")
    except ValueError as error:  # from the hooks, and from numbers of thousands of digits
        return Broken(start, f"is not valid: {error}")
    except RecursionError:
        return Broken(start, "is nested too deeply")
    return Extraction(value, start, start + len(text), "prose")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {json.dumps(twice, ensure_ascii=False)[:60]} stands twice in one object")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return number
