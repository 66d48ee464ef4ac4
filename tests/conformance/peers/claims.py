"""The demands of cases that are outside of the claims of a library.

Such a case is not applicable. The first reason counts; the page lists all of them.
"""

import re
from collections.abc import Iterator
from typing import Any

from tests.conformance.case import Case

ARGUMENTS = {
    "multiple": "the prompt dialect",
    "rounds": "a last request without calls at a limit",
    "parallel": "a limit of the calls at the same time",
    "approve": "the decision of a person about a call",
    "abort_after": "a run that is aborted",
    "cancel_after": "the messages of a cancelled run",
}
"""Arguments of `answer` for which each library has a form of its own, or none."""

OWN_REPLIES = "a server that differs from the provider's own"


def outside_of_loops(case: Case, *, has_timeout: bool = False, has_history: bool = True) -> str:
    """Return the demand that no loop of another library claims; empty if there is none."""
    if case.operation != "answer":
        return ""
    fields = case.input
    if fields.get("dialect", "prompt") != "native":
        return "the prompt dialect"
    for name, reason in ARGUMENTS.items():
        if name in fields:
            return reason
    if "8,000 tokens" in case.rule:
        return "a window of 8,000 tokens"
    if not has_timeout and any("timeout" in tool for tool in fields["tools"]):
        return "a time limit of a plain function"
    if not has_history and "history" in fields:
        return "a history of plain messages"
    return ""


def has_own_ids(case: Case) -> bool:
    """Whether the calls of each reply have different ids, as those of the large providers."""
    replies = [each for each in case.input.get("replies", []) if isinstance(each, dict)]
    ids = [[call["id"] for call in reply.get("tool_calls", [])] for reply in replies]
    return all("" not in each and len(set(each)) == len(each) for each in ids)


def checks_of(checks: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the checks of single places."""
    for check in checks:
        for allowed in check.get("any", []):
            yield from checks_of(allowed)
        if "at" in check:
            yield check


def checks_messages(case: Case) -> bool:
    """Whether a case demands a form of the messages or of the list of tools.

    Pairs of calls and results alone are no such demand, beside a check of the answer or the calls.
    """
    checks = list(checks_of(case.expect))
    others = any(check["at"].startswith(("/answer", "/ran")) for check in checks)
    return any(
        re.match(r"/(requests/\d+/)?(messages|tools)(/|$)", check["at"]) is not None
        and not (check.get("paired") and others)
        for check in checks
    )
