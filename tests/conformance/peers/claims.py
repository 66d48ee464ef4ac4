"""The demands of cases that are outside of the claims of a library.

Such a case is not applicable. The first reason counts; the page lists all of them.
"""

import re
from collections.abc import Iterator
from typing import Any

from tests.conformance.case import Case
from tests.conformance.grade import Verdict

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


def unobserved(verdict: Verdict) -> str:
    """Return why a failed case does not show whether its rule holds; empty if it does.

    These cases demand something else first, and that failure is counted by another case.
    """
    id, outcome = verdict.case.id, verdict.outcome
    requests = len(outcome.get("requests", ()))
    if id == "L-191" and requests < 2:
        return "the request after an empty reply, without such a request"
    if id == "L-197" and verdict.is_endless:
        return "the messages at a limit, without a limit"
    if id == "L-205" and not requests:
        return "a history with an open call, which the library rejects"
    places = {getattr(each, "place", "") for each in verdict.failures}
    if id == "L-173" and places == {"/requests/1/messages/-2/content"}:
        return "the reason of a failing tool in its result, which L-178 checks"
    if id == "L-231" and places == {"/together"}:
        return "the order of calls that run at the same time, without such calls"
    return ""


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
