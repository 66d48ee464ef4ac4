"""The diagnosis of a learner's failures: which known mistakes explain them."""

import itertools
import random

import pytest

from tests.conformance.case import STAGES, Mismatch, load_course_cases
from tests.conformance.diagnosis import Pattern, diagnose, load_patterns, sentences
from tests.conformance.grade import Verdict

PATTERNS = {stage: load_patterns(stage) for stage in STAGES}
EACH = [(stage, pattern) for stage in STAGES for pattern in PATTERNS[stage]]


CASES = {stage: load_course_cases(stage) for stage in STAGES}


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
        for case in CASES[stage]
    ]


def outcome_that_failed(text):
    """The mismatches and the outcome of a case that failed like this."""
    kind, _, exception = text.partition(" ")
    if kind == "crash":
        return [Mismatch("", "", "")], {"crash": f"{exception}: why"}
    found = [each.partition(" ") for each in text.split(", ")]
    return [Mismatch(place, "", missing) for place, _, missing in found], {}


def diagnosed(stage, failed, unwritten_steps=()):
    """The names of the mistakes in the diagnosis of a file with these failures."""
    matches = diagnose(verdicts_with(stage, failed, unwritten_steps), PATTERNS[stage])
    return [match.pattern.name for match in matches]


def part_of(found, say, what):
    """The part of the results that are true; the report of the tests contains it."""
    say(f"{what}: {sum(found)} of {len(found)}")
    return sum(found) / len(found)


def test_the_diagnosis_names_the_right_mistake_first(say):
    found = [
        diagnosed(stage, pattern.failed)[:1] == [pattern.name]  #
        for stage, pattern in EACH
    ]
    assert part_of(found, say, "mistakes ranked first") >= 0.9


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_the_diagnosis_finds_both_of_two_mistakes(say, every):
    pairs = [
        (stage, one, two)
        for stage in STAGES
        for one, two in itertools.combinations(PATTERNS[stage], 2)
    ]
    found = [
        {one.name, two.name} <= {*diagnosed(stage, one.failed | two.failed)}
        for stage, one, two in pairs[::every]
    ]
    assert part_of(found, say, "pairs of mistakes in the first three") >= 0.8


def test_the_diagnosis_works_while_steps_are_unwritten(say):
    """Each mistake, with all steps unwritten except the one of the case that catches it."""
    steps = {case.id: case.step for stage in STAGES for case in CASES[stage]}
    found = [
        pattern.name
        in diagnosed(stage, pattern.failed, {1, 2, 3, 4, 5} - {steps[pattern.caught_by]})
        for stage, pattern in EACH
    ]
    assert part_of(found, say, "mistakes in the first three, other steps unwritten") >= 0.9


def test_the_diagnosis_tolerates_a_case_that_fails_additionally(say):
    draw = random.Random(0)
    found = []
    for stage, pattern in EACH:
        additional = draw.choice([case.id for case in CASES[stage]])
        failed = {additional: "crash TypeError", **dict(pattern.failed)}.items()
        found.append(pattern.name in diagnosed(stage, failed))
    assert part_of(found, say, "mistakes in the first three, one failure more") >= 0.9


@pytest.mark.parametrize("stage", STAGES)
def test_a_file_without_failures_has_no_diagnosis(stage):
    assert diagnosed(stage, set()) == []


@pytest.mark.parametrize("stage", STAGES)
def test_a_file_with_half_of_the_mistakes_has_the_mistakes_that_match(stage):
    made = PATTERNS[stage][::2]
    failed = set().union(*(pattern.failed for pattern in made))
    assert {*diagnosed(stage, failed)[:2]} <= {pattern.name for pattern in made}


@pytest.mark.parametrize("stage", STAGES)
def test_the_sentence_names_the_mistake_and_its_case(stage):
    for pattern in PATTERNS[stage]:
        (text,) = sentences(verdicts_with(stage, pattern.failed), PATTERNS[stage])
        assert f"(mistake `{pattern.name}`, case {pattern.caught_by})" in text


@pytest.mark.parametrize("stage", STAGES)
def test_cases_that_fail_in_another_way_have_no_diagnosis(stage):
    """A file that raises the same exception everywhere has none of the mistakes."""
    for pattern in PATTERNS[stage]:
        failed = {(id, "crash NameError") for id, _ in pattern.failed}
        assert sentences(verdicts_with(stage, failed), PATTERNS[stage]) == []


PATTERN = Pattern("forgets", "Forgets x.", "G-001", "a/b#1", {("G-001", "/a"), ("G-002", "/b")})


def sentence(*failed):
    """The diagnosis of a file, in which one mistake is known."""
    return " ".join(sentences(verdicts_with("stage0", failed), [PATTERN]))


def test_a_sentence_states_how_many_failures_a_mistake_explains():
    known = ("G-001", "/a"), ("G-002", "/b")
    rest = "a file that forgets x (mistake `forgets`, case G-001)."
    assert sentence(*known) == f"These failures perhaps match {rest}"
    assert sentence(*known, ("G-003", "/c")) == f"2 of the 3 failures perhaps match {rest}"
    assert sentence(*known, *((f"G-00{number}", "/c") for number in range(3, 8))) == ""


def test_a_mistake_is_not_named_if_its_own_case_passes():
    failed = {(f"G-00{number}", "/a") for number in range(1, 6)}
    pattern = Pattern("forgets", "Forgets x.", "G-001", "a/b#1", failed)
    without_own = verdicts_with("stage0", failed - {("G-001", "/a")})
    assert sentences(without_own, [pattern]) == []
    text = "These failures match a file that forgets x (mistake `forgets`, case G-001)."
    assert sentences(verdicts_with("stage0", failed), [pattern]) == [text]


def test_a_mistake_is_not_named_if_the_file_has_few_of_its_failures():
    assert sentence(("G-001", "/a")) == ""
    assert sentence(("G-001", "/a"), ("G-002", "/a")) == ""
