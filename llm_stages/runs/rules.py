"""The rules by which replies are read and conversations are sent, and when they changed.

The header of a run states the version of the rules. A file of an older version can still be opened
and replayed. Where its replay differs, `replay` names the rule that has changed since.

To change a rule, append it to `RULES` with the next version. `name` is the `rule` of the issue in
the feedback, if the new rule rejects replies that were accepted before.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from stage2_output import Issue


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that changed.

    Attributes:
        version: The first version of the rules with it.
        name: A short name; the `rule` of the issue with which it rejects a reply.
        sentence: The rule.
    """

    version: int
    name: str
    sentence: str


_SUMMARY = "summary_message"
_SUMMARY_TITLE = "Summary of the conversation"

RULES = (
    Rule(2, "whole_reply", "A write must be the whole reply."),
    Rule(2, "arguments_key", "Arguments under another key are an issue."),
    Rule(2, _SUMMARY, "A summary is a user message, not part of the system message."),
    Rule(
        2,
        "thinking_draft",
        "A draft in thinking never becomes a value while JSON is outside of it.",
    ),
)
"""All rules that changed, oldest first."""

RULES_VERSION = RULES[-1].version


def changed_since(version: int) -> tuple[Rule, ...]:
    """Return the rules that a file of this version does not follow."""
    return tuple(rule for rule in RULES if rule.version > version)


def rules_behind(
    rules: tuple[Rule, ...], issues: Iterable[Issue] = (), texts: Iterable[str] = ()
) -> tuple[Rule, ...]:
    """Return those of some rules that explain a difference; all of them if it shows none.

    Args:
        rules: The rules that may explain it.
        issues: The issues of the feedback that a reply receives now.
        texts: The texts of a message that differs.
    """
    names = {issue.rule for issue in issues}
    if any(_SUMMARY_TITLE in text for text in texts):
        names.add(_SUMMARY)
    return tuple(rule for rule in rules if rule.name in names) or rules
