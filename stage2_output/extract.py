"""Find the JSON in what a model wrote.

Models wrap their answers: in prose, in code fences, behind drafts in thinking tags. `find_json`
returns every JSON value in the text, mended where that can be done in one way only, and
`extract_json` picks the one that was most likely meant. What cannot be read is an error, and a
value inside of it is never handed out.

Knows no schema: the controller, which does, checks every candidate. One pass over the text, so the
time is linear in its length.
"""

from dataclasses import replace

from stage2_output.errors import ExtractionError
from stage2_output.extraction.candidates import Broken, Extraction, candidates
from stage2_output.extraction.markup import Source

_SOURCE_ORDER: dict[Source, int] = {
    "fenced": 0,
    "tagged": 0,
    "bare": 1,
    "prose": 1,
    "code": 2,
    "thinking": 3,
}


def extract_json(text: str, *, truncated: bool = False) -> Extraction:
    """The JSON value a text most likely means.

    What is least in doubt (see `doubts`), then fenced before bare, an object before a list before a
    scalar, and the first of equals. What is broken counts as what it would have been.

    Args:
        text: Anything a model wrote.
        truncated: The model was cut off (finish reason "length"), so nothing in the text counts as
            complete.

    Raises:
        ExtractionError: No JSON, or only broken JSON.
    """
    found, broken = find_json(text, truncated=truncated)
    meant = [each for each in found if not is_citation(each, text)]
    pieces: list[Extraction | Broken] = [*meant, *broken]
    best = min(pieces, key=lambda each: _rank(each, text), default=None)
    if not isinstance(best, Extraction):
        raise ExtractionError(why_nothing_found(text, broken), best.position if best else None)
    return best


def find_json(text: str, *, truncated: bool = False) -> tuple[list[Extraction], list[Broken]]:
    """Every JSON value in a text, in order, and every stretch that only begins like one.

    Args:
        text: Anything a model wrote.
        truncated: The model was cut off, so nothing counts as complete.
    """
    pieces = candidates(text)
    found = [p for p in pieces if isinstance(p, Extraction)]
    if truncated:
        found = [replace(each, complete=False) for each in found]
    return found, [p for p in pieces if isinstance(p, Broken)]


def why_nothing_found(text: str, broken: list[Broken]) -> str:
    """The sentence that says why a text holds no JSON."""
    if broken:
        return str(min(broken, key=lambda each: _rank(each, text)))
    return "No JSON was found." if text.strip() else "The text is empty."


def doubts(piece: Extraction | Broken, text: str) -> tuple[bool, bool, bool, bool]:
    """Why something may not have been meant, the gravest first: the least of these tuples was meant
    most likely.

    It is a thought; it is a part of other code; it is a mark such as [1]; it holds text without
    quotes.
    """
    cited = guessed = False
    if isinstance(piece, Extraction):
        cited = is_citation(piece, text)
        guessed = any(repair.name == "unquoted_text" for repair in piece.repairs)
    return (piece.source == "thinking", piece.source == "code", cited, guessed)


def _rank(piece: Extraction | Broken, text: str) -> tuple[object, ...]:
    kind = int(text[piece.start] not in "{｛")
    if isinstance(piece, Extraction):
        kind = 0 if isinstance(piece.value, dict) else 1 if isinstance(piece.value, list) else 2
    return (doubts(piece, text), _SOURCE_ORDER[piece.source], kind, piece.start)


def is_citation(found: Extraction, text: str) -> bool:
    """Whether a list is a mark such as [1] in running text."""
    if found.source != "prose" or not isinstance(found.value, list) or len(found.value) != 1:
        return False
    if type(found.value[0]) is not int or found.repairs:
        return False
    before = text[max(0, found.start - 200) : found.start].rpartition("\n")[2].rpartition(">")[2]
    behind = text[found.end : found.end + 200].partition("\n")[0]
    return any(map(str.isalnum, before + behind))
