"""Describe the outcome of a library at the places that a case rejects."""

import re
from collections.abc import Iterator
from typing import Any

from tests.conformance.case import Case, failures_of, lookup, unpaired_calls
from tests.conformance.surroundings import MOST_REQUESTS


def observed(case: Case, outcome: dict[str, Any]) -> dict[str, str]:
    """Return each place that a case rejects, and what is there, in words.

    After an exception, these are places of what the surroundings have seen. If a case allows several
    lists of checks, the last list is described.
    """
    rejected = [check for check in case.expect if any(failures_of(check, outcome))]
    checks = [each for check in rejected for each in check.get("any", [[check]])[-1]]
    return {
        mismatch.place: " ".join(sentences(mismatch.place, outcome, mismatch.actual))
        for check in checks
        for mismatch in failures_of(check, outcome)
    }


def ending(outcome: dict[str, Any]) -> str:
    """Describe how a run ended; empty if it ended with an answer."""
    crash, error = str(outcome.get("crash", "")), outcome.get("error")
    if crash.startswith("It does not stop: more than"):
        return f"The run does not stop within {MOST_REQUESTS} requests."
    if crash.startswith("It does not stop"):
        return crash
    if crash:
        return f"It ends with the exception {shortened(crash)}"
    return f"It ends with the error {error['kind']}: {shortened(error['message'])}" if error else ""


def sentences(place: str, outcome: dict[str, Any], actual: str) -> Iterator[str]:
    """Describe the value at a place; nothing if the run ended before there was one."""
    if place.startswith("/ran"):
        yield f"Calls that run: {runs(outcome)}."
    elif place == "/together":
        yield f"Calls that run at the same time: {outcome['together']}."
    elif place.startswith("/error"):
        if not ending(outcome):
            text = outcome.get("answer", (outcome.get("message") or {}).get("content"))
            yield f"It ends without an error. The text is {shortened(repr(text))}."
    elif re.fullmatch(r"/requests(/\d+)?" if actual != "missing" else "/requests.*", place):
        yield f"Requests: {len(outcome['requests'])}."
    elif actual != "missing":
        yield from values(place, outcome, actual)


def values(place: str, outcome: dict[str, Any], actual: str) -> Iterator[str]:
    """Describe messages, texts and ids."""
    if place.endswith("messages"):
        yield from pairs(lookup(outcome, place))
        return
    names = {"tool_call_id": "id of the result", "answer": "answer", "content": "text"}
    name = names.get(place.rpartition("/")[2], f"value at {place}")
    yield f"The {name} is {shortened(actual)}."


def pairs(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Describe the ids of calls that have no result of their own."""
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or []]
    wrong = list(dict.fromkeys(unpaired_calls(messages)))
    for id in wrong:
        if ids.count(id) > 1:
            yield f"A request contains {ids.count(id)} calls with the id {id!r}."
        else:
            yield f"A request does not have exactly one result for the call {id!r}."
    if not wrong:
        yield f"A request contains {len(messages)} messages."


def runs(outcome: dict[str, Any]) -> str:
    """The calls that ran, in words."""
    texts = [
        f"{call['name']}({', '.join(f'{k}={v!r}' for k, v in call['arguments'].items())})"
        for call in outcome["ran"]
    ]
    more = f" and {len(texts) - 2} more" if len(texts) > 2 else ""
    return ", ".join(texts[:2]) + more or "none"


def shortened(text: str, limit: int = 140) -> str:
    """A text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rstrip() + " …"
