"""Compare the failures of a file with the failures of known mistakes.

`patterns.json` contains the failed cases of each file in `mistakes/`; `make course` writes it.
"""

import ast
import json
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.case import STAGES, Case, load_cases
from tests.conformance.course import load_course_file
from tests.conformance.grade import Verdict, grade

MISTAKES = Path(__file__).parent / "mistakes"
PATTERNS = Path(__file__).parent / "patterns.json"

OTHER_FAILURES = 0.25
"""The weight of failures that a mistake does not explain: the file may have other mistakes."""

MOST = 3
"""The mistakes that a diagnosis contains."""

SIMILAR = 0.5
"""A mistake with this similarity is named."""

INCLUDED = 0.8
"""A mistake is also named if the file has such a part of its failures, and many others."""


@dataclass(frozen=True)
class Mistake:
    """A known mistake.

    Attributes:
        name: The name of its file.
        does: The behavior of a file with this mistake, as a sentence without a subject.
        caught_by: The case that is about this mistake.
        seen_in: Where it was seen.
        failed: The ids of all cases that it fails.
    """

    name: str
    does: str
    caught_by: str
    seen_in: str
    failed: Set[str]


@dataclass(frozen=True)
class Match:
    """A mistake that matches the failures of a file.

    Attributes:
        mistake: The mistake.
        similarity: How similar the failures are; 1 means that they are the same.
        included: The part of the mistake's failures that the file has.
    """

    mistake: Mistake
    similarity: float
    included: float


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


def failed_cases(path: Path, cases: Sequence[Case]) -> list[str]:
    """The ids of the cases of the course that a file fails."""
    subject = load_course_file(path, cases[0].stage)
    return [each.case.id for each in grade(subject, cases) if each.status != "passed"]


def patterns() -> str:
    """Return the text of patterns.json."""
    stages = []
    for stage in STAGES:
        cases = [case for case in load_cases(stage) if case.step != "complete"]
        rows = [
            f"  {json.dumps(path.stem)}: {json.dumps(row, ensure_ascii=False)}"  # one line each
            for path in mistake_files(stage)
            for row in [{**read_mistake(path), "failed": failed_cases(path, cases)}]
        ]
        stages.append(f"{json.dumps(stage)}: {{\n" + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(stages) + "\n}\n"


def load_mistakes(stage: str) -> list[Mistake]:
    """Return the known mistakes of a stage."""
    rows = json.loads(PATTERNS.read_text(encoding="utf-8"))[stage] if PATTERNS.exists() else {}
    return [
        Mistake(name, **{**row, "failed": frozenset(row["failed"])}) for name, row in rows.items()
    ]


def diagnose(verdicts: Sequence[Verdict], mistakes: Sequence[Mistake]) -> list[Match]:
    """Return up to three mistakes that match the failures, the most similar one first.

    The second mistake is the one that explains most of the remaining failures, and so on. Cases of
    unwritten steps do not count.
    """
    graded = {each.case.id for each in verdicts if each.status in ("passed", "failed")}
    failed = {each.case.id for each in verdicts if each.status == "failed"}
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
        unexplained = unexplained - match.mistake.failed
    return found


def match_of(mistake: Mistake, graded: Set[str], failed: Set[str], unexplained: Set[str]) -> Match:
    """Compare the failures of a file with those of a mistake."""
    expected = mistake.failed & graded
    if not expected & unexplained:
        return Match(mistake, 0.0, 0.0)
    others = OTHER_FAILURES * len(unexplained - expected)
    similarity = len(expected & unexplained) / (len(expected) + others)
    return Match(mistake, similarity, len(expected & failed) / len(expected))


def sentences(matches: Sequence[Match]) -> list[str]:
    """The diagnosis in words: the best match, and a second one that explains other failures."""
    found: list[str] = []
    for match in matches[:2]:
        mistake = match.mistake
        does = mistake.does[0].lower() + mistake.does[1:].rstrip(".")
        text = f"a file that {does} (mistake `{mistake.name}`, case {mistake.caught_by})."
        if match.similarity >= SIMILAR:
            found.append(("Others match " if found else "These failures match ") + text)
        elif match.included >= INCLUDED:
            subject = "Others include those of " if found else "These failures include those of "
            found.append(subject + text)
    return found
