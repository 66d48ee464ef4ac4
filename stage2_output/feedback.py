"""Tell a model what was wrong with its reply, so that the next one is right.

Short, because it is paid for in tokens; complete, because a model mends everything at once if it is told
everything at once. The same words are used for a broken reply and for a tool's arguments.
"""

from collections.abc import Iterable

from stage2_output.issues import Issue
from stage2_output.result import ParseResult

MOST_ISSUES = 10
"""More would not be read; the rest shows up in the next attempt."""


def feedback(result: ParseResult) -> str:
    """What the model is told after a reply that could not be used; "" after one that could.

    Args:
        result: What `OutputController.parse_and_validate` said.
    """
    if result.success:
        return ""
    if result.extraction is None:
        problem = result.errors[0].message
        return f"{problem} Answer with the JSON and nothing else."
    return "Your JSON does not fit:\n" + issue_lines(result.errors)


def issue_lines(issues: Iterable[Issue]) -> str:
    """One line for each issue: pointer, what is wrong, what was probably meant."""
    every = list(issues)
    lines = [_line(issue) for issue in every[:MOST_ISSUES]]
    if len(every) > MOST_ISSUES:
        lines.append(f"- and {len(every) - MOST_ISSUES} more")
    return "\n".join(lines)


def _line(issue: Issue) -> str:
    place = issue.path or "the value"
    return f"- {place} {issue.message}" + (f"; {issue.hint}" if issue.hint else "")
