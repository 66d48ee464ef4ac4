"""The subjects that must pass, and those that must not."""

import ast
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.case import STAGES, load_cases, load_course_cases
from tests.conformance.course import FILES, load_course_file
from tests.conformance.grade import grade
from tests.conformance.program import Program
from tests.conformance.starters import FINISHED, ROOT, names_of
from tests.conformance.subject import Subject, load_module

FOLDER = Path(__file__).parent / "subjects"
COMPLETE = sorted((FOLDER / "complete").glob("stage*.py"))
OTHERS = sorted((FOLDER / "others").glob("stage*_*.py"))

STRICTER = {
    "stage2": {"O-071"},  # the complete stage reports the repair of a leading comma
    "stage3": {"L-147", "L-148"},  # it records the repair of arguments, and runs the call
}
"""Cases of the course in which the complete stage repairs what a short file refuses."""


def required(stage):
    """The MUST and SHOULD cases of a stage."""
    return [case for case in load_cases(stage) if case.level != "INFO"]


def of_the_course(stage):
    """The MUST and SHOULD cases of the course."""
    return [case for case in load_course_cases(stage) if case.level != "INFO"]


def failures(subject, cases):
    """The failed cases with their reasons."""
    return {
        each.case.id: [str(text) for text in each.failures]
        for each in grade(subject, cases)
        if each.status != "passed"
    }


def is_program(path):
    """Whether a file is a program that speaks JSON lines; the others have OPERATIONS."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return not any("OPERATIONS" in names_of(node) for node in tree.body)


@pytest.mark.parametrize("path", COMPLETE, ids=lambda path: path.stem)
def test_the_complete_stage_passes_every_must_and_should(path):
    subject = Subject(path.stem, load_module(path).OPERATIONS)
    assert set(failures(subject, required(path.stem))) == STRICTER.get(path.stem, set())


@contextmanager
def functions_that_run():
    """The names of all functions of the project that run, as in the `code` of a case."""
    root, found = f"{ROOT}/", set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            found.add(f"{code.co_filename.removeprefix(root)}::{code.co_qualname}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.long
@pytest.mark.parametrize("stage", ["stage2", "stage3"])
def test_the_code_of_a_case_runs_for_the_case(stage):
    subject = Subject(stage, load_module(FOLDER / "complete" / f"{stage}.py").OPERATIONS)
    elsewhere = []
    for case in load_cases(stage):
        with functions_that_run() as names:
            grade(subject, [case])
        if not any(name == case.code or name.startswith(f"{case.code}.") for name in names):
            elsewhere.append(f"{case.id} {case.code}")
    assert elsewhere == []


@pytest.mark.parametrize("stage", STAGES)
def test_the_finished_file_passes_every_case_of_its_steps(stage):
    assert failures(load_course_file(FINISHED / FILES[stage], stage), of_the_course(stage)) == {}


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_an_implementation_of_another_design_passes_the_cases_of_the_course(path):
    subject = (
        Program(f'"{sys.executable}" "{path}"')
        if is_program(path)
        else Subject(path.stem, load_module(path).OPERATIONS)
    )
    assert failures(subject, of_the_course(path.stem[:6])) == {}


@pytest.mark.parametrize("stage", STAGES)
def test_there_are_other_implementations_as_a_module_and_as_a_program(stage):
    kinds = {is_program(path) for path in OTHERS if path.stem.startswith(stage)}
    assert kinds == {True, False}


def test_a_program_reports_an_operation_that_it_does_not_have():
    unknown = replace(load_cases("stage3")[0], operation="dance")
    program = Program(f'"{sys.executable}" "{FOLDER / "others" / "stage3_program.py"}"')
    (verdict,) = grade(program, [unknown])
    assert verdict.status == "unsupported"


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_another_implementation_does_not_import_this_project(path):
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        modules.update(name.partition(".")[0] for name in names)
    assert {each for each in modules if each.startswith(("stage", "examples"))} == set()
    if is_program(path):
        assert modules <= sys.stdlib_module_names


def nothing(**arguments):
    return None


@pytest.mark.parametrize("stage", STAGES)
def test_a_function_that_returns_nothing_or_an_empty_object_fails_every_case(stage):
    operations = dict.fromkeys((case.operation for case in required(stage)), nothing)
    for verdict in grade(Subject("nothing", operations), required(stage)):
        outcome = dict(verdict.outcome)
        assert outcome.pop("value", ...) is None, verdict.case.id
        assert verdict.status == "failed", verdict.case.id
        assert verdict.case.failures(outcome), verdict.case.id


def unwritten(**arguments):
    raise NotImplementedError


@pytest.mark.parametrize("stage", STAGES)
def test_a_function_that_is_not_written_passes_no_case(stage):
    operations = dict.fromkeys((case.operation for case in required(stage)), unwritten)
    assert {each.status for each in grade(Subject("", operations), required(stage))} == {"failed"}
