"""Find the JSON in a model's text.

Models wrap their answers in prose and code fences, and write drafts into thinking tags. `find_json`
returns every JSON value of a text, repaired where only one repair is possible. `extract_json`
chooses the most likely answer. Invalid JSON is an error; values inside it are never returned.

This module knows no schemas. The text is read in one pass, in linear time.
"""

from dataclasses import replace

from stage2_output.errors import ExtractionError
from stage2_output.extraction.candidates import candidates
from stage2_output.result import Extraction, InvalidJson


def extract_json(text: str, *, truncated: bool = False) -> Extraction:
    """Return the JSON value that most likely is the answer.

    The order is: the fewest doubts (see `doubts`), fenced before bare, an object before an array
    before a scalar, earlier before later. Invalid JSON takes part in this order; if it comes first,
    the text has no answer.

    Args:
        text: A model's text.
        truncated: Whether the model was cut off (finish reason "length"). Every value then counts
            as incomplete.

    Raises:
        ExtractionError: The text contains no JSON, or the most likely JSON is invalid.
    """
    found = candidates(text)
    if len(found) == 1 and found[0].source == "bare":
        best: Extraction | InvalidJson | None = found[0]
    else:
        answers = [candidate for candidate in found if not _is_citation(candidate, text)]
        best = min(answers, key=lambda candidate: _rank(candidate, text), default=None)
    if not isinstance(best, Extraction):
        invalid = [best] if best else []
        raise ExtractionError(missing_json_message(text, invalid), best.position if best else None)
    return replace(best, complete=False) if truncated else best


def find_json(text: str) -> tuple[list[Extraction], list[InvalidJson]]:
    """Return every JSON value of a text, and every part that cannot be read, both in order."""
    found = candidates(text)
    values = [candidate for candidate in found if isinstance(candidate, Extraction)]
    return values, [candidate for candidate in found if isinstance(candidate, InvalidJson)]


def missing_json_message(text: str, invalid: list[InvalidJson]) -> str:
    """Return the sentence that explains why a text without valid JSON has no answer."""
    if invalid:
        return str(min(invalid, key=lambda candidate: _rank(candidate, text)))
    return "No JSON was found." if text.strip() else "The text is empty."


def doubts(candidate: Extraction | InvalidJson, text: str) -> tuple[bool, bool, bool, bool]:
    """Return reasons against a candidate, strongest first; the least tuple is the most likely one.

    The reasons: it is in a thinking block, it is part of other code, it is a citation such as [1],
    it contains text without quotes.
    """
    is_citation = has_bare_text = False
    if isinstance(candidate, Extraction):
        is_citation = _is_citation(candidate, text)
        has_bare_text = any(repair.name == "unquoted_text" for repair in candidate.repairs)
    return candidate.source == "thinking", candidate.source == "code", is_citation, has_bare_text


def _rank(candidate: Extraction | InvalidJson, text: str) -> tuple[object, ...]:
    if isinstance(candidate, Extraction):
        value = candidate.value
        kind = 0 if isinstance(value, dict) else 1 if isinstance(value, list) else 2
    else:
        kind = int(text[candidate.start] not in "{｛")
    is_unmarked = candidate.source not in ("fenced", "tagged")
    return doubts(candidate, text), is_unmarked, kind, candidate.start


def _is_citation(found: Extraction | InvalidJson, text: str) -> bool:
    """Whether a candidate is a citation such as [1] in running text."""
    if found.source != "prose" or isinstance(found, InvalidJson) or found.repairs:
        return False
    value = found.value
    if not isinstance(value, list) or len(value) != 1 or type(value[0]) is not int:
        return False
    before = text[max(0, found.start - 200) : found.start].rpartition("\n")[2].rpartition(">")[2]
    behind = text[found.end : found.end + 200].partition("\n")[0]
    return any(map(str.isalnum, before + behind))
