"""`llm-stages ask` prints a reply and the calls behind it, and asks before a write."""

import builtins
import io
import json

import pytest

from llm_stages import read_run
from tests.llm_stages.cli.command import llm_stages, write_tools

QUESTION = "What is the weather in Shanghai?"
REPLY = "get_weather says for Shanghai: temp 22."


@pytest.fixture
def type_lines(monkeypatch):
    """`type_lines(*lines)` types these lines, and then the end of the input. Returns the lines that
    are left."""

    def type_them(*lines):
        left = [*lines]

        def read_line(prompt=""):
            if not left:
                raise EOFError
            return left.pop(0)

        monkeypatch.setattr(builtins, "input", read_line)
        return left

    return type_them


def test_ask_prints_the_reply_on_stdout_and_the_calls_on_stderr(tool_file, capsys):
    assert llm_stages("ask", QUESTION, "--tools", tool_file) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{REPLY}\n"
    assert '→ get_weather {"city": "Shanghai"}' in printed.err
    assert '← {"city":"Shanghai","temp":22}' in printed.err


def test_ask_uses_native_tool_calls_on_request(tool_file, capsys):
    assert llm_stages("ask", QUESTION, "--tools", tool_file, "--native") == 0
    assert capsys.readouterr().out == f"{REPLY}\n"


def test_ask_prints_json_for_scripts(tool_file, capsys):
    assert llm_stages("ask", QUESTION, "--tools", tool_file, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["reply"], printed["status"]) == (REPLY, "completed")
    call = {"tool": "get_weather", "arguments": '{"city": "Shanghai"}'}
    assert printed["calls"] == [{**call, "status": "completed", "is_error": False}]


def test_ask_reads_the_question_from_stdin(tool_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(QUESTION))
    assert llm_stages("ask", "-", "--tools", tool_file) == 0
    assert capsys.readouterr().out == f"{REPLY}\n"


def test_ask_writes_a_run_file(tool_file, tmp_path):
    path = tmp_path / "run.jsonl"
    assert llm_stages("ask", QUESTION, "--tools", tool_file, "--trace", path) == 0
    run = read_run(path)
    assert (run.status, [call.name for call in run.calls]) == ("completed", ["get_weather"])


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
    tmp_path, capsys, type_lines, option, expected
):
    type_lines()
    path, asked = write_tools(tmp_path, EFFECTS), []
    for verb in ("Delete", "Replace", "Touch"):
        assert llm_stages("ask", f"{verb} the file a.txt", "--tools", path, *option) == 0
        asked += [verb] * ("Nobody can approve the call." in capsys.readouterr().err)
    assert asked == expected


def test_reads_are_not_asked_about(tool_file, type_lines):
    left = type_lines("y")
    assert llm_stages("ask", QUESTION, "--tools", tool_file, "--approve") == 0
    assert left == ["y"]


def test_a_rejection_has_a_reason_for_the_model(tool_file, capsys, type_lines):
    left = type_lines("n", "Not today")
    assert llm_stages("ask", "Delete the file a.txt", "--tools", tool_file, "--approve") == 0
    printed = capsys.readouterr()
    assert "Not today" in printed.err
    assert "deleted" not in printed.out
    assert left == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["e", '{"path": "b.txt"}'], "deleted b.txt"),
        (["e", "no JSON", "e", "[1]", "e", '{"path": "c.txt"}'], "deleted c.txt"),
        (["what?", "y"], "deleted a.txt"),
        (["a"], "deleted a.txt"),
    ],
)
def test_a_call_can_be_edited_or_approved(tool_file, type_lines, capsys, lines, expected):
    left = type_lines(*lines)
    assert llm_stages("ask", "Delete the file a.txt", "--tools", tool_file, "--approve") == 0
    assert expected in capsys.readouterr().out
    assert left == []


def test_json_stays_valid_if_the_run_asks_for_approval(tool_file, type_lines, capsys):
    type_lines("y")
    command = ("ask", "Delete the file a.txt", "--tools", tool_file, "--approve", "--json")
    assert llm_stages(*command) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["calls"][0]["status"] == "completed"
    assert 'delete_file {\n  "path": "a.txt"\n}\nRun it?' in printed.err


def test_a_failing_tool_file_names_the_error(tmp_path, capsys):
    path = write_tools(tmp_path, "1 / 0")
    assert llm_stages("ask", QUESTION, "--tools", path) == 2
    assert capsys.readouterr().err == (
        f"Error: {path} cannot be run: ZeroDivisionError: division by zero\n"
    )


def test_the_notice_of_the_offline_model_appears_only_if_it_answers(capsys, caplog):
    assert llm_stages("ask", "Hello", "--tools", "nope.py") == 2
    assert (capsys.readouterr().err, caplog.text) == ("Error: There is no file nope.py.\n", "")
    assert llm_stages("ask", "Hello") == 0
    assert caplog.text.count("NOTICE") == 1
