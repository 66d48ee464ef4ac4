"""Compare the failures of a file with the failures of known mistakes.

A failure is a case and how it failed: the places of the outcome that were wrong, or the exception.
`patterns.json` contains the failures of each known mistake; `make course` writes it.
"""

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.case import STAGES, Case, Mismatch, load_course_cases
from tests.conformance.course import load_course_file
from tests.conformance.grade import Verdict, grade
from tests.conformance.known_mistakes import KnownMistake, known_mistakes

PATTERNS = Path(__file__).parent / "patterns.json"

Failed = tuple[str, str]
"""The id of a case, and how it failed."""

OTHER_FAILURES = 0.25
"""The weight of failures that a mistake does not explain: the file may have other mistakes."""

MOST = 3
"""The mistakes that a diagnosis contains."""

INCLUDED = 0.75
"""A mistake is named if the file has such a part of its failures."""

CERTAIN = 3
"""With fewer explained failures than these, the diagnosis is a guess."""

EXPLAINED = 1 / 3
"""A mistake is named if it explains such a part of the failures that are left."""


@dataclass(frozen=True)
class Pattern:
    """How a file with a known mistake fails: a row of `patterns.json`.

    Attributes:
        name: The name of the mistake.
        does: The behavior of the file, as a sentence without a subject.
        caught_by: The case that is about the mistake.
        seen_in: Where the mistake was seen.
        failed: All failures of the file.
    """

    name: str
    does: str
    caught_by: str
    seen_in: str
    failed: Set[Failed]


@dataclass(frozen=True)
class Match:
    """A mistake that explains failures of a file.

    Attributes:
        pattern: The pattern of the mistake.
        similarity: How similar the failures are; 1 means that they are the same.
        included: The part of the mistake's failures that the file has.
        explained: The failures that no better match explains.
    """

    pattern: Pattern
    similarity: float
    included: float
    explained: Set[Failed]


def failures_of(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Return how each failed case failed, by its id. Cases of unwritten steps do not count."""
    return {
        each.case.id: how(each) for each in verdicts if each.status not in ("passed", "unwritten")
    }


def how(verdict: Verdict) -> str:
    """How a case failed: "crash" and the exception, or the places that were wrong or missing."""
    if "crash" in verdict.outcome:
        return "crash " + str(verdict.outcome["crash"]).partition(":")[0]
    mismatches = [each for each in verdict.failures if isinstance(each, Mismatch)]
    places = {each.place + (" missing" if each.actual == "missing" else "") for each in mismatches}
    return ", ".join(sorted(places))


def row_of(mistake: KnownMistake, cases: Sequence[Case]) -> dict[str, Any]:
    """Grade a known mistake, and return its row of patterns.json."""
    with mistake.file() as path:
        failed = failures_of(grade(load_course_file(path, mistake.stage), cases))
    about = {"does": mistake.does, "caught_by": mistake.caught_by, "seen_in": mistake.seen_in}
    return {**about, "failed": failed}


def patterns() -> str:
    """Return the text of patterns.json."""
    stages = []
    for stage in STAGES:
        cases = load_course_cases(stage)
        rows = [  # one line each
            f"  {json.dumps(each.name)}: {json.dumps(row_of(each, cases), ensure_ascii=False)}"
            for each in known_mistakes(stage)
        ]
        stages.append(f"{json.dumps(stage)}: {{\n" + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(stages) + "\n}\n"


def load_patterns(stage: str) -> list[Pattern]:
    """Return the patterns of the known mistakes of a stage."""
    rows = json.loads(PATTERNS.read_text(encoding="utf-8"))[stage] if PATTERNS.exists() else {}
    return [Pattern(name, **{**row, "failed": row["failed"].items()}) for name, row in rows.items()]


def diagnose(verdicts: Sequence[Verdict], known: Sequence[Pattern]) -> list[Match]:
    """Return up to three mistakes that match the failures, the most similar one first.

    The second mistake is the one that explains most of the remaining failures, and so on.
    """
    graded = {each.case.id for each in verdicts if each.status != "unwritten"}
    failed: Set[Failed] = failures_of(verdicts).items()
    found: list[Match] = []
    candidates = list(known)
    unexplained = failed
    while candidates and len(found) < MOST:
        matches = [match_of(each, graded, failed, unexplained) for each in candidates]
        match = max(matches, key=lambda match: match.similarity)
        if match.similarity == 0:
            break
        found.append(match)
        candidates.remove(match.pattern)
        unexplained = unexplained - match.explained
    return found


def match_of(
    pattern: Pattern, graded: Set[str], failed: Set[Failed], unexplained: Set[Failed]
) -> Match:
    """Compare the failures of a file with a pattern."""
    expected = {each for each in pattern.failed if each[0] in graded}
    explained = expected & unexplained
    has_own_case = any(id == pattern.caught_by for id, _ in expected & failed)
    if not explained or not has_own_case:
        return Match(pattern, 0.0, 0.0, explained)
    others = OTHER_FAILURES * len(unexplained - expected)
    similarity = len(explained) / (len(expected) + others)
    return Match(pattern, similarity, len(expected & failed) / len(expected), explained)


def sentences(verdicts: Sequence[Verdict], known: Sequence[Pattern]) -> list[str]:
    """Return the diagnosis in words: up to two mistakes, with the number of their failures."""
    total = left = len(failures_of(verdicts))
    found: list[str] = []
    for match in diagnose(verdicts, known)[:2]:
        number = len(match.explained)
        if match.included < INCLUDED or number < EXPLAINED * left:
            continue
        left -= number
        pattern = match.pattern
        does = pattern.does[0].lower() + pattern.does[1:].rstrip(".")
        verb = "matches" if number == 1 and total > 1 else "match"
        subject = "These failures" if number == total else f"{number} of the {total} failures"
        if total == 1:
            subject, verb = "This failure", "matches"
        if number < CERTAIN:
            verb = f"perhaps {verb}"
        found.append(
            f"{subject} {verb} a file that {does} (mistake `{pattern.name}`, case"
            f" {pattern.caught_by})."
        )
    return found
