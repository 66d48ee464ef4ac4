"""The exit status, the usage errors and the output of every command."""

import builtins
import json
import os
import platform
import re
import stat
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from stage0_gateway import ToolCall
from stage3_tools import ApprovalRequest, Approve, ToolCalled
from stage3_tools.cli.live import LiveOutput, approver
from stage3_tools.cli.main import main
from stage3_tools.cli.terminal import Terminal
from tests.programs import run_program

ROOT = Path(__file__).parents[3]
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


def status_of(*arguments):
    """Return the exit status; the parser exits by itself."""
    try:
        return main([str(each) for each in arguments])
    except SystemExit as stopped:
        return stopped.code


@pytest.fixture
def run_file(tool_file, tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    question = "What is the weather in Rome?"
    assert status_of("ask", question, "--tools", tool_file, "--trace", path) == 0
    capsys.readouterr()
    return path


def test_the_help_lists_every_command(capsys):
    assert status_of("--help") == 0
    listed = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help(command, capsys):
    assert status_of(command, "--help") == 0
    assert f"usage: llm-stages {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("unknown",),
        ("ask",),
        ("ask", "a", "b"),
        ("ask", ""),
        ("ask", "a", "--tools"),
        ("chat", "now"),
        ("tools",),
        ("check",),
        ("inspect",),
        ("inspect", "a.jsonl", "--port", "x"),
        ("replay",),
        ("replay", "a.jsonl", "--from", "x"),
        ("diff", "a.jsonl"),
        ("export", "a.jsonl"),
        ("export", "a.jsonl", "--to", "xml"),
        ("sessions", "a", "b"),
        ("doctor", "now"),
        ("serve", "--port", "x"),
        ("tools", "missing.py"),
        ("check", "missing.py"),
        ("chat", "--tools", "missing.py"),
        ("chat", "--model", "nowhere:m"),
    ],
    ids=" ".join,
)
def test_wrong_usage_has_status_2_and_a_reason(arguments, capsys):
    assert status_of(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "missing.jsonl"),
        ("replay", "missing.jsonl"),
        ("diff", "missing.jsonl", "missing.jsonl"),
        ("export", "missing.jsonl", "--to", "atif"),
    ],
    ids=" ".join,
)
def test_a_missing_run_file_is_named(arguments, capsys):
    assert status_of(*arguments) == 1
    assert capsys.readouterr().err == "Error: missing.jsonl: No such file or directory.\n"


@pytest.mark.parametrize("command", ["inspect", "replay", "export"])
def test_a_file_of_another_kind_is_refused_with_its_line(command, tool_file, capsys):
    arguments = ["--to", "atif"] if command == "export" else []
    assert status_of(command, tool_file, *arguments) == 1
    assert "line 1: it is damaged" in capsys.readouterr().err


def test_inspect_writes_the_page_beside_the_run_file(run_file, capsys):
    page = run_file.with_suffix(".html")
    assert status_of("inspect", run_file) == 0
    assert capsys.readouterr().out == f"Wrote {page}. Open it in a browser.\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_inspect_never_overwrites_the_run_file(run_file, capsys):
    content = run_file.read_bytes()
    assert status_of("inspect", run_file, "-o", run_file) == 2
    renamed = run_file.rename(run_file.with_suffix(".html"))
    assert status_of("inspect", renamed) == 2
    assert renamed.read_bytes() == content
    assert "Select another file with -o." in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "run.jsonl", "--json"),
        ("replay", "run.jsonl", "--json"),
        ("diff", "run.jsonl", "run.jsonl", "--json"),
        ("export", "run.jsonl", "--to", "atif"),
        ("export", "run.jsonl", "--to", "otel"),
        ("sessions", "--json"),
        ("doctor", "--json"),
    ],
    ids=" ".join,
)
def test_json_is_the_whole_output(arguments, run_file, monkeypatch, capsys):
    monkeypatch.chdir(run_file.parent)
    assert status_of(*arguments) == 0
    json.loads(capsys.readouterr().out)


def test_json_stays_valid_if_the_run_asks_for_approval(tool_file, monkeypatch, capsys):
    monkeypatch.setattr(builtins, "input", lambda prompt="": "y")
    status = status_of("ask", "Delete the file a.txt", "--tools", tool_file, "--approve", "--json")
    printed = capsys.readouterr()
    assert status == 0
    assert json.loads(printed.out)["calls"][0]["status"] == "completed"
    assert 'delete_file {\n  "path": "a.txt"\n}\nRun it?' in printed.err


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["e", '{"path": "b.txt"}'], "deleted b.txt"),
        (["e", "no JSON", "e", "[1]", "e", '{"path": "c.txt"}'], "deleted c.txt"),
        (["what?", "y"], "deleted a.txt"),
        (["a"], "deleted a.txt"),
    ],
)
def test_a_call_can_be_edited_or_approved(tool_file, monkeypatch, capsys, answers, expected):
    left = iter(answers)
    monkeypatch.setattr(builtins, "input", lambda prompt="": next(left))
    assert status_of("ask", "Delete the file a.txt", "--tools", tool_file, "--approve") == 0
    assert expected in capsys.readouterr().out
    assert next(left, None) is None


# ---- the terminal


def test_a_reply_with_half_a_surrogate_pair_is_printed(capsys):
    Terminal().reply("a\ud83db")
    assert capsys.readouterr().out == "a?b\n"


@pytest.mark.parametrize("text", ["日本語", "مرحبا", "👩‍💻", "a\tb\nc", "e\u0301", "\u00a0"])
def test_texts_of_all_scripts_are_printed_as_they_are(capsys, text):
    Terminal().reply(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_a_table_without_rows_has_its_columns(capsys):
    Terminal().table(("session", "question"), [])
    assert capsys.readouterr().out == "session  question\n"


def run(*arguments, umask=None, **environment):
    """Run the command in a process of its own, whose output is not a terminal."""
    command = ["-m", "stage3_tools", *arguments]
    return run_program(command, umask=umask, environment={**os.environ, **environment})


def test_a_piped_reply_has_no_colors(tool_file):
    done = run("ask", "What is the weather in Rome?", "--tools", tool_file)
    assert done.stdout == "get_weather says for Rome: temp 22.\n"
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "missing", ["rich", "readline", "pty", "termios"], ids=lambda name: f"without {name}"
)
def test_the_command_works_without_optional_modules(tool_file, missing):
    program = f"""
import sys
sys.modules[{missing!r}] = None
from stage3_tools.cli.main import main
sys.exit(main(sys.argv[1:]))
"""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
        )

    done = run("check", tool_file)
    assert (done.returncode, done.stdout) == (0, "2 tools, no problems.\n")
    chat = run("chat")
    assert (chat.returncode, "Traceback" in chat.stderr) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        (("--help",), ""),
        (("tools", "my_tools.py"), "1"),
        pytest.param(("tools", "my_tools.py"), "", marks=pytest.mark.long),
        (("export", "run.jsonl", "--to", "atif"), ""),
    ],
)
def test_a_reader_that_closes_the_pipe_causes_no_output(run_file, arguments, unbuffered):
    command = [sys.executable, "-m", "stage3_tools", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": unbuffered,
    }
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=run_file.parent,
        env=environment,
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert errors == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_an_error(tool_file):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "stage3_tools", "tools", tool_file],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            cwd=ROOT,
        )
    assert (done.returncode, done.stderr) == (1, "Error: [Errno 28] No space left on device\n")


def test_a_trace_to_another_file_is_refused_without_asking_the_model(tmp_path, capsys):
    path = tmp_path / "settings.json"
    path.write_text('{"important": true}')
    for command in (["ask", "Hello"], ["chat"]):
        assert status_of(*command, "--trace", path) == 1
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == (
            "",
            f"Error: {path}: it is not a run file, because its first line is not the header of a "
            "run.\n",
        )
    assert path.read_text() == '{"important": true}'


@pytest.mark.skipif(sys.platform == "win32", reason="needs the modes of Unix")
def test_only_the_owner_may_read_what_the_commands_write(tool_file, tmp_path, capsys):
    path, environment = tmp_path / "run.jsonl", {"HOME": str(tmp_path), "LLM_STAGES_SESSIONS": ""}
    for command in (
        ("chat", "--trace", path),
        ("ask", "Hello", "--trace", path),
        ("inspect", path),
        ("export", path, "--to", "atif", "-o", tmp_path / "run.atif"),
        ("export", path, "--to", "otel", "-o", tmp_path / "run.otel"),
        ("diff", path, path, "-o", tmp_path / "diff.html"),
        ("replay", path, "--from", "1", "-o", tmp_path / "fork.jsonl"),
    ):
        done = run(*map(str, command), umask=0o022, **environment)
        assert done.returncode == 0, done.stderr
    modes = {
        str(each.relative_to(tmp_path)): oct(stat.S_IMODE(each.stat().st_mode))
        for each in tmp_path.rglob("*")
        if each.name != Path(tool_file).name
    }
    written = ("run.jsonl", "run.html", "run.atif", "run.otel", "diff.html", "fork.jsonl")
    assert modes == {
        **dict.fromkeys([*written, ".llm-stages/sessions.db"], "0o600"),
        ".llm-stages": "0o700",
    }


def test_a_fork_names_the_model_before_it_asks(run_file, tmp_path, capsys):
    assert status_of("replay", run_file, "--from", "1", "-o", tmp_path / "a.jsonl") == 0
    assert f"Asking offline:teacher, named by {run_file}.\n" in capsys.readouterr().err
    options = ("--from", "1", "-o", tmp_path / "b.jsonl", "--model", "offline:teacher")
    assert status_of("replay", run_file, *options) == 0
    assert "Asking offline:teacher, named by --model.\n" in capsys.readouterr().err


def test_a_link_of_a_model_shows_its_target(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    Terminal().reply("[bank](https://evil.example)")
    shown = capsys.readouterr().out
    assert "\x1b]8" not in shown
    assert "https://evil.example" in shown


def test_the_version_names_the_distribution_and_python():
    done = subprocess.run(
        [sys.executable, "-m", "stage3_tools", "--version"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    expected = f"llm-stages {version('llm-stages')} (Python {platform.python_version()})\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


@pytest.mark.parametrize(
    ("text", "arguments", "repeats"),
    [
        ('{"path":"a"}', {"path": "a"}, False),
        ('{"path": "$VAR_REF{{1}}"}', {"path": "a"}, True),
        ("{'path': 'a'}", {"path": "a"}, True),
        (json.dumps({"path": "a" * 300}), {"path": "a" * 300}, True),
    ],
    ids=["shown", "changed", "repaired", "shortened"],
)
def test_the_approver_shows_a_call_unless_the_last_line_shows_all_of_it(
    monkeypatch, capsys, text, arguments, repeats
):
    monkeypatch.setattr(builtins, "input", lambda prompt="": "y")
    live = LiveOutput(Terminal(), is_native=True)
    approve = approver(Terminal(), live)
    call, request = (
        ToolCall("c", "cut", text),
        ApprovalRequest("c", "cut", arguments, "write", True),
    )
    full = f"cut {json.dumps(arguments, indent=2)}\nRun it?"
    for shown in (not repeats, False):  # the second time, another line follows the call
        if shown or repeats:
            live.on_event(ToolCalled(turn=0, call=call))
            capsys.readouterr()
        assert approve(request) == Approve()
        assert (full in capsys.readouterr().err) is not shown


def test_a_retry_is_reported_once(tmp_path):
    program = tmp_path / "without_waiting.py"
    program.write_text(
        "import stamina\nstamina.set_testing(True, attempts=100, cap=True)\n"
        "from stage3_tools.cli.main import main\nmain()\n"
    )
    down = {"LLM_MODEL": "", "LLM_BASE_URL": "http://127.0.0.1:9/v1"}
    done = run_program([program, "ask", "Hello"], environment={**os.environ, **down})
    *lines, error = done.stderr.splitlines()
    assert lines == [
        "ConnectionFailed: retrying in 0.5 s (attempt 2 of 3)",
        "ConnectionFailed: retrying in 1 s (attempt 3 of 3)",
    ]
    assert error.startswith("Error: Could not connect to 127.0.0.1:9 ")


def test_the_notice_of_the_offline_model_appears_only_if_it_answers(capsys, caplog):
    assert status_of("ask", "Hello", "--tools", "nope.py") == 2
    assert (capsys.readouterr().err, caplog.text) == ("Error: There is no file nope.py.\n", "")
    assert "NOTICE" not in run("doctor").stderr
    assert status_of("ask", "Hello") == 0
    assert caplog.text.count("NOTICE") == 1
