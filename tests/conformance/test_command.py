"""The command: what it prints, its status, and --watch."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.case import STAGES, Case, Mismatch
from tests.conformance.command import main, until_stopped
from tests.conformance.course import FILES
from tests.conformance.grade import Verdict, grade
from tests.conformance.report import Report
from tests.conformance.starters import FINISHED, ROOT, STARTERS
from tests.conformance.subject import Subject
from tests.conformance.surroundings import EndlessRun

WRONG = """
def strict(text):
    import json
    return json.loads(text)

def parse(text):
    return strict(text), []
"""
"""A step 2 of stage 2 that accepts NaN."""


@pytest.fixture
def file(tmp_path):
    """`file(text)` is a file with this text."""

    def write(text, name="my_file.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("stage", STAGES)
def test_the_status_of_a_finished_step_is_0(stage, capsys):
    assert main([str(FINISHED / FILES[stage]), "--step", "2"]) == 0
    assert "Every MUST case passed." in capsys.readouterr().out


@pytest.mark.parametrize("stage", STAGES)
def test_the_status_of_a_starter_is_1_and_the_report_names_the_first_step(stage, capsys):
    assert main([str(STARTERS / FILES[stage])]) == 1
    printed = capsys.readouterr().out
    assert f"{FILES[stage]}: {stage}" in printed
    assert "not written yet" in printed
    assert "Next: Step" in printed


def test_the_report_on_the_page_of_the_course_is_a_real_one(file, capsys):
    page = (ROOT / "docs" / "learn" / "build" / "index.md").read_text(encoding="utf-8")
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)[-1]
    wrong = ROOT / "tests" / "conformance" / "mistakes" / "stage2" / "accepts_nan.py"

    main([file(wrong.read_text(encoding="utf-8"), "my_output.py"), "--step", "2"])

    without_lines = [re.sub(r"\.py:\d+", ".py", each) for each in (shown, capsys.readouterr().out)]
    assert without_lines[0].strip() == without_lines[1].strip()


def test_a_failed_case_is_shown_with_everything_about_it(file, capsys):
    assert main(["stage2", file(WRONG), "--step", "2", "--hint"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"O-\d+ failed \(Step 2: Parse\)", printed)
    for label in ("expected", "actual", "seen in", "page", "complete", "hint"):
        assert f"\n  {label} " in printed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(:\n", "my_file.py, line 1: invalid syntax"),
        ("def read(text, schema): ...\nimport nowhere\n", "No module named 'nowhere'"),
        ("x = 1 / 0\ndef read(text, schema): ...\n", "division by zero (my_file.py, line 1)"),
    ],
)
def test_the_status_is_2_if_a_file_cannot_be_loaded(file, capsys, text, expected):
    assert main([file(text)]) == 2
    assert expected in capsys.readouterr().out


def test_the_status_is_2_if_a_file_does_not_exist(capsys, tmp_path):
    assert main([str(tmp_path / "none.py")]) == 2
    assert "none.py cannot be read" in capsys.readouterr().out


def test_a_file_without_known_functions_needs_a_stage(file, capsys):
    assert main([file("x = 1\n")]) == 2
    printed = capsys.readouterr().out
    assert "The stage of my_file.py is unknown" in printed
    assert "  stage2: describe, find, parse, read, request, unwrap, validate" in printed


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("def parse(text): ...\n", "stage2"),
        ("class Gateway:\n    async def post(self, body): ...\n", "stage0"),
        ("OPERATIONS = {'decide': print, 'call': print}\n", "stage3"),
    ],
)
def test_the_stage_is_recognized_from_the_functions(file, capsys, text, stage):
    main([file(text), "--step", "1"])
    assert f"my_file.py: {stage}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["stage2"],
        ["stage7", "a.py"],
        ["--command", "node a.js"],
        ["a.py", "--step", "9"],
        ["stage2", "--command", "node a.js", "--watch"],
    ],
)
def test_wrong_arguments_are_explained(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_a_program_is_graded(file, capsys):
    program = file("import sys; sys.exit(5)")
    command = f'"{sys.executable}" "{program}"'
    assert main(["stage2", "--command", command, "--step", "4"]) == 1
    assert "ended with status 5" in capsys.readouterr().out


# ---- several files

REPLACED = re.compile(r"\| `(my_\w+\.py)`(?:, `(my_\w+\.py)`)? \| `(.+?)` \| (.+) \|")


def independent(name, text):
    """Replace the imports of a file as the page of the course says."""
    page = (ROOT / "docs" / "learn" / "build" / "index.md").read_text(encoding="utf-8")
    for first, second, old, new in REPLACED.findall(page):
        if name in (first, second):
            assert old in text
            text = text.replace(old, "\n".join(re.findall(r"`(.+?)`", new)))
    assert "examples" not in text.partition("# ---- Step 1")[2]
    return text


@pytest.mark.parametrize("change", [lambda name, text: text, independent], ids=["same", "changed"])
def test_the_four_files_of_a_learner_are_graded_together_and_answer_a_question(
    change, file, capsys
):
    paths = []
    for stage in STAGES:
        name = f"my_{FILES[stage]}"
        text = (FINISHED / FILES[stage]).read_text(encoding="utf-8")
        text += "\nprint('my own context')\n" * (stage == "stage1")
        paths.append(file(change(name, text), name))

    assert main([" ".join(paths), "--step", "2"]) == 0

    printed = capsys.readouterr().out
    assert printed.count("Every MUST case passed.") == 4
    assert "answer: get_weather says for Shanghai: temp 22" in printed
    assert "my own context" in printed


def test_two_files_of_one_stage_are_refused(file, capsys):
    paths = [file("def parse(text): ...\n", f"{name}.py") for name in "ab"]
    assert main(paths) == 2
    assert "Each file needs another stage." in capsys.readouterr().out


# ---- the report


def verdict(number=1, step=1, status="failed", level="MUST", text="x", failures=()):
    case = Case(
        f"O-00{number}", f"Rule {number}.", level, "stage2", step, "read", {"text": text}, [],
        {"library": "lib", "source": "a/b#1"}, "docs/page.md#x", "stage2_output/result.py::Issue", "H.",
    )  # fmt: skip
    return Verdict(case, status, list(failures), {"value": 1})


def lines(*verdicts, **settings):
    return "\n".join(Report({1: "Find", 2: "Parse"}, **settings).lines(verdicts))


def test_a_bar_shows_the_passed_cases_of_a_step():
    printed = lines(verdict(1), verdict(2, status="passed"))
    assert "Step 1: Find" in printed
    assert "##########..........   1 of 2" in printed


def test_the_failure_with_the_smallest_input_of_the_first_step_is_shown():
    printed = lines(verdict(1, step=2), verdict(2, text="long"), verdict(3, text="s"))
    assert "O-003 failed (Step 1: Find)" in printed
    assert "2 other MUST cases failed: O-001, O-002" in printed


def test_the_report_contains_input_expected_and_actual_value():
    failures = [Mismatch("/value", "1", "'1'"), Mismatch("/issues", "no value", "missing")]
    printed = lines(verdict(failures=failures))
    assert "text      'x'" in printed
    assert "expected  /value: 1\n  actual    '1'" in printed
    assert "outcome   {'value': 1}" in printed
    assert "seen in   lib: a/b#1" in printed
    assert re.search(r"complete  stage2_output/result\.py:\d+ \(Issue\)", printed)


def test_a_step_that_passed_names_the_next_one():
    functions = {1: ["find"], 2: ["parse", "strict"]}
    passed = verdict(status="passed")
    assert "Next: Step 2: Parse (parse, strict)" in lines(passed, functions=functions, step=1)
    assert "Next: grade the whole file" in lines(passed, functions=functions, step=2)
    assert "Next: docs/x.md" in lines(passed, following="docs/x.md")


def test_a_bar_is_red_only_if_a_must_case_failed():
    recommended = lines(verdict(1, status="passed"), verdict(2, level="SHOULD"), color=True)
    assert "\x1b[33m##########..........\x1b[0m   1 of 2 (1 recommended)" in recommended
    assert "\x1b[31m....................\x1b[0m   0 of 1" in lines(verdict(), color=True)


def test_the_functions_that_an_operation_checks_are_named():
    assert "\n  read, to check find, unwrap\n" in lines(
        verdict(), functions={1: ["find", "unwrap"]}
    )
    assert "\n  read\n" in lines(verdict(), functions={1: ["read"]})


def test_the_answers_of_a_server_are_shown_as_their_lines():
    failed = verdict()
    failed.case.input["server"] = [
        {"events": [{"choices": []}, "[DONE]"]},
        {"status": 503, "text": "no"},
    ]
    shown = lines(failed)
    assert "server    200\n" in shown
    assert '\n              data: {"choices": []}\n              data: [DONE]\n' in shown
    assert "\n              503\n              no\n" in shown


def test_the_output_of_the_file_is_shown_apart():
    printed = replace(verdict(failures=["why"]), printed="a\n" * 12)
    assert "  Your file printed:\n    | a\n" in lines(printed)
    assert lines(printed).count("    | a") == 10


def test_a_run_without_end_is_shown_before_other_failures_of_its_step():
    endless = replace(verdict(1, text="longer"), outcome={"crash": "It does not stop: why."})
    assert "O-001 failed" in lines(endless, verdict(2, text=""))


def test_the_hint_is_shown_on_demand():
    assert "hint      H." in lines(verdict(), hint=True)
    assert "H." not in lines(verdict())


def test_a_should_case_is_recommended_and_an_info_case_is_not_mentioned():
    printed = lines(
        verdict(1, level="SHOULD"), verdict(2, level="INFO"), verdict(3, status="passed")
    )
    assert "Every MUST case passed." in printed
    assert "Recommended (O-001): Rule 1." in printed
    assert "Rule 2" not in printed


def test_recommendations_follow_when_every_must_case_passes():
    assert "Recommended" not in lines(verdict(1, level="SHOULD"), verdict(2))


def test_colors_add_nothing_but_colors():
    failed = verdict(failures=["why"])
    plain, colored = lines(failed), lines(failed, color=True)
    assert "\x1b[31m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == plain


def test_an_input_of_many_lines_is_shortened():
    assert "more lines)" in lines(verdict(text=["a" * 70] * 50))


def test_a_long_text_of_an_input_does_not_hide_the_other_fields():
    failed = verdict(text=[{"content": "a" * 5000}])
    failed.case.input["limit"] = 7
    printed = lines(failed)
    assert "5,000" in printed
    assert "limit     7" in printed


# ---- subjects that do not end


async def waiting():
    import asyncio

    await asyncio.sleep(60)


def test_an_operation_that_does_not_end_fails_its_case():
    failed = verdict()
    failed.case.input.clear()
    (found,) = grade(Subject("x", {"read": waiting}), [failed.case], seconds=0.1)
    assert "does not stop" in found.outcome["crash"]


def repeating():
    raise EndlessRun("more than 60 requests")


def test_the_command_stops_after_three_cases_that_do_not_end():
    case = verdict().case
    case.input.clear()
    found, reason = until_stopped(Subject("x", {"read": repeating}), [case] * 5)
    assert (len(found), reason) == (3, "3 cases did not end")


# ---- --watch


def test_a_change_is_graded_and_errors_do_not_end_the_command(file):
    path = file("def parse(text): ...\n")
    command = [sys.executable, "tests/conformance", path, "--step", "2", "--watch"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            assert "not written yet: parse" in until_waiting(process)
            Path(path).write_text("def parse(text: ...\n", encoding="utf-8")
            assert "my_file.py, line 1" in until_waiting(process)
            Path(path).unlink()
            assert "cannot be read" in until_waiting(process)
            Path(path).write_text("def parse(text): return 1, []\n", encoding="utf-8")
            assert "failed (Step 2: Parse)" in until_waiting(process)
        finally:
            process.terminate()


def until_waiting(process):
    """Read a whole report."""
    found = ""
    while "Waiting" not in found:
        line = process.stdout.readline()
        assert line, "the command has ended"
        found += line
    return found
