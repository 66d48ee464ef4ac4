"""Grade other libraries with the same cases, and write docs/learn/build/peers.md.

    make grade-peers

Each peer needs its package; `make grade-peers` installs all of them into an environment of its own.
A peer is a module with these names:

    TITLE, PACKAGES    its name, and the packages whose versions are listed
    NOTE               the functions that are called, and the decisions of the adapter
    OPERATIONS         the operations; see subject.py
    outside(case)      why a case is outside of its claims; empty if it is graded
    prepared(case)     optional: the case in the form that the peer requires
"""

import importlib
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.conformance.case import STAGES, Case, load_cases, lookup, unpaired_calls
from tests.conformance.grade import Verdict, grade
from tests.conformance.peers.claims import unobserved
from tests.conformance.subject import Subject

PEERS = (
    "openai_client",
    "openai_loop",
    "anthropic_runner",
    "pydantic_ai_agent",
    "openai_agents",
    "langchain_agent",
    "smolagents_agent",
)
PAGE = Path(__file__).parents[3] / "docs" / "learn" / "build" / "peers.md"
SECONDS = 20.0
"""The time limit of a case: the waits of peers between two attempts cannot be changed."""


@dataclass(frozen=True)
class Graded:
    """The results of a peer.

    Attributes:
        title: Its name.
        versions: Its packages with their versions.
        note: The functions that are called, and the decisions of the adapter.
        verdicts: The verdicts; a case outside of its claims is "unsupported".
    """

    title: str
    versions: str
    note: str
    verdicts: Sequence[Verdict]

    def count(self, level: str, status: str) -> int:
        """The number of cases of a level with a status."""
        return sum((each.case.level, each.status) == (level, status) for each in self.verdicts)


def graded(name: str) -> Graded | None:
    """Grade a peer; None if a package is missing."""
    try:
        peer = importlib.import_module(f"tests.conformance.peers.{name}")
        versions = ", ".join(f"{package} {version(package)}" for package in peer.PACKAGES)
    except (ImportError, PackageNotFoundError) as error:
        print(f"{name}: skipped, {error}")
        return None
    print(f"{name} …", flush=True)
    return Graded(peer.TITLE, versions, peer.NOTE, verdicts_of(peer))


def verdicts_of(peer: ModuleType, ids: Sequence[str] = ()) -> list[Verdict]:
    """Grade a peer with the cases of its operations, or with some of them."""
    prepared = getattr(peer, "prepared", lambda case: case)
    claimed, others = [], []
    for case in cases_of(peer):
        if ids and case.id not in ids:
            continue
        if reason := peer.outside(case):
            others.append(Verdict(case, "unsupported", [reason], {}))
        else:
            claimed.append(prepared(case))
    graded = grade(Subject(peer.__name__, peer.OPERATIONS), claimed, SECONDS)
    return [applicable(each) for each in graded] + others


def applicable(verdict: Verdict) -> Verdict:
    """Return a verdict, "unsupported" if its failure does not concern the rule of its case."""
    reason = unobserved(verdict) if verdict.status == "failed" else ""
    return Verdict(verdict.case, "unsupported", [reason], verdict.outcome) if reason else verdict


def cases_of(peer: ModuleType) -> list[Case]:
    """The cases of a peer's operations, without those that are for comparison only."""
    return [
        case
        for stage in STAGES
        for case in load_cases(stage)
        if case.operation in peer.OPERATIONS and case.level != "INFO"
    ]


# ---- the page

HEAD = """[Docs](../../index.md) > [Build it yourself](index.md) > **Other libraries**

# Other libraries, graded with the same cases

The conformance suite also grades libraries that many programs use. Each library answers the cases \
through a small adapter in [`tests/conformance/peers`](../../../tests/conformance/peers), without a \
network. `make grade-peers` wrote this page on {day}.

{table}

How to read the figures:

- The libraries run with their defaults, as their documentation shows. Options, middleware or code of \
the program can change many of the results.
- The cases are the rules of this project. A failed case shows a different decision or a defect, and \
some libraries document their decision.
- A case outside of what a library claims is not applicable. The reasons are listed for each library.
- The rules for what is not applicable were written after the first results were known, and some of them remove failures. For example, a run that ended before it reached the rule of a case is not graded by this case.
- The number of graded cases differs from library to library, so the rows are not a ranking.
- A failed request, a limit, and a refusal that a library reports in its own way count as the error \
that a case demands.
- `messages` in an outcome are those of the last request, followed by the answer.

The [README of the suite](../../../tests/conformance/README.md) describes the cases. Their ids begin \
with G in [`cases/stage0`](../../../tests/conformance/cases/stage0), and with L in \
[`cases/stage3`](../../../tests/conformance/cases/stage3).
"""


def page(results: Sequence[Graded], day: str) -> str:
    """Return the page with the table and the failed rules of each peer."""
    rows = [
        "| Library | Versions | MUST passed | MUST failed | SHOULD passed | SHOULD failed | "
        "Not applicable |",
        "| :-- | :-- | --: | --: | --: | --: | --: |",
    ]
    for each in results:
        numbers = [
            each.count(level, status)
            for level in ("MUST", "SHOULD")
            for status in ("passed", "failed")
        ]
        other = sum(verdict.status == "unsupported" for verdict in each.verdicts)
        cells = [each.title, each.versions, *map(str, numbers), str(other)]
        rows.append(f"| {' | '.join(cells)} |")
    parts = [HEAD.format(day=day, table="\n".join(rows))]
    return "\n".join([*parts, *map(section, results)])


def section(peer: Graded) -> str:
    """The part of the page about one peer."""
    rules = failed_rules(peer.verdicts)
    failed = ["| Rule | Cases | Outcome |", "| :-- | :-- | :-- |", *rules]
    lines = [f"## {peer.title}", "", peer.note, ""]
    lines += failed if rules else ["Every applicable case passed."]
    if reasons := other_reasons(peer.verdicts):
        lines += ["", f"Not applicable: {reasons}."]
    return "\n".join(lines) + "\n"


def failed_rules(verdicts: Iterable[Verdict]) -> list[str]:
    """The rules that a library does not follow as rows: their cases, and an observation."""
    rules: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for each in verdicts:
        if each.status == "failed":
            rules[each.case.level, each.case.rule].append(each)
    rows = []
    for (level, rule), failed in rules.items():
        seen = list(dict.fromkeys(happened(each) for each in failed))
        texts = "<br>".join(escaped(text) for text in seen[:3])
        ids = ", ".join(each.case.id for each in failed)
        rows.append(f"| {level}: {escaped(rule)} | {ids} | {texts} |")
    return rows


def happened(verdict: Verdict) -> str:
    """Describe a failed outcome in a few words."""
    outcome = verdict.outcome
    place = str(getattr(verdict.failures[0], "place", ""))
    error = outcome.get("error")
    if verdict.is_endless:
        return "The run does not stop."
    if crash := outcome.get("crash"):
        return f"It ends with the exception {shortened(str(crash))}"
    if place == "/requests" and error:
        return f"{requests(outcome)} The last error is {error['kind']}."
    if error and not place.startswith(("/error", "/ran")):
        return f"It ends with the error {shortened(error['message'])}"
    return observed(place, outcome, str(getattr(verdict.failures[0], "actual", "")))


def observed(place: str, outcome: dict[str, Any], actual: str) -> str:
    """Describe the value at the place that a check looked at."""
    if place.startswith("/ran"):
        error = outcome.get("error") if not outcome["ran"] else None
        ending = f" It ends with the error {shortened(error['message'])}" if error else ""
        return f"Calls that run: {runs(outcome)}.{ending}"
    if place == "/together":
        return f"Calls that run at the same time: {outcome['together']}."
    if place.startswith("/requests") and place.endswith("/messages"):
        ids = ", ".join(map(repr, dict.fromkeys(unpaired_calls(lookup(outcome, place)))))
        return f"A request does not have exactly one result for the call {ids}."
    if place.endswith("/content") and actual != "missing":
        return f"The text is {shortened(actual)}"
    text = outcome.get("answer", outcome.get("message", {}).get("content"))
    return f"{requests(outcome)} The answer is {shortened(repr(text))}."


def requests(outcome: dict[str, Any]) -> str:
    """The number of requests, as a sentence."""
    return f"Requests: {len(outcome.get('requests', []))}."


def runs(outcome: dict[str, Any]) -> str:
    """The calls that ran, in words."""
    texts = [
        f"{call['name']}({', '.join(f'{k}={v!r}' for k, v in call['arguments'].items())})"
        for call in outcome.get("ran", [])
    ]
    more = f" and {len(texts) - 2} more" if len(texts) > 2 else ""
    return ", ".join(texts[:2]) + more or "none"


def shortened(text: str, limit: int = 140) -> str:
    """A text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rstrip() + " …"


def escaped(text: str) -> str:
    """A text for a cell of a Markdown table."""
    for character in "\\`|<>*_[]":
        text = text.replace(character, "\\" + character)
    return text


def other_reasons(verdicts: Iterable[Verdict]) -> str:
    """The reasons of the cases that are not applicable, with their numbers."""
    reasons = Counter(str(each.failures[0]) for each in verdicts if each.status == "unsupported")
    return "; ".join(f"{reason} ({number})" for reason, number in reasons.most_common())


def main(names: Sequence[str]) -> None:
    """Grade all peers and write the page, or print the failures of some peers."""
    for name in names:
        if found := graded(name):
            print(section(found))
    if not names:
        results = [found for name in PEERS if (found := graded(name))]
        text = page(results, date.today().isoformat())
        PAGE.write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
