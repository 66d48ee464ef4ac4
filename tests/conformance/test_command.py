"""The command: what it prints, its status, and --watch."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.conformance.case import STAGES, load_cases
from tests.conformance.command import answered_question, main, stage_of, until_stopped
from tests.conformance.course import FILES
from tests.conformance.grade import grade
from tests.conformance.starters import FINISHED, ROOT, STARTERS
from tests.conformance.subject import Subject
from tests.conformance.surroundings import EndlessRun
from tests.programs import Program
from tests.tables import for_each

COURSE = (ROOT / "docs" / "learn" / "build" / "index.md").read_text(encoding="utf-8")
"""The page of the course."""


@pytest.fixture
def file(tmp_path):
    """`file(text)` is a file with this text."""

    def write(text, name="my_file.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_the_status_of_a_finished_step_is_0(capsys):
    assert main([str(FINISHED / "context.py"), "--step", "2"]) == 0
    assert "Every MUST case passed." in capsys.readouterr().out


def test_the_status_of_a_starter_is_1_and_the_report_names_the_first_step(capsys):
    assert main([str(STARTERS / "context.py")]) == 1
    printed = capsys.readouterr().out
    assert "context.py: stage1" in printed
    assert "not written yet" in printed
    assert "Next: Step 1" in printed


def test_the_report_on_the_page_of_the_course_is_that_of_a_known_mistake(capsys):
    shown = re.findall(r"```text\n(.*?)```", COURSE, re.DOTALL)[-1]

    assert main(["stage2", "accepts_nan", "--step", "2"]) == 1

    without_lines = [re.sub(r"\.py:\d+", ".py", each) for each in (shown, capsys.readouterr().out)]
    assert without_lines[0].strip() == without_lines[1].strip()


def test_the_status_of_an_unknown_mistake_is_2(capsys):
    assert main(["stage2", "accept_nan"]) == 2
    assert "Similar names: accepts_nan." in capsys.readouterr().out


def test_a_failed_case_is_shown_with_everything_about_it(file, capsys):
    wrong = file("def count_tokens(message):\n    return 0\n")
    assert main(["stage1", wrong, "--step", "2", "--hint"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"C-\d+ failed \(Step 2: Count\)", printed)
    for label in ("expected", "actual", "seen in", "page", "complete", "hint"):
        assert f"\n  {label} " in printed
    assert "--hint" not in printed


@for_each(
    "text, expected",
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


@for_each(
    "text, stage",
    [
        ("def parse(text): ...\n", "stage2"),
        ("class Gateway:\n    async def post(self, body): ...\n", "stage0"),
        ("OPERATIONS = {'decide': print, 'call': print}\n", "stage3"),
        *(((STARTERS / FILES[stage]).read_text(encoding="utf-8"), stage) for stage in STAGES),
        *(((FINISHED / FILES[stage]).read_text(encoding="utf-8"), stage) for stage in STAGES),
    ],
)
def test_the_stage_is_recognized_from_the_functions(file, text, stage):
    assert stage_of(Path(file(text))) == stage


@for_each(
    "arguments, expected",
    [
        ([], "a file is needed, or a stage and --command"),
        (["stage2"], "a file is needed, or a stage and --command"),
        (["stage2", "accepts_nan", "--command", "node a.js"], "a file is needed, or a stage and"),
        (["stage7", "a.py"], "unknown stage stage7; the stages are stage0, stage1, stage2, stage3"),
        (["accepts_nan"], "the name of a known mistake needs its stage"),
        (["stage2", "a.py", "b.py"], "do not name one"),
        (["--command", "node a.js"], "a program needs a stage"),
        (["a.py", "--step", "9"], "invalid choice: 9"),
        (["stage2", "--command", "node a.js", "--watch"], "only a file can be watched"),
        (["stage2", "accepts_nan", "--watch"], "only a file can be watched"),
    ],
)
def test_wrong_arguments_are_explained(arguments, expected, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert expected in " ".join(capsys.readouterr().err.split())


def test_a_program_is_graded(file, capsys):
    program = file("import sys; sys.exit(5)")
    command = f'"{sys.executable}" "{program}"'
    assert main(["stage2", "--command", command, "--step", "4"]) == 1
    assert "ended with status 5" in capsys.readouterr().out


# ---- several files


def finished_file(stage):
    return (FINISHED / FILES[stage]).read_text(encoding="utf-8")


def test_the_four_files_of_a_learner_are_graded_together_and_answer_a_question(file, capsys):
    texts = {stage: finished_file(stage) for stage in STAGES}
    texts["stage1"] += "\nprint('my own context')\n"
    paths = [file(texts[stage], f"my_{FILES[stage]}") for stage in STAGES]

    assert main([" ".join(paths), "--step", "2"]) == 0

    printed = capsys.readouterr().out
    assert printed.count("Every MUST case passed.") == 4
    assert "answer: get_weather says for Shanghai: temp 22" in printed
    assert "my own context" in printed


REPLACED = re.compile(r"\| `(my_\w+\.py)`(?:, `(my_\w+\.py)`)? \| `(.+?)` \| (.+) \|")


def independent(name, text):
    """Replace the imports of a file as the page of the course describes."""
    for first, second, old, new in REPLACED.findall(COURSE):
        if name in (first, second):
            assert old in text
            text = text.replace(old, "\n".join(re.findall(r"`(.+?)`", new)))
    assert "examples" not in text.partition("# ---- Step 1")[2]
    return text


def test_files_that_import_each_other_are_graded_and_answer_a_question(file, capsys):
    paths = {}
    for stage in STAGES:
        name = f"my_{FILES[stage]}"
        paths[stage] = file(independent(name, finished_file(stage)), name)

    assert main([paths["stage3"], "--step", "2"]) == 0  # it imports the other files
    assert answered_question({stage: Path(path) for stage, path in paths.items()}) == 0

    printed = capsys.readouterr().out
    assert "Every MUST case passed." in printed
    assert "answer: get_weather says for Shanghai: temp 22" in printed


def test_two_files_of_one_stage_are_refused(file, capsys):
    paths = [file("def parse(text): ...\n", f"{name}.py") for name in "ab"]
    assert main(paths) == 2
    assert "Each file needs another stage." in capsys.readouterr().out


# ---- subjects that do not end

CASE = next(case for case in load_cases("stage2") if case.operation == "read")


async def waiting(text):
    await asyncio.Event().wait()


def test_an_operation_that_does_not_end_fails_its_case():
    (found,) = grade(Subject("x", {"read": waiting}), [CASE], seconds=0.1)
    assert "does not stop" in found.outcome["crash"]


def repeating(text):
    raise EndlessRun("more than 60 requests")


def test_the_command_stops_after_three_cases_that_do_not_end():
    found, reason = until_stopped(Subject("x", {"read": repeating}), [CASE] * 5)
    assert (len(found), reason) == (3, "3 cases did not end")


# ---- --watch


def test_a_change_is_graded_and_errors_do_not_end_the_command(file, tmp_path):
    path = file("def count_tokens(message): ...\n")
    output = tmp_path / "output"
    os.mkfifo(output)
    program = Program(["tests/conformance", path, "--step", "2", "--watch"], stdout=output)
    try:
        with output.open(encoding="utf-8") as printed:
            assert "not written yet: count_tokens" in until_waiting(printed)
            replace(path, "def count_tokens(message: ...\n")
            assert "my_file.py, line 1" in until_waiting(printed)
            Path(path).unlink()
            assert "cannot be read" in until_waiting(printed)
            replace(path, "def count_tokens(message): return 0\n")
            assert "failed (Step 2: Count)" in until_waiting(printed)
    finally:
        program.kill()


def replace(path, text):
    """Write a file like an editor: at no time is it incomplete."""
    new = Path(f"{path}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def until_waiting(printed):
    """Read a whole report."""
    found = ""
    while "Waiting" not in found:
        line = printed.readline()
        assert line, "the command has ended"
        found += line
    return found
