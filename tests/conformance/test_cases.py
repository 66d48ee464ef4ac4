"""The data of the suite is valid, and everything that it refers to exists."""

import ast
import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from types import ModuleType

import pytest
from jsonschema import Draft202012Validator

from tests.conformance.case import (
    COMPARISONS,
    FOLDER,
    STAGES,
    Case,
    load_cases,
    load_course_cases,
    size,
)
from tests.conformance.course import OPERATIONS
from tests.conformance.location import ROOT, line_of
from tests.tables import for_each

LETTERS = {"stage0": "G", "stage1": "C", "stage2": "O", "stage3": "L"}
FILES = sorted(FOLDER.glob("*/*.json"))
SCHEMA = json.loads((Path(__file__).parent / "case.schema.json").read_text(encoding="utf-8"))


@for_each("path", FILES)
def test_a_file_of_cases_fits_the_schema(path):
    errors = Draft202012Validator(SCHEMA).iter_errors(json.loads(path.read_text("utf-8")))
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


@for_each("path", FILES)
def test_a_file_contains_the_cases_of_its_step(path):
    number, _, name = path.stem.partition("-")
    expected = "complete" if name == "complete" else int(number)
    assert {row["step"] for row in json.loads(path.read_text("utf-8"))} == {expected}


@pytest.mark.parametrize("stage", STAGES)
def test_ids_are_unique_rise_and_begin_with_the_letter_of_the_stage(stage):
    ids = [case.id for case in load_cases(stage)]
    assert ids == sorted(set(ids))
    assert {id[0] for id in ids} <= {LETTERS[stage]}


def test_an_unknown_stage_is_an_error():
    with pytest.raises(ValueError, match="stage0, stage1, stage2, stage3"):
        load_cases("stage7")


def test_the_schema_knows_every_comparison():
    known = set(SCHEMA["$defs"]["check"]["anyOf"][0]["properties"])
    assert known == {*COMPARISONS, "at", "absent"}


@pytest.mark.parametrize("stage", STAGES)
def test_a_source_is_public(stage):
    """Ids of recordings that are not part of the repository mean nothing to a reader."""
    sources = {case.id: case.origin["source"] for case in load_cases(stage)}
    assert [id for id, each in sources.items() if re.search(r"-[0-9a-f]{12}\b", each)] == []


def test_a_library_has_one_name_without_its_owner():
    names, repositories = set(), defaultdict(set)
    for case in (case for stage in STAGES for case in load_cases(stage)):
        if library := case.origin.get("library"):
            names.add(library)
            found = re.match(r"([\w.-]+/[\w.-]+)#\d", case.origin["source"])
            repositories[found[1] if found else library].add(library)
    assert [name for name in names if "/" in name] == []
    assert {source: found for source, found in repositories.items() if len(found) > 1} == {}
    assert [name for name, number in Counter(map(str.lower, names)).items() if number > 1] == []


def test_the_length_of_a_long_text_counts():
    cases = {case.id: case for case in load_cases("stage2")}
    assert size(cases["O-047"]) > 100_000 > size(cases["O-040"])


def test_the_case_in_the_readme_is_a_real_one():
    readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    shown = json.loads(re.findall(r"```json\n(.*?)```", readme, re.DOTALL)[0])
    rows = json.loads((FOLDER / "stage2" / "2-parse.json").read_text(encoding="utf-8"))
    assert shown in rows


def anchors(page):
    """The anchors of the headings of a page; empty if the page does not exist."""
    if not (ROOT / page).is_file():
        return set()
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("stage", STAGES)
def test_the_page_and_the_section_of_every_case_exist(stage):
    pages = {case.page for case in load_cases(stage)}
    missing = [
        page for page in pages if page.partition("#")[2] not in anchors(page.partition("#")[0])
    ]
    assert missing == []


@pytest.mark.parametrize("stage", STAGES)
def test_the_code_of_every_case_exists(stage):
    assert [code for code in {case.code for case in load_cases(stage)} if not exists(code)] == []


def exists(code):
    try:
        return line_of(code) > 0
    except LookupError:
        return False


@pytest.mark.parametrize("stage", STAGES)
def test_the_operations_of_the_course_are_those_of_the_cases(stage):
    known = set(OPERATIONS[stage](ModuleType(stage)))
    used = {case.operation for case in load_course_cases(stage)}
    assert used <= known


def test_the_cases_of_stage_0_cover_three_wire_formats_in_both_directions():
    found = {(case.input.get("format", "openai"), case.operation) for case in load_cases("stage0")}
    formats, operations = ("openai", "anthropic", "gemini"), ("encode", "decode", "chat", "stream")
    assert found == {(format, operation) for format in formats for operation in operations}


@pytest.mark.parametrize(("step", "operation"), [(3, "decide"), (5, "answer")])
def test_both_dialects_have_must_cases(step, operation):
    must = [each for each in loop_cases(step, operation) if each.level == "MUST"]
    assert {each.input["dialect"] for each in must} == {"native", "prompt"}


def test_another_library_can_answer_most_cases_of_the_loop():
    """An adapter gets a question, tools and replies in the native dialect, and nothing else."""
    plain = {"question", "dialect", "tools", "replies", "repeat"}
    loop = [each for each in loop_cases(5, "answer") if each.input["dialect"] == "native"]
    assert len([each for each in loop if set(each.input) <= plain]) >= 35
    assert all(set(each.input) <= plain | {"history"} for each in loop)


def test_a_case_of_the_course_needs_no_argument_beyond_the_protocol():
    known = {"question", "dialect", "tools", "replies", "repeat", "history"}
    known |= {"reply", "call", "messages"}
    assert {name for each in load_course_cases("stage3") for name in each.input} <= known


def test_a_thread_of_a_case_has_a_repository_and_a_number():
    threads = [
        each.origin["source"].split(";")[0]
        for each in load_cases("stage3")
        if "#" in each.origin["source"]
    ]
    assert len(threads) > 60
    assert [each for each in threads if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", each)] == []


def loop_cases(step, operation):
    """The cases of an operation of stage 3."""
    return [
        case for case in load_cases("stage3") if (case.step, case.operation) == (step, operation)
    ]


def test_code_that_does_not_exist_is_found():
    for code in ("stage2_output/none.py::parse", "stage2_output/result.py::Nothing"):
        with pytest.raises(LookupError):
            line_of(code)


# ---- checks


def conversation(calls, results):
    """Calls with these ids, results with these ids, and a question."""
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": id, "type": "function", "function": function} for id in calls]
    results = [{"role": "tool", "tool_call_id": id, "content": ""} for id in results]
    reply = {"role": "assistant", "content": "", "tool_calls": calls}
    return [reply, *results, {"role": "user", "content": "?"}]


def outcome_passes(outcome, *checks):
    return not case_with(*checks).failures(outcome)


def case_with(*checks):
    return Case("O-000", "A rule.", "MUST", "stage2", 1, "read", {}, list(checks), {}, "", "", "")


@for_each(
    "check, good, bad",
    [
        ({"equals": 1}, 1, True),
        ({"equals": {"a": 1, "b": 2}}, {"b": 2, "a": 1}, {"a": 1}),
        ({"one_of": ["x", None]}, None, "y"),
        ({"contains": "a"}, "cab", "b"),
        ({"contains": ["a", "b"]}, ["a", "b", "c"], ["a"]),
        ({"lacks": "a"}, "b", "ab"),
        ({"json": {"a": 1}}, '{"a":1}', "{a: 1}"),
        ({"matches": "^a+$"}, "aa", "ab"),
        ({"distinct": "/id"}, [{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 1}]),
        ({"distinct": "/id"}, [], [{"id": 1}, {}]),
        ({"distinct": "/id"}, [{"id": 1}], None),
        ({"paired": True}, [], [{"role": "tool"}]),
        ({"paired": True}, conversation(["a", "b"], ["a", "b"]), conversation(["a", "b"], ["a"])),
        ({"paired": True}, conversation(["a", "b"], ["b", "a"]), conversation(["a"], ["a", "a"])),
        ({"paired": True}, conversation([], []), conversation(["a"], ["b"])),
        ({"paired": True}, conversation(["a"], ["a"]), conversation(["a", "a"], ["a", "a"])),
        *(({"paired": True}, [], value) for value in (None, 1, ["text"], [{"content": ""}])),
        ({"length": 2}, "ab", "abc"),
        ({"at_least": 2}, 2, 1),
        ({"at_most": 2}, 2, 3),
    ],
)
def test_a_comparison_accepts_and_rejects(check, good, bad):
    assert outcome_passes({"value": good}, {"at": "/value", **check})
    assert not outcome_passes({"value": bad}, {"at": "/value", **check})


def test_a_missing_value_fails_and_a_forbidden_one_too():
    assert not outcome_passes({}, {"at": "/value", "present": True})
    assert not outcome_passes({"value": 1}, {"at": "/value", "absent": True})
    assert outcome_passes({}, {"at": "/value", "absent": True})


def test_the_last_item_of_a_list_is_minus_one():
    assert outcome_passes({"value": [1, {"a/b": 2}]}, {"at": "/value/-1/a~1b", "equals": 2})


def test_one_of_several_lists_of_checks_is_enough():
    check = {"any": [[{"at": "/a", "present": True}], [{"at": "/b", "present": True}]]}
    assert outcome_passes({"b": 1}, check)
    assert [str(each) for each in case_with(check).failures({})] == [
        "the outcome: expected /a: a value or /b: a value; actual: {}"
    ]


def test_a_crash_fails_every_check():
    check = {"at": "/value", "absent": True}
    assert "TypeError" in str(case_with(check).failures({"crash": "TypeError: x"})[0])


def test_a_failure_states_the_place_the_expected_and_the_actual_value():
    failures = case_with({"at": "/value", "equals": [1]}).failures({"value": {"a": None}})
    assert failures == [("/value", "[1]", "{'a': None}")]


def test_the_modules_of_the_suite_do_not_hide_modules_of_python():
    """The folder of the command is the first place where Python looks for modules."""

    names = {path.stem for path in Path(__file__).parent.glob("*.py")}
    assert names & set(sys.stdlib_module_names) <= {"__main__"}


def test_the_command_needs_the_core_requirements_only():
    """The learner has the environment of `make demo`; mutants.py needs cosmic-ray."""
    allowed = {"httpx", "tests", "examples"}
    found = Counter()
    for path in Path(__file__).parent.glob("*.py"):
        if not path.stem.startswith("test_") and path.stem != "mutants":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) else []
                found.update(name.partition(".")[0] for name in names)

    assert set(found) - set(sys.stdlib_module_names) <= allowed
