"""The exit status, the usage errors and the output of every command."""

import asyncio
import json
import re

import pytest

from llm_stages import (
    Gateway,
    NativeDialect,
    RunFile,
    ScriptedModel,
    ask_sync,
    read_run,
    read_runs,
)
from tests.llm_stages.cli.command import llm_stages
from tests.llm_stages.runs.run_files import write_sub_run
from tests.tables import for_each

COMMANDS = (
    "ask",
    "chat",
    "tools",
    "check",
    "inspect",
    "replay",
    "diff",
    "export",
    "sessions",
    "doctor",
    "serve",
)


@pytest.fixture
def run_file(tool_file, tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    question = "What is the weather in Rome?"
    assert llm_stages("ask", question, "--tools", tool_file, "--trace", path) == 0
    capsys.readouterr()
    return path


def test_the_help_lists_every_command(capsys):
    assert llm_stages("--help") == 0
    listed = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


@for_each("command", COMMANDS)
def test_every_command_has_a_help(command, capsys):
    assert llm_stages(command, "--help") == 0
    assert f"usage: llm-stages {command}" in capsys.readouterr().out


@for_each(
    "command, reason",
    [
        ("", "are required: command"),
        ("unknown", "invalid choice: 'unknown'"),
        ("ask", "are required: question"),
        ("ask a b", "unrecognized arguments: b"),
        ("ask a --tools", "argument --tools: expected one argument"),
        ("ask a --model nowhere:m", "Unknown provider 'nowhere'"),
        ("chat now", "unrecognized arguments: now"),
        ("chat --tools missing.py", "There is no file missing.py."),
        ("chat --model nowhere:m", "Unknown provider 'nowhere'"),
        ("tools", "are required: file"),
        ("tools missing.py", "There is no file missing.py."),
        ("check", "are required: file"),
        ("check missing.py", "There is no file missing.py."),
        ("inspect", "are required: file"),
        ("inspect a.jsonl --port x", "argument --port: invalid int value: 'x'"),
        ("replay", "are required: file"),
        ("replay a.jsonl --from x", "argument --from: invalid int value: 'x'"),
        ("diff a.jsonl", "are required: second"),
        ("export a.jsonl", "are required: --to"),
        ("export a.jsonl --to xml", "argument --to: invalid choice: 'xml'"),
        ("sessions a b", "unrecognized arguments: b"),
        ("doctor now", "unrecognized arguments: now"),
        ("serve --port x", "argument --port: invalid int value: 'x'"),
    ],
)
def test_wrong_usage_has_status_2_and_a_reason(command, reason, capsys):
    assert llm_stages(*command.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert reason in printed.err.splitlines()[-1]


def test_an_empty_question_is_wrong_usage(capsys):
    assert llm_stages("ask", "") == 2
    assert capsys.readouterr() == ("", "Error: The question is empty.\n")


@for_each(
    "command",
    [
        "inspect missing.jsonl",
        "replay missing.jsonl",
        "replay missing.jsonl --from 1",
        "diff missing.jsonl missing.jsonl",
        "export missing.jsonl --to atif",
    ],
)
def test_a_missing_run_file_is_named(command, capsys):
    assert llm_stages(*command.split()) == 1
    assert capsys.readouterr().err == "Error: missing.jsonl: No such file or directory.\n"


@for_each("command, options", [("inspect", ()), ("replay", ()), ("export", ("--to", "atif"))])
def test_a_file_of_another_kind_is_refused_with_its_line(command, options, tool_file, capsys):
    assert llm_stages(command, tool_file, *options) == 1
    assert "line 1: it is damaged" in capsys.readouterr().err


def test_inspect_writes_the_page_beside_the_run_file(run_file, capsys):
    page = run_file.with_suffix(".html")
    assert llm_stages("inspect", run_file) == 0
    assert capsys.readouterr().out == f"Wrote {page}. Open it in a browser.\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_inspect_never_overwrites_the_run_file(run_file, capsys):
    content = run_file.read_bytes()
    assert llm_stages("inspect", run_file, "-o", run_file) == 2
    renamed = run_file.rename(run_file.with_suffix(".html"))
    assert llm_stages("inspect", renamed) == 2
    assert renamed.read_bytes() == content
    assert "Select another file with -o." in capsys.readouterr().err


@for_each(
    "command",
    [
        "inspect run.jsonl --json",
        "replay run.jsonl --json",
        "diff run.jsonl run.jsonl --json",
        "export run.jsonl --to atif",
        "export run.jsonl --to otel",
        "sessions --json",
        "doctor --json",
    ],
)
def test_json_is_the_whole_output(command, run_file, monkeypatch, capsys):
    monkeypatch.chdir(run_file.parent)
    assert llm_stages(*command.split()) == 0
    json.loads(capsys.readouterr().out)


def test_a_trace_to_another_file_is_refused_without_asking_the_model(tmp_path, capsys):
    path = tmp_path / "settings.json"
    path.write_text('{"important": true}')
    for command in (["ask", "Hello"], ["chat"]):
        assert llm_stages(*command, "--trace", path) == 1
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == (
            "",
            f"Error: {path}: it is not a run file, because its first line is not the header of a "
            "run.\n",
        )
    assert path.read_text() == '{"important": true}'


def test_a_fork_names_the_model_before_it_asks(run_file, tmp_path, capsys):
    assert llm_stages("replay", run_file, "--from", "1", "-o", tmp_path / "a.jsonl") == 0
    assert f"Asking offline:teacher, named by {run_file}.\n" in capsys.readouterr().err
    options = ("--from", "1", "-o", tmp_path / "b.jsonl", "--model", "offline:teacher")
    assert llm_stages("replay", run_file, *options) == 0
    assert "Asking offline:teacher, named by --model.\n" in capsys.readouterr().err


def test_the_newest_run_of_a_file_is_not_one_that_a_tool_made(tmp_path, capsys):
    path, fork, page = (tmp_path / name for name in ("a.jsonl", "fork.jsonl", "a.html"))
    asyncio.run(write_sub_run(path))
    outer, inner = read_runs(path)
    assert llm_stages("export", path, "--to", "atif") == 0
    assert json.loads(capsys.readouterr().out)["trajectory_id"] == outer.id
    assert llm_stages("export", path, "--to", "atif", "--run", inner.id) == 0
    assert json.loads(capsys.readouterr().out)["trajectory_id"] == inner.id
    assert llm_stages("diff", path, path) == 0
    assert capsys.readouterr().out == "identical.\n"
    options = ("--from", "2", "-o", fork, "--model", "offline:teacher")
    assert llm_stages("replay", path, *options) == 0
    assert read_run(fork).parent.run == outer.id
    assert llm_stages("inspect", path, "-o", page) == 0
    assert '"newest":0' in page.read_text()


def test_a_dialect_of_a_program_is_replayed_in_python(tmp_path, capsys):
    class Own(NativeDialect):
        pass

    path = tmp_path / "run.jsonl"
    model = Gateway("openai:m", transport=ScriptedModel(["Fine."]))
    ask_sync("Ask.", model=model, dialect=Own(), trace=RunFile(path))
    assert llm_stages("replay", path) == 1
    assert capsys.readouterr().err == (
        "Error: The run used the dialect 'Own' of its program, so only Python code with this class "
        "can replay it: replay(run, Own()). The command knows the dialects of stage 3 only.\n"
    )
