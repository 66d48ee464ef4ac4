"""Write the page of differences: the cases that the short files fail, and the complete stages pass.

make course        or: python tests/conformance/generate.py
"""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.case import STAGES, Case, load_cases
from tests.conformance.course import FILES, load_course_file
from tests.conformance.grade import Verdict, grade
from tests.conformance.starters import FINISHED, ROOT

PAGE = ROOT / "docs" / "learn" / "build" / "differences.md"

CASES = "../../../tests/conformance/cases"
"""The folder of the cases, seen from the page."""

HEAD = """[Docs](../../README.md) > [Build it yourself](index.md) > **Differences**

# What the complete stages add

The four files of the course have about a hundred lines each. The [complete stages](../../README.md#learn) handle more. This page is generated: it lists the [conformance cases](../../../tests/conformance/README.md) that a short file fails, by rule.

Use it after a stage of the course: choose a rule, try its case with your file (`make grade FILE=my_output.py ALL=1`), and read the code that handles it. *Seen in* names a library or a provider for which the rule was needed. A rule that is not marked as recommended prevents harm, such as a wrong call or a lost text.
"""

GROUPS = {
    "failed": "The short file does something else",
    "unsupported": "The short file does not have this",
}
"""The titles of the two groups of a stage, by the status of their cases."""


def differences() -> str:
    """Return the text of the page."""
    return HEAD + "".join(section(stage) for stage in STAGES)


def section(stage: str) -> str:
    """The differences of one stage."""
    name = FILES[stage]
    counted = [case for case in load_cases(stage) if case.level != "INFO"]
    found = grade(load_course_file(FINISHED / name, stage), counted)
    passed = sum(each.status == "passed" for each in found)
    file = f"[`{name}`](../../../examples/from_scratch/{name})"
    text = f"\n## Stage {stage[-1]}\n\n{file} passes {passed} of {len(found)} cases.\n"
    for status, title in GROUPS.items():
        if group := [each for each in found if each.status == status]:
            text += f"\n### Stage {stage[-1]}: {title[0].lower()}{title[1:]}\n\n{table(group)}"
    return text


def table(verdicts: Sequence[Verdict]) -> str:
    """A table with a row for each rule."""
    rules: dict[str, list[Case]] = {}
    for each in verdicts:
        rules.setdefault(each.case.rule, []).append(each.case)
    rows = "".join(row(rule, cases) for rule, cases in rules.items())
    return f"| Rule | Seen in | The complete stage | Cases |\n|---|---|---|---|\n{rows}"


def row(rule: str, cases: Sequence[Case]) -> str:
    """The row of one rule."""
    is_recommended = all(each.level == "SHOULD" for each in cases)
    ids = ", ".join(f"[{each.id}]({CASES}/{each.stage}/6-complete.json)" for each in cases)
    code = ", ".join(dict.fromkeys(link(each.code) for each in cases))
    cells = (rule + " (recommended)" * is_recommended, seen_in(cases[0]), code, ids)
    return (
        "| " + " | ".join(each.replace("|", "\\|").replace("<", "&lt;") for each in cells) + " |\n"
    )


def seen_in(case: Case) -> str:
    """Where a case was seen; an issue is a link."""
    who, source = next(iter(case.origin.values())), case.origin["source"]
    issue = r"\b([\w.-]+/[\w.-]+)#(\d+)"
    linked = re.sub(issue, r"[\g<0>](https://github.com/\1/issues/\2)", source)
    return f"{who}: {linked}"


def link(code: str) -> str:
    """The link to the code of the complete stage."""
    path, _, name = code.partition("::")
    return f"[`{name}`](../../../{Path(path).as_posix()})"
