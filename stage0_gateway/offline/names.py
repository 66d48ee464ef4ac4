"""Which name of the question fits which parameter: the city, the person, where from, where to.

Judged by the little word before a name: "in Paris" is a place, "to Rome" a destination. Knows no schemas.
Used by `strings.py`, and by `filling.py` to see which parameter can take a list of names one by one.
"""

import re

from stage0_gateway.offline.pieces import NOT_NAMES, Piece, Sheet
from stage0_gateway.offline.wanted import FREE, Wanted
from stage0_gateway.offline.words import meanings, says_nothing, words_of

_PLACES = meanings(
    "city location place country state region town island airport station address area timezone zone "
    "origin destination departure arrival"
)
_NAMED = _PLACES | meanings(
    "name person user team company player author artist actor director source target recipient receiver title "
    "movie song album book restaurant stock symbol ticker brand hotel venue contact owner customer"
)
# The little word before a name says what the name is.
_FROM = re.compile(r"(?i)(?:^|_)(?:from|origin|departure|source|start)")
_TO = re.compile(r"(?i)(?:^|_)(?:to(?:_|$|[A-Z])|destination|arrival|target|end|recipient|receiver)")
_PLACE_LEADS = ("in", "at", "near", "for", "from", "to", "of", "around")
_LOWER_PLACE = re.compile(
    r"\b(?:in|at|near|for|of)\s+((?:[^\W\d_]{2,30}\s?){1,2}?)"
    r"(?=\s(?:today|tonight|tomorrow|now|right|this|next|on|and|or)\b|[?.!,]|$)"
)


def is_name_like(want: Wanted) -> bool:
    """Whether the parameter is a name of something: a place, a person, a title."""
    return want.asks_for(_NAMED) and not want.is_called(FREE)


def find_name(want: Wanted, sheet: Sheet, subject: frozenset[str]) -> str | None:
    """The name in the question that fits a parameter best, or None; an optional one needs a clear fit."""
    named = is_name_like(want)
    ranked = [
        (_unlikely(piece, want, sheet.text, subject), piece) for piece in sheet.free("name", "weak_name")
    ]
    ranked += [(1, piece) for piece in sheet.free("quoted")] if want.required else []
    ranked = [(rank, piece) for rank, piece in ranked if rank == 0 or want.required]
    ranked = [(rank, piece) for rank, piece in ranked if named or piece.kind != "weak_name"]
    if ranked:
        return sheet.use(min(ranked, key=lambda one: one[0])[1]).text
    return _small_name(want, sheet.text, subject) if named and want.required else None


def _unlikely(piece: Piece, want: Wanted, text: str, subject: frozenset[str]) -> int:
    """How badly a name fits a parameter, judged by the word before it; 0 is a clear fit."""
    before = _before(piece, text)
    doubt = (piece.kind == "weak_name") + 2 * bool(frozenset(words_of(piece.text)) & subject)
    for own, lead, other in ((_FROM, "from", "to"), (_TO, "to", "from")):
        if own.search(want.name):
            return doubt + {lead: 0, other: 3}.get(before, 1)
    if want.asks_for(_PLACES):
        return doubt + (before not in _PLACE_LEADS and not piece.text[0] >= "\u4e00")
    return doubt + 1 + 2 * (before in ("in", "at", "near"))


def _small_name(want: Wanted, text: str, subject: frozenset[str]) -> str | None:
    """A name written small, as in "weather in shanghai": it is known only by where it stands."""
    found = _LOWER_PLACE.search(text) if want.asks_for(_PLACES) else None
    words = [word for word in found[1].split() if not says_nothing(word, subject)] if found else []
    return " ".join(word for word in words if word.lower() not in NOT_NAMES) or None


def _before(piece: Piece, text: str) -> str:
    words = text[max(0, piece.start - 30) : piece.start].lower().split()
    return words[-1] if words else ""
