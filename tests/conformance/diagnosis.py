"""Compare the failures of a file with the failures of known mistakes.

A failure is a case and how it failed: the places of the outcome that were wrong, or the exception.
`patterns.json` contains the failures of each file in `mistakes/`; `make course` writes it.
"""

import ast
import json
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.case import STAGES, Case, Mismatch, load_cases
from tests.conformance.course import load_course_file
from tests.conformance.grade import Verdict, grade

MISTAKES = Path(__file__).parent / "mistakes"
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
class Mistake:
    """A known mistake.

    Attributes:
        name: The name of its file.
        does: The behavior of a file with this mistake, as a sentence without a subject.
        caught_by: The case that is about this mistake.
        seen_in: Where it was seen.
        failed: All its failures.
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
        mistake: The mistake.
        similarity: How similar the failures are; 1 means that they are the same.
        included: The part of the mistake's failures that the file has.
        explained: The failures that no better match explains.
    """

    mistake: Mistake
    similarity: float
    included: float
    explained: Set[Failed]


def mistake_files(stage: str) -> list[Path]:
    """The files of the known mistakes of a stage."""
    return sorted((MISTAKES / stage).glob("*.py"))


def read_mistake(path: Path) -> dict[str, str]:
    """Return the parts of a mistake's docstring: `does`, `caught_by` and `seen_in`.

    Raises:
        ValueError: The docstring has another form.
    """
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    found = re.fullmatch(
        r"(?P<does>.+?)\n\nCaught by: (?P<caught_by>[A-Z]-\d+)\nSeen in: (?P<seen_in>.+)",
        docstring,
        re.DOTALL,
    )
    if found is None:
        raise ValueError(f"{path} needs a docstring with a sentence, 'Caught by:' and 'Seen in:'.")
    return {name: " ".join(text.split()) for name, text in found.groupdict().items()}


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


def failures_of_mistake(path: Path, cases: Sequence[Case]) -> dict[str, str]:
    """Grade a known mistake, and return how each failed case failed."""
    return failures_of(grade(load_course_file(path, cases[0].stage), cases))


def patterns() -> str:
    """Return the text of patterns.json."""
    stages = []
    for stage in STAGES:
        cases = [case for case in load_cases(stage) if case.step != "complete"]
        rows = [
            f"  {json.dumps(path.stem)}: {json.dumps(row, ensure_ascii=False)}"  # one line each
            for path in mistake_files(stage)
            for row in [{**read_mistake(path), "failed": failures_of_mistake(path, cases)}]
        ]
        stages.append(f"{json.dumps(stage)}: {{\n" + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(stages) + "\n}\n"


def load_mistakes(stage: str) -> list[Mistake]:
    """Return the known mistakes of a stage."""
    rows = json.loads(PATTERNS.read_text(encoding="utf-8"))[stage] if PATTERNS.exists() else {}
    return [Mistake(name, **{**row, "failed": row["failed"].items()}) for name, row in rows.items()]


def diagnose(verdicts: Sequence[Verdict], mistakes: Sequence[Mistake]) -> list[Match]:
    """Return up to three mistakes that match the failures, the most similar one first.

    The second mistake is the one that explains most of the remaining failures, and so on.
    """
    graded = {each.case.id for each in verdicts if each.status != "unwritten"}
    failed: Set[Failed] = failures_of(verdicts).items()
    found: list[Match] = []
    candidates = list(mistakes)
    unexplained = failed
    while candidates and len(found) < MOST:
        matches = [match_of(each, graded, failed, unexplained) for each in candidates]
        match = max(matches, key=lambda match: match.similarity)
        if match.similarity == 0:
            break
        found.append(match)
        candidates.remove(match.mistake)
        unexplained = unexplained - match.explained
    return found


def match_of(
    mistake: Mistake, graded: Set[str], failed: Set[Failed], unexplained: Set[Failed]
) -> Match:
    """Compare the failures of a file with those of a mistake."""
    expected = {each for each in mistake.failed if each[0] in graded}
    explained = expected & unexplained
    has_own_case = any(id == mistake.caught_by for id, _ in expected & failed)
    if not explained or not has_own_case:
        return Match(mistake, 0.0, 0.0, explained)
    others = OTHER_FAILURES * len(unexplained - expected)
    similarity = len(explained) / (len(expected) + others)
    return Match(mistake, similarity, len(expected & failed) / len(expected), explained)


def sentences(verdicts: Sequence[Verdict], mistakes: Sequence[Mistake]) -> list[str]:
    """Return the diagnosis in words: up to two mistakes, with the number of their failures."""
    total = left = len(failures_of(verdicts))
    found: list[str] = []
    for match in diagnose(verdicts, mistakes)[:2]:
        number = len(match.explained)
        if match.included < INCLUDED or number < EXPLAINED * left:
            continue
        left -= number
        mistake = match.mistake
        does = mistake.does[0].lower() + mistake.does[1:].rstrip(".")
        verb = "matches" if number == 1 and total > 1 else "match"
        subject = "These failures" if number == total else f"{number} of the {total} failures"
        if total == 1:
            subject, verb = "This failure", "matches"
        if number < CERTAIN:
            verb = f"perhaps {verb}"
        found.append(
            f"{subject} {verb} a file that {does} (mistake `{mistake.name}`, case"
            f" {mistake.caught_by})."
        )
    return found
