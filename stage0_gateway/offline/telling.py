"""A sentence from what the tools answered.

Knows the outcomes and nothing else: it reads JSON where a result is JSON, and never adds a fact. Used by
`teacher.py` when no call is left to be made.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from stage0_gateway.offline.outcomes import Outcome, read_json

LONGEST = 300
"""Characters of one result that are told; the rest is cut, and the cut is shown."""

_SHOWN = 5


def tell(outcomes: Iterable[Outcome], feedback: str | None = None) -> str:
    """Tell every outcome, one sentence each.

    Args:
        outcomes: The calls for a question and what came of them.
        feedback: Why the host refused the last call, where it did.
    """
    return " ".join(_sentence(outcome, feedback) for outcome in outcomes)


def shorten(text: str, longest: int = LONGEST) -> str:
    """A text in one line, cut where it is too long."""
    text = " ".join(text[: 4 * longest].split())
    return text if len(text) <= longest else text[:longest].rstrip() + " …"


def plain(value: Any, hidden: frozenset[str] = frozenset()) -> str:
    """A JSON value as words.

    Args:
        value: The value.
        hidden: Texts, in lower case, whose fields are left out: the arguments, which were told already.
    """
    return shorten(_in_words(value, hidden, 0))


def _sentence(outcome: Outcome, feedback: str | None) -> str:
    about = ", ".join(_in_words(value, frozenset(), 1) for value in outcome.arguments.values())
    subject = f"for {shorten(about, 100)}" if about else ""
    if outcome.text is None:
        why = f": {_ended(shorten(feedback))}" if feedback else ": no result came back."
        return " ".join(filter(None, ("I gave up on", outcome.tool, subject))) + why
    if outcome.is_error:
        said = outcome.text.removeprefix("Error").lstrip(": ")
        return " ".join(filter(None, (outcome.tool, "failed", subject))) + f": {_ended(shorten(said))}"
    said = _result(outcome)
    return " ".join(filter(None, (outcome.tool, "says", subject))) + f": {_ended(said)}"


def _result(outcome: Outcome) -> str:
    text = outcome.text or ""
    value = read_json(text)
    if value is None:
        return shorten(text) or "nothing"
    known = frozenset(one.lower() for one in outcome.arguments.values() if isinstance(one, str))
    return plain(value, known) or "nothing more"


def _in_words(value: Any, hidden: frozenset[str], depth: int) -> str:
    if isinstance(value, Mapping):
        return _pairs(value, hidden, depth)
    if isinstance(value, list):
        return _items(value, depth)
    return (
        {True: "yes", False: "no"}[value]
        if isinstance(value, bool)
        else "none"
        if value is None
        else str(value)
    )


def _pairs(value: Mapping[str, Any], hidden: frozenset[str], depth: int) -> str:
    if depth > 2:
        return f"{len(value)} fields"
    some = list(value.items())[:50]
    shown = {name: one for name, one in some if not (_is_plain(one) and str(one)[:200].lower() in hidden)}
    return ", ".join(
        f"{name.replace('_', ' ')} {_in_words(one, frozenset(), depth + 1)}" for name, one in shown.items()
    )


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | bool | float | None) or (isinstance(value, int) and abs(value) < 10**15)


def _items(value: list[Any], depth: int) -> str:
    if depth > 2 or not value:
        return f"{len(value)} items" if value else "an empty list"
    said = "; " if any(isinstance(one, Mapping | list) for one in value[:_SHOWN]) else ", "
    shown = said.join(_in_words(one, frozenset(), depth + 1) for one in value[:_SHOWN])
    more = len(value) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", "。")) else f"{text}."
