"""The page about other libraries, from the recorded results.

`results.json` contains, for each library, the cases that passed, the places at which the others failed, and
the reasons of the cases that are not applicable. So the page can be written without the libraries.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.conformance.case import STAGES, Case, load_cases
from tests.conformance.peers.libraries import LIBRARIES, Decision, Library
from tests.conformance.peers.rules import own_places, unmet
from tests.conformance.surroundings import MOST_REQUESTS

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[3] / "docs" / "learn" / "build" / "peers.md"

SECONDS = 20
"""The time limit of a case: the waits of libraries between two attempts cannot be changed."""


@dataclass(frozen=True)
class Failed:
    """How a case failed.

    Attributes:
        observed: The places that the case rejects, and what is there, in words.
        ending: How the run ended, in words; empty if it ended with an answer.
    """

    observed: Mapping[str, str]
    ending: str = ""


@dataclass(frozen=True)
class Result:
    """The results of a library.

    Attributes:
        versions: The packages with their versions.
        passed: The ids of the cases that passed.
        failed: The failures by the id of their case.
        outside: The reason why a case is not applicable, by its id.
    """

    versions: str
    passed: Sequence[str]
    failed: Mapping[str, Failed]
    outside: Mapping[str, str]


@dataclass(frozen=True)
class Row:
    """A case that a library does not pass: a failure, or a documented decision.

    Attributes:
        case: The case.
        places: The places of its rule that the outcome violates.
        text: The values at these places, in words.
        decision: The documented decision; None for a failure.
    """

    case: Case
    places: Sequence[str]
    text: str
    decision: Decision | None


def load_results() -> tuple[str, dict[str, Result]]:
    """Return the day of the grading, and the results by the name of the adapter."""
    fields = json.loads(RESULTS.read_text(encoding="utf-8"))
    results = {
        name: Result(
            **{**each, "failed": {id: Failed(**row) for id, row in each["failed"].items()}}
        )
        for name, each in fields["results"].items()
    }
    return fields["day"], results


def save_results(day: str, results: Mapping[str, Result]) -> None:
    """Write results.json."""
    fields = {"day": day, "results": {name: asdict(each) for name, each in results.items()}}
    RESULTS.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def all_cases() -> dict[str, Case]:
    """The cases of all stages by their id."""
    return {case.id: case for stage in STAGES for case in load_cases(stage)}


def rows_of(library: Library, result: Result, cases: Mapping[str, Case]) -> list[Row]:
    """The cases that a library does not pass, although the situation of their rule occurred."""
    return [
        Row(cases[id], own, text_of(failed, own), library.decision(id))
        for id, failed in result.failed.items()
        if not unmet(cases[id], list(failed.observed))
        if (own := own_places(cases[id], list(failed.observed)))
    ]


def text_of(failed: Failed, places: Iterable[str]) -> str:
    """Describe a failure: what is at the places of its rule, and how the run ended."""
    texts = dict.fromkeys([failed.observed[place] for place in places])
    return " ".join([*list(filter(None, texts))[:2], *filter(None, [failed.ending])])


def reasons_of(result: Result, cases: Mapping[str, Case]) -> Counter[str]:
    """The reasons of the cases that are not applicable, with their numbers."""
    found = [unmet(cases[id], list(each.observed)) for id, each in result.failed.items()]
    return Counter([*result.outside.values(), *filter(None, found)])


# ---- the page

HEAD = """[Docs](../../README.md) > [Build it yourself](index.md) > **Other libraries**

# Other libraries, graded with the same cases

The conformance suite also grades libraries that many programs use. Each library answers the cases \
through a small adapter in [`tests/conformance/peers`](../../../tests/conformance/peers), without a \
network. `make grade-peers` wrote the results on {day}.

{table}

How to read the figures:

- The figures are numbers of cases. Several cases may share a rule.
- Each library runs with its defaults, except for the settings that its note lists. Options, \
middleware or code of the program can change many of the results.
- The cases are the rules of this project, so a failed case is a different decision or a defect.
- A *documented decision* is listed separately and is not a failure: the documentation or the source \
code of the library states the different behavior for this situation. A general description of a loop is not \
enough. Other decisions may be deliberate as well; a link is welcome.
- A rule is listed only if the outcome differs at a place that shows this rule. If a run ended before the \
situation of the rule occurred, the case is not applicable.
- A case outside of what a library claims is not applicable, too. The reasons are listed for each \
library. They were written after the first results were known, and some of them remove failures.
- The number of graded cases differs from library to library, so the rows are not a ranking.
- A case allows {requests} requests and {seconds} seconds. A library with a higher limit does not stop \
within a case.
- A failed request, a limit, and a refusal that a library reports in its own way count as the error \
that a case demands.

The [README of the suite](../../../tests/conformance/README.md) describes the cases. Their ids begin \
with G in [`cases/stage0`](../../../tests/conformance/cases/stage0), and with L in \
[`cases/stage3`](../../../tests/conformance/cases/stage3).
"""


def page(day: str, results: Mapping[str, Result]) -> str:
    """Return the page with the table, and a section for each library."""
    cases = all_cases()
    table = [
        "| What runs | Versions | MUST passed | MUST failed | SHOULD passed | SHOULD failed | "
        "Documented decisions | Not applicable |",
        "| :-- | :-- | --: | --: | --: | --: | --: | --: |",
    ]
    sections = []
    for library in LIBRARIES:
        if result := results.get(library.module):
            rows = rows_of(library, result, cases)
            table.append(figures(library, result, rows, cases))
            sections.append(section(library, rows, reasons_of(result, cases)))
    text = HEAD.format(day=day, table="\n".join(table), requests=MOST_REQUESTS, seconds=SECONDS)
    return "\n".join([text, *sections])


def figures(
    library: Library, result: Result, rows: Sequence[Row], cases: Mapping[str, Case]
) -> str:
    """The row of a library in the table."""
    passed = Counter(cases[id].level for id in result.passed)
    failed = Counter(row.case.level for row in rows if not row.decision)
    numbers = [
        *(count[level] for level in ("MUST", "SHOULD") for count in (passed, failed)),
        sum(row.decision is not None for row in rows),
        reasons_of(result, cases).total(),
    ]
    return f"| {' | '.join([library.title, result.versions, *map(str, numbers)])} |"


def section(library: Library, rows: Sequence[Row], reasons: Counter[str]) -> str:
    """The part of the page about one library."""
    lines = [f"## {library.title}", "", library.note, ""]
    if failed := [row for row in rows if not row.decision]:
        lines += ["| Rule | Cases | Outcome |", "| :-- | :-- | :-- |", *rule_rows(failed)]
    else:
        lines += ["No applicable case failed."]
    if decided := [row for row in rows if row.decision]:
        lines += ["", "Documented decisions:", ""]
        lines += ["| Rule | Cases | Decision |", "| :-- | :-- | :-- |", *rule_rows(decided)]
    if reasons:
        texts = (f"{reason} ({number})" for reason, number in reasons.most_common())
        lines += ["", f"Not applicable: {'; '.join(texts)}."]
    return "\n".join(lines) + "\n"


def rule_rows(rows: Iterable[Row]) -> list[str]:
    """The rows of a table: a rule, its cases, and their outcomes or decisions."""
    rules: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        rules[row.case.level, row.case.rule].append(row)
    lines = []
    for (level, rule), found in rules.items():
        texts = list(dict.fromkeys(map(outcome_or_decision, found)))
        ids = ", ".join(row.case.id for row in found)
        lines.append(f"| {level}: {escaped(rule)} | {ids} | {'<br>'.join(texts[:3])} |")
    return lines


def outcome_or_decision(row: Row) -> str:
    """The last cell of a row."""
    if decision := row.decision:
        return f"{decision.text} ([source]({decision.link}))"
    return escaped(row.text)


def escaped(text: str) -> str:
    """A text for a cell of a Markdown table."""
    for character in "\\`|<>*_[]":
        text = text.replace(character, "\\" + character)
    return text
