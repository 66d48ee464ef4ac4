"""Write the feedback for a model whose reply cannot be used.

The text is short, because it costs tokens, and complete, because a model corrects all issues at
once if it knows them all. An invalid reply and invalid tool arguments get the same wording. Text
from a model or a validator is cleaned and cut first.
"""

from collections.abc import Iterable

from stage2_output.result import Issue, ParseResult
from stage2_output.validation.suggestions import printable

MOST_LINES = 10
"""Maximum number of issues in one feedback; the next attempt reports the others."""

_SENTENCE_RULES = ("json", "complete")  # their issues are complete sentences
_LONGEST_PATH, _LONGEST_MESSAGE = 120, 400


def feedback(result: ParseResult) -> str:
    """Return the message to the model about a reply that cannot be used; "" for a valid one.

    Args:
        result: The result of `OutputController.parse_and_validate`.
    """
    if not isinstance(result, ParseResult):
        raise TypeError(
            f"feedback needs the result of OutputController.parse_and_validate, not {result!r:.80}."
        )
    if result.success:
        return ""
    first = result.errors[0]
    if result.extraction is None or first.rule in _SENTENCE_RULES:
        text = f"{printable(first.message, _LONGEST_MESSAGE)} Answer with the JSON and nothing else"
        return f"{text}:\n{first.hint}" if first.hint else f"{text}."
    return "Your JSON does not fit:\n" + issue_lines(result.errors)


def issue_lines(issues: Iterable[Issue]) -> str:
    """Return one line for each issue: JSON pointer, message, received keys and suggestion."""
    issues = list(issues)
    lines = [_line(issue) for issue in issues[:MOST_LINES]]
    if omitted := len(issues) - len(lines):
        lines.append(f"- and at least {omitted} more")
    return "\n".join(lines)


def _line(issue: Issue) -> str:
    path, half = issue.path or "the value", _LONGEST_PATH // 2
    if len(path) > _LONGEST_PATH:
        path = f"{path[:half]}…{path[-half:]}"
    message = printable(f"- {path} {issue.message}", _LONGEST_PATH + _LONGEST_MESSAGE)
    return message + printable(f"; {issue.hint}" if issue.hint else "", _LONGEST_MESSAGE)
