"""Write the page of differences: the cases that the short files fail, and the complete stages pass.

make course        or: python tests/conformance/generate.py
"""

from pathlib import Path

from tests.conformance.case import STAGES, load_cases
from tests.conformance.course import FILES, load_course_file
from tests.conformance.grade import Verdict, grade
from tests.conformance.starters import FINISHED, ROOT

PAGE = ROOT / "docs" / "learn" / "build" / "differences.md"

HEAD = """[Docs](../../index.md) > [Build it yourself](index.md) > **Differences**

# What the complete stages add

The four files of the course have about a hundred lines each. The [complete stages](../../index.md#learn) handle more. This page is generated: it lists the [conformance cases](../../../tests/conformance/README.md) that a short file fails, by rule, with the code of the complete stage that handles them.

*Fails* means that the short file does something else. *Not supported* means that it does not have the operation or the argument.
"""


def differences() -> str:
    """Return the text of the page."""
    return HEAD + "".join(section(stage) for stage in STAGES)


def section(stage: str) -> str:
    """The differences of one stage."""
    name = FILES[stage]
    counted = [case for case in load_cases(stage) if case.level != "INFO"]
    found = grade(load_course_file(FINISHED / name, stage), counted)
    failed = [each for each in found if each.status != "passed"]
    file = f"[`{name}`](../../../examples/from_scratch/{name})"
    text = f"\n## Stage {stage[-1]}\n\n{file} passes {len(found) - len(failed)} of {len(found)} cases.\n"
    if failed:
        text += "\n| Rule | The short file | Cases | The complete stage |\n|---|---|---|---|\n"
        text += "".join(rows(failed))
    return text


def rows(failed: list[Verdict]) -> list[str]:
    """A row for each rule."""
    rules: dict[str, list[Verdict]] = {}
    for each in failed:
        rules.setdefault(each.case.rule, []).append(each)
    return [row(rule, verdicts) for rule, verdicts in rules.items()]


def row(rule: str, verdicts: list[Verdict]) -> str:
    """The row of one rule."""
    statuses = {"unsupported": "not supported"}
    found = dict.fromkeys(statuses.get(each.status, "fails") for each in verdicts)
    ids = ", ".join(each.case.id for each in verdicts)
    links = dict.fromkeys(link(each.case.code) for each in verdicts)
    return f"| {rule.replace('|', chr(92) + '|')} | {', '.join(found)} | {ids} | {', '.join(links)} |\n"


def link(code: str) -> str:
    """The link to the code of the complete stage."""
    path, _, name = code.partition("::")
    return f"[`{name}`](../../../{Path(path).as_posix()})"
