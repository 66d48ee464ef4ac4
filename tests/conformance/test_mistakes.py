"""The known mistakes, and the diagnosis of a learner's failures."""

import ast
import difflib
import functools
import itertools
import json
import random

import pytest

from tests.conformance.case import STAGES, Mismatch, load_cases
from tests.conformance.course import FILES
from tests.conformance.diagnosis import (
    MISTAKES,
    PATTERNS,
    Mistake,
    diagnose,
    failures_of_mistake,
    load_mistakes,
    mistake_files,
    read_mistake,
    sentences,
)
from tests.conformance.grade import Verdict
from tests.conformance.starters import FINISHED

MOST_LINES = 15
"""The lines of code in which a mistake differs from the finished file."""

PATHS = [path for stage in STAGES for path in mistake_files(stage)]
each_mistake = pytest.mark.parametrize(
    "path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}"
)


@functools.cache
def cases_of(stage):
    """The cases of the course."""
    return [case for case in load_cases(stage) if case.step != "complete"]


def known_failures(stage):
    return json.loads(PATTERNS.read_text(encoding="utf-8")).get(stage, {})


@pytest.mark.long
@each_mistake
def test_the_failures_of_a_mistake_are_known(path):
    failed = failures_of_mistake(path, cases_of(path.parent.name))
    expected = {**read_mistake(path), "failed": failed}
    is_current = known_failures(path.parent.name).get(path.stem) == expected
    assert is_current, "patterns.json is out of date. Run: make course"


@each_mistake
def test_a_mistake_is_caught_by_a_must_case_about_it(path):
    cases = {case.id: case for case in cases_of(path.parent.name)}
    about = read_mistake(path)["caught_by"]
    assert cases[about].level == "MUST"
    assert about in known_failures(path.parent.name)[path.stem]["failed"]


@functools.cache
def code_of(path):
    """The lines of code of a file, without docstrings and comments."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not is_text(each)] or [ast.Pass()]
    return ast.unparse(tree).splitlines()


def is_text(node):
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@each_mistake
def test_a_mistake_differs_from_the_finished_file_in_few_lines(path):
    finished = code_of(FINISHED / FILES[path.parent.name])
    changed = [line[0] for line in difflib.ndiff(finished, code_of(path)) if line[0] in "+-"]
    assert 0 < max(changed.count("+"), changed.count("-")) <= MOST_LINES


@each_mistake
def test_the_sentence_of_a_mistake_continues_a_file_that(path):
    does = read_mistake(path)["does"]
    assert does.split()[0].endswith("s") or does.startswith("Cannot "), does
    assert does.endswith(".")
    assert does[0].isupper()


@pytest.mark.parametrize("stage", STAGES)
def test_no_two_mistakes_of_a_stage_have_the_same_failures(stage):
    failed = {name: row["failed"] for name, row in known_failures(stage).items()}
    pairs = itertools.combinations(failed, 2)
    assert [pair for pair in pairs if failed[pair[0]] == failed[pair[1]]] == []


def test_the_folder_of_the_mistakes_contains_nothing_else():
    files = {path for path in MISTAKES.rglob("*") if path.is_file()}
    assert {path for path in files if path.parent.name != "__pycache__"} == {*PATHS}


@pytest.mark.parametrize("stage", STAGES)
def test_the_known_failures_are_those_of_existing_mistakes(stage):
    assert sorted(known_failures(stage)) == [path.stem for path in mistake_files(stage)]


# ---- diagnosis


def verdicts_with(stage, failed, unwritten_steps=()):
    """The verdicts of a file with some failures: pairs of a case and how it failed."""
    places = dict(sorted(failed))
    return [
        Verdict(
            case,
            "unwritten"
            if case.step in unwritten_steps
            else "failed"
            if case.id in places
            else "passed",
            *outcome_that_failed(places.get(case.id, "")),
        )
        for case in cases_of(stage)
    ]


def outcome_that_failed(text):
    """The mismatches and the outcome of a case that failed like this."""
    kind, _, exception = text.partition(" ")
    if kind == "crash":
        return [Mismatch("", "", "")], {"crash": f"{exception}: why"}
    found = [each.partition(" ") for each in text.split(", ")]
    return [Mismatch(place, "", missing) for place, _, missing in found], {}


def names(matches):
    return [match.mistake.name for match in matches]


def part_of(found, total, say, what):
    say(f"{what}: {found} of {total}")
    return found / total if total else 1


def test_the_diagnosis_names_the_right_mistake_first(say):
    right = total = 0
    for stage in STAGES:
        mistakes = load_mistakes(stage)
        for mistake in mistakes:
            matches = diagnose(verdicts_with(stage, mistake.failed), mistakes)
            right += names(matches)[:1] == [mistake.name]
            total += 1
    assert part_of(right, total, say, "mistakes ranked first") >= 0.9


def test_the_diagnosis_finds_both_of_two_mistakes(say):
    right = total = 0
    for stage in STAGES:
        mistakes = load_mistakes(stage)
        for one, two in itertools.combinations(mistakes, 2):
            matches = diagnose(verdicts_with(stage, one.failed | two.failed), mistakes)
            right += {one.name, two.name} <= {*names(matches)[:3]}
            total += 1
    assert part_of(right, total, say, "pairs of mistakes in the first three") >= 0.8


def test_the_diagnosis_works_while_steps_are_unwritten(say):
    """Each mistake, with all steps unwritten except the one of the case that catches it."""
    right = total = 0
    for stage in STAGES:
        mistakes = load_mistakes(stage)
        steps = {case.id: case.step for case in cases_of(stage)}
        for mistake in mistakes:
            others = {1, 2, 3, 4, 5} - {steps[mistake.caught_by]}
            matches = diagnose(verdicts_with(stage, mistake.failed, others), mistakes)
            right += mistake.name in names(matches)[:3]
            total += 1
    assert part_of(right, total, say, "mistakes in the first three, other steps unwritten") >= 0.9


def test_the_diagnosis_tolerates_a_case_that_fails_additionally(say):
    right = total = 0
    draw = random.Random(0)
    for stage in STAGES:
        mistakes = load_mistakes(stage)
        ids = [case.id for case in cases_of(stage)]
        for mistake in mistakes:
            failed = {draw.choice(ids): "crash TypeError", **dict(mistake.failed)}.items()
            right += mistake.name in names(diagnose(verdicts_with(stage, failed), mistakes))[:3]
            total += 1
    assert part_of(right, total, say, "mistakes in the first three, one failure more") >= 0.9


@pytest.mark.parametrize("stage", STAGES)
def test_a_file_without_failures_has_no_diagnosis(stage):
    assert diagnose(verdicts_with(stage, set()), load_mistakes(stage)) == []


@pytest.mark.parametrize("stage", STAGES)
def test_a_file_with_half_of_the_mistakes_has_the_mistakes_that_match(stage):
    mistakes = load_mistakes(stage)
    made = mistakes[::2]
    failed = set().union(*(mistake.failed for mistake in made))
    matches = diagnose(verdicts_with(stage, failed), mistakes)
    assert {*names(matches)[:2]} <= {mistake.name for mistake in made}


@pytest.mark.parametrize("stage", STAGES)
def test_the_sentence_names_the_mistake_and_its_case(stage):
    mistakes = load_mistakes(stage)
    for mistake in mistakes:
        (text,) = sentences(verdicts_with(stage, mistake.failed), mistakes)
        assert f"(mistake `{mistake.name}`, case {mistake.caught_by})" in text


@pytest.mark.parametrize("stage", STAGES)
def test_cases_that_fail_in_another_way_have_no_diagnosis(stage):
    """A file that raises the same exception everywhere has none of the mistakes."""
    mistakes = load_mistakes(stage)
    for mistake in mistakes:
        failed = {(id, "crash NameError") for id, _ in mistake.failed}
        assert sentences(verdicts_with(stage, failed), mistakes) == []


MISTAKE = Mistake("forgets", "Forgets x.", "G-001", "a/b#1", {("G-001", "/a"), ("G-002", "/b")})


def sentence(*failed):
    """The diagnosis of a file, in which one mistake is known."""
    return " ".join(sentences(verdicts_with("stage0", failed), [MISTAKE]))


def test_a_sentence_states_how_many_failures_a_mistake_explains():
    known = ("G-001", "/a"), ("G-002", "/b")
    rest = "a file that forgets x (mistake `forgets`, case G-001)."
    assert sentence(*known) == f"These failures perhaps match {rest}"
    assert sentence(*known, ("G-003", "/c")) == f"2 of the 3 failures perhaps match {rest}"
    assert sentence(*known, *((f"G-00{number}", "/c") for number in range(3, 8))) == ""


def test_a_mistake_is_not_named_if_its_own_case_passes():
    failed = {(f"G-00{number}", "/a") for number in range(1, 6)}
    mistake = Mistake("forgets", "Forgets x.", "G-001", "a/b#1", failed)
    without_own = verdicts_with("stage0", failed - {("G-001", "/a")})
    assert sentences(without_own, [mistake]) == []
    text = "These failures match a file that forgets x (mistake `forgets`, case G-001)."
    assert sentences(verdicts_with("stage0", failed), [mistake]) == [text]


def test_a_mistake_is_not_named_if_the_file_has_few_of_its_failures():
    assert sentence(("G-001", "/a")) == ""
    assert sentence(("G-001", "/a"), ("G-002", "/a")) == ""
