"""Starter files, and the parts of a learner's file that are built in."""

import ast

import pytest

from tests.conformance.case import load_cases, load_course_cases
from tests.conformance.course import FILES, functions_of, load_course_file
from tests.conformance.differences import PAGE, differences
from tests.conformance.grade import grade
from tests.conformance.starters import FINISHED, STARTERS, starters
from tests.conformance.subject import SubjectError
from tests.tables import for_each

STEPS = (1, 2, 3, 4, 5)


def without_steps(stage, steps, folder):
    """Write the finished file of a stage with some steps unwritten; return its path."""
    tree = ast.parse((FINISHED / FILES[stage]).read_text(encoding="utf-8"))
    removed = {
        name.rpartition(".")[2]
        for name, (step, _) in functions_of(STARTERS / FILES[stage]).items()
        if step in steps
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in removed:
            node.body = [ast.Expr(ast.Constant(...))]
    path = folder / "my_file.py"
    path.write_text(ast.unparse(tree), encoding="utf-8")
    return path


def statuses(path, stage, cases=None):
    """The statuses of the cases by step."""
    found = {}
    for each in grade(load_course_file(path, stage), cases or load_course_cases(stage)):
        found.setdefault(each.case.step, set()).add(each.status)
    return found


def cases_of_each_operation(stage):
    """The first case of each operation in each step."""
    first = {(case.step, case.operation): case for case in reversed(load_course_cases(stage))}
    return [*first.values()]


@pytest.mark.parametrize("path", starters(), ids=lambda path: path.name)
def test_a_starter_is_up_to_date(path):
    text = path.read_text(encoding="utf-8")
    assert text == starters()[path], f"{path.name} is out of date. Run: make course"


@pytest.mark.parametrize("stage", FILES)
def test_every_step_of_a_starter_is_unwritten(stage):
    subject = load_course_file(STARTERS / FILES[stage], stage)
    assert tuple(sorted(subject.unwritten)) == STEPS


@pytest.mark.parametrize("stage", FILES)
def test_a_starter_fails_every_case(stage):
    found = statuses(STARTERS / FILES[stage], stage)
    assert set.union(set(), *found.values()) <= {"unwritten"}


@pytest.mark.parametrize(
    "choose", [cases_of_each_operation, pytest.param(load_course_cases, marks=pytest.mark.long)]
)
@for_each("step", STEPS)
@for_each("stage", FILES)
def test_a_step_passes_while_the_others_are_unwritten(stage, step, choose, tmp_path):
    path = without_steps(stage, {*STEPS} - {step}, tmp_path)
    for graded, found in statuses(path, stage, choose(stage)).items():
        assert found == ({"passed"} if graded == step else {"unwritten"})


@pytest.mark.long
@for_each("step", STEPS)
@for_each("stage", FILES)
def test_a_step_that_is_unwritten_fails_while_the_others_pass(stage, step, tmp_path):
    path = without_steps(stage, {step}, tmp_path)
    for graded, found in statuses(path, stage).items():
        assert found == ({"unwritten"} if graded == step else {"passed"})


def course_file(folder, text):
    path = folder / "my_file.py"
    path.write_text(text, encoding="utf-8")
    return path


async def test_the_built_in_functions_call_the_function_of_the_learner(tmp_path):
    text = "def parse(text):\n    return 'mine', []\n"
    subject = load_course_file(course_file(tmp_path, text), "stage2")
    outcome = await subject.perform("read", {"text": "{}"})
    assert outcome["value"] == "mine"


async def test_a_schema_is_a_dictionary_also_if_a_case_has_none(tmp_path):
    text = "def read(text, schema):\n    return Result(schema.get('type'), [], [])\n"
    text = "from examples.from_scratch.output import Result\n" + text
    subject = load_course_file(course_file(tmp_path, text), "stage2")
    assert (await subject.perform("read", {"text": "{}"}))["value"] is None


async def test_the_errors_of_the_learner_and_the_built_in_ones_are_the_same(tmp_path):
    text = """
class ModelError(Exception): ...
class TemporaryError(ModelError): ...
"""
    subject = load_course_file(course_file(tmp_path, text), "stage0")
    outcome = await subject.perform("decode", {"body": {}})
    assert outcome["error"]["kind"] == "permanent"


async def test_a_function_with_the_name_of_a_built_in_helper_does_not_disturb_it(tmp_path):
    text = "def strict(number):\n    return 1 / 0\n"
    subject = load_course_file(course_file(tmp_path, text), "stage2")
    assert (await subject.perform("read", {"text": "{}"}))["value"] == {}


async def test_a_method_that_is_missing_is_built_in(tmp_path):
    text = (
        "class History:\n    def add(self, message):\n        self.messages += [message, message]\n"
    )
    subject = load_course_file(course_file(tmp_path, text), "stage1")
    message = {"role": "user", "content": "Hi"}
    outcome = await subject.perform("history", {"path": str(tmp_path / "x"), "add": [message]})
    assert outcome["messages"] == [message, message]
    assert subject.unwritten[5] == ["History.__init__"]


@pytest.mark.parametrize("body", ["...", "pass", '"""Soon."""', "raise NotImplementedError"])
def test_a_function_without_a_body_is_unwritten(body, tmp_path):
    path = course_file(tmp_path, f"def parse(text):\n    {body}\n")
    assert load_course_file(path, "stage2").unwritten[2] == ["parse"]


def test_a_function_that_another_file_defines_is_written(tmp_path):
    path = course_file(tmp_path, "from examples.from_scratch.output import parse\n")
    assert 2 not in load_course_file(path, "stage2").unwritten


def test_a_file_with_a_syntax_error_is_refused_with_its_line(tmp_path):
    with pytest.raises(SubjectError, match=r"my_file\.py, line 2"):
        load_course_file(course_file(tmp_path, "x = 1\ndef f(:\n"), "stage2")


@pytest.mark.parametrize(
    ("stage", "text", "operation", "arguments", "expected"),
    [
        ("stage0", "def decode(body):\n    body", "decode", {"body": 1}, "the result of decode is None"),
        ("stage2", "def read(text, schema):\n    return 1, 2", "read", {"text": ""}, "is (1, 2), without"),
    ],
)  # fmt: skip
async def test_a_value_of_a_wrong_type_is_named(
    tmp_path, stage, text, operation, arguments, expected
):
    subject = load_course_file(course_file(tmp_path, text), stage)
    assert expected in (await subject.perform(operation, arguments))["crash"]


async def test_an_operation_or_an_argument_that_a_subject_does_not_have_is_unsupported(tmp_path):
    subject = load_course_file(course_file(tmp_path, ""), "stage2")
    for operation, arguments in [("dance", {}), ("read", {"text": "", "speed": 1})]:
        outcome = await subject.perform(operation, arguments)
        assert outcome["error"]["kind"] == "unsupported"


@pytest.mark.long
def test_the_page_of_differences_is_up_to_date() -> None:
    page = differences()
    assert PAGE.read_text(encoding="utf-8") == page, "Run `make course`."
    beyond = [case for stage in FILES for case in load_cases(stage) if case.step == "complete"]
    passed = [case.id for case in beyond if case.level != "INFO" and case.id not in page]
    assert passed == [], "The finished file fails every case beyond the course."
