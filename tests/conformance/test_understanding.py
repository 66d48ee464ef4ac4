"""Mistakes of understanding in `understanding/`: short changes of the finished files, which a case notices.

`make mutants` changes the files mechanically; these changes are what a learner writes who read the
page differently.
"""

from pathlib import Path

import pytest

from tests.conformance.case import STAGES, load_cases
from tests.conformance.course import FILES, load_course_file
from tests.conformance.grade import grade
from tests.conformance.known_mistakes import Change
from tests.conformance.starters import FINISHED
from tests.conformance.subject import load_module

FOLDER = Path(__file__).parent / "understanding"

BAR = 0.95
"""The part of the mistakes that a MUST case must notice."""


def mistakes(stage):
    """What each file does, the case that notices, the lines of the finished file, and the changed lines."""
    return load_module(FOLDER / f"{stage}.py").MISTAKES


@pytest.mark.parametrize("stage", STAGES)
def test_a_must_case_notices_each_mistake_of_understanding(stage, tmp_path, say):
    finished = (FINISHED / FILES[stage]).read_text(encoding="utf-8")
    cases = {case.id: case for case in load_cases(stage) if case.level == "MUST"}
    path = tmp_path / FILES[stage]
    unnoticed = []
    for does, about, old, new in mistakes(stage):
        path.write_text(Change(old, new).applied(finished, does), encoding="utf-8")
        (verdict,) = grade(load_course_file(path, stage), [cases[about]])
        if verdict.status == "passed":
            unnoticed.append(does)
    number = len(mistakes(stage))
    say(f"{stage}: {number - len(unnoticed)} of {number} mistakes of understanding noticed")
    assert number - len(unnoticed) >= BAR * number, unnoticed
