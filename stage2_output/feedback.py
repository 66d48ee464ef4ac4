"""Tell a model what was wrong with its reply, so that the next one is right.

Short, because it is paid for in tokens; complete, because a model mends everything at once if it is
told everything at once. The same words are used for a broken reply and for a tool's arguments.
Whatever came from a model or a validator is cleaned first: it must neither break the message nor
fill it.
"""

from collections.abc import Iterable

from stage2_output.result import ParseResult
from stage2_output.validation.issues import MORE, Issue
from stage2_output.validation.suggestions import shown

MOST_ISSUES = 10
"""More would not be read; the rest shows up in the next attempt."""

_ABOUT_THE_TEXT = ("json", "complete")  # rules of whole sentences, and not of something at a place
_LONGEST_PLACE, _LONGEST_WORDS = 120, 400


def feedback(result: ParseResult) -> str:
    """What the model is told after a reply that could not be used; "" after one that could.

    Args:
        result: What `OutputController.parse_and_validate` said.
    """
    if result.success:
        return ""
    problem, rule = result.errors[0].message, result.errors[0].rule
    if result.extraction is None or rule in _ABOUT_THE_TEXT:
        return f"{shown(problem, _LONGEST_WORDS)} Answer with the JSON and nothing else."
    return "Your JSON does not fit:\n" + issue_lines(result.errors)


def issue_lines(issues: Iterable[Issue]) -> str:
    """One line for each issue: pointer, what is wrong, what was received and what was probably
    meant.
    """
    every = list(issues)
    found = [issue for issue in every if issue.rule != MORE]
    lines = [_line(issue) for issue in found[:MOST_ISSUES]]
    untold = len(found) - len(lines)
    if len(found) < len(every):
        lines.append(f"- and more than {untold} more")
    elif untold:
        lines.append(f"- and {untold} more")
    return "\n".join(lines)


def _line(issue: Issue) -> str:
    place, half = issue.path or "the value", _LONGEST_PLACE // 2
    if len(place) > _LONGEST_PLACE:
        place = f"{place[:half]}…{place[-half:]}"
    hint = f"; {issue.hint}" if issue.hint else ""
    return shown(f"- {place} {issue.message}", _LONGEST_PLACE + _LONGEST_WORDS) + shown(
        hint, _LONGEST_WORDS
    )
