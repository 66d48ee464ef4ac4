import io
import json

import pytest

from stage3_tools import read_run
from stage3_tools.cli.main import main

QUESTION = "What is the weather in Shanghai?"


def test_ask_prints_the_reply_on_stdout_and_the_calls_on_stderr(tool_file, capsys):
    status = main(["ask", QUESTION, "--tools", tool_file])
    printed = capsys.readouterr()
    assert status == 0
    assert printed.out == "get_weather says for Shanghai: temp 22.\n"
    assert '→ get_weather {"city": "Shanghai"}' in printed.err
    assert '← {"city":"Shanghai","temp":22}' in printed.err


def test_ask_uses_native_tool_calls_on_request(tool_file, capsys):
    assert main(["ask", QUESTION, "--tools", tool_file, "--native"]) == 0
    assert capsys.readouterr().out == "get_weather says for Shanghai: temp 22.\n"


def test_ask_prints_json_for_scripts(tool_file, capsys):
    assert main(["ask", QUESTION, "--tools", tool_file, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["reply"] == "get_weather says for Shanghai: temp 22."
    assert printed["status"] == "completed"
    call = {"tool": "get_weather", "arguments": '{"city": "Shanghai"}'}
    assert printed["calls"] == [{**call, "status": "completed", "is_error": False}]


def test_ask_reads_the_question_from_stdin(tool_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(QUESTION))
    assert main(["ask", "-", "--tools", tool_file]) == 0
    assert "Shanghai" in capsys.readouterr().out


def test_ask_writes_a_run_file(tool_file, tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    assert main(["ask", QUESTION, "--tools", tool_file, "--trace", str(path)]) == 0
    run = read_run(path)
    assert run.status == "completed"
    assert [call.name for call in run.calls] == ["get_weather"]


EFFECTS = '''
from stage3_tools import tool


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return "ran"


@tool(effect="idempotent")
def replace_file(path: str) -> str:
    """Replace a file."""
    return "ran"


@tool(needs_approval=False)
def touch_file(path: str) -> str:
    """Touch a file."""
    return "ran"
'''


@pytest.mark.parametrize(
    ("option", "expected"), [((), ["Delete"]), (("--approve",), ["Delete", "Replace", "Touch"])]
)
def test_writes_are_asked_about_and_all_but_reads_with_approve(
    tmp_path, capsys, monkeypatch, option, expected
):
    def reject(prompt: str = "") -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", reject)
    path, asked = tmp_path / "tools.py", []
    path.write_text(EFFECTS, encoding="utf-8")
    for verb in ("Delete", "Replace", "Touch"):
        assert main(["ask", f"{verb} the file a.txt", "--tools", str(path), *option]) == 0
        asked += [verb] * ("Nobody can approve the call." in capsys.readouterr().err)
    assert asked == expected


def test_an_approver_is_asked_about_writes_only(tool_file, capsys, monkeypatch):
    answers = iter(["n", "Not today"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(answers))
    status = main(["ask", "Delete the file a.txt", "--tools", tool_file, "--approve"])
    printed = capsys.readouterr()
    assert status == 0
    assert "Not today" in printed.err
    assert "deleted" not in printed.out
    assert next(answers, None) is None


def test_reads_are_not_asked_about(tool_file, capsys, monkeypatch):
    def fail(prompt: str = "") -> str:
        raise AssertionError("input was called")

    monkeypatch.setattr("builtins.input", fail)
    assert main(["ask", QUESTION, "--tools", tool_file, "--approve"]) == 0


def test_a_missing_tool_file_is_an_error_of_usage(capsys):
    assert main(["ask", QUESTION, "--tools", "no_such_file.py"]) == 2
    assert "There is no file no_such_file.py." in capsys.readouterr().err


def test_an_unknown_provider_is_an_error_of_usage(capsys):
    assert main(["ask", QUESTION, "--model", "nowhere:model"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_failing_tool_file_names_the_error(tmp_path, capsys):
    path = tmp_path / "broken.py"
    path.write_text("1 / 0", encoding="utf-8")
    assert main(["ask", QUESTION, "--tools", str(path)]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_control_characters_of_a_reply_cannot_change_the_terminal(capsys):
    from stage3_tools.cli.terminal import Terminal

    Terminal().reply("a\x1b[2Jb\u202ec")
    assert capsys.readouterr().out == "a\\x1b[2Jb\\u202ec\n"
