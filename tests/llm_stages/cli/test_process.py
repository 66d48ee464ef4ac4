"""The command in a process of its own: output that cannot be written, modes of files, missing modules."""

import os
import platform
import stat
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.llm_stages.cli.command import llm_stages
from tests.programs import run_program
from tests.tables import for_each

QUESTION = "What is the weather in Rome?"


def run(*arguments, umask=None, **environment):
    """Run the command. Its output is not a terminal."""
    command = ["-m", "llm_stages", *arguments]
    return run_program(command, umask=umask, environment={**os.environ, **environment})


def test_the_version_names_the_distribution_and_python():
    done = run("--version")
    expected = f"llm-stages {version('llm-stages')} (Python {platform.python_version()})\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_a_piped_reply_has_no_colors(tool_file):
    done = run("ask", QUESTION, "--tools", tool_file)
    assert done.stdout == "get_weather says for Rome: temp 22.\n"
    assert "\x1b" not in done.stdout + done.stderr


def test_doctor_omits_the_notice_of_the_offline_model():
    assert "NOTICE" not in run("doctor").stderr


# ---- output that cannot be written

WITH_STDOUT = """
import io, os, sys
from llm_stages.cli.main import main

{setup}
sys.stdout = io.TextIOWrapper({file}(io.FileIO(1, "w", closefd=False)), write_through={unbuffered})
sys.exit(main(sys.argv[1:]))
"""
CLOSED_PIPE = "reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 1)"
FULL_DISK = "os.dup2(os.open('/dev/full', os.O_WRONLY), 1)"


@pytest.fixture
def run_with_stdout(tmp_path):
    """`run_with_stdout(setup, *arguments)` runs the command after `setup` has replaced stdout; returns
    the status and the errors."""

    def run_it(setup, *arguments, is_buffered=True):
        buffer = "io.BufferedWriter" if is_buffered else ""
        program = tmp_path / "program.py"
        program.write_text(WITH_STDOUT.format(setup=setup, file=buffer, unbuffered=not is_buffered))
        done = run_program([program, *arguments])
        return done.returncode, done.stderr

    return run_it


@for_each("is_buffered", [True, False])
@for_each("command", ["--help", "tools {tools}", "export {run} --to atif"])
def test_a_reader_that_closes_the_pipe_causes_no_output(
    run_with_stdout, files, command, is_buffered
):
    arguments = command.format(**files).split()
    status, errors = run_with_stdout(CLOSED_PIPE, *arguments, is_buffered=is_buffered)
    assert (status in (0, 1), errors) == (True, "")


@pytest.fixture
def files(tool_file, tmp_path, capsys):
    """The paths of a file of tools and of a run file."""
    path = tmp_path / "run.jsonl"
    assert llm_stages("ask", QUESTION, "--tools", tool_file, "--trace", path) == 0
    return {"tools": tool_file, "run": path}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_an_error(run_with_stdout, tool_file):
    found = run_with_stdout(FULL_DISK, "tools", tool_file)
    assert found == (1, "Error: [Errno 28] No space left on device\n")


# ---- files and modules


@pytest.mark.skipif(sys.platform == "win32", reason="needs the modes of Unix")
def test_only_the_owner_may_read_what_the_commands_write(tmp_path):
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
        done = run(*command, umask=0o022, **environment)
        assert done.returncode == 0, done.stderr
    modes = {
        str(each.relative_to(tmp_path)): oct(stat.S_IMODE(each.stat().st_mode))
        for each in tmp_path.rglob("*")
    }
    written = ("run.jsonl", "run.html", "run.atif", "run.otel", "diff.html", "fork.jsonl")
    assert modes == {
        **dict.fromkeys([*written, ".llm-stages/sessions.db"], "0o600"),
        ".llm-stages": "0o700",
    }


WITHOUT_WAITING = """
import stamina
stamina.set_testing(True, attempts=100, cap=True)
from llm_stages.cli.main import main
main()
"""


def test_a_retry_is_reported_once(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_WAITING)
    down = {"LLM_MODEL": "", "LLM_BASE_URL": "http://127.0.0.1:9/v1"}
    done = run_program([program, "ask", "Hello"], environment={**os.environ, **down})
    *lines, error = done.stderr.splitlines()
    assert lines == [
        "ConnectionFailed: retrying in 0.5 s (attempt 2 of 3)",
        "ConnectionFailed: retrying in 1 s (attempt 3 of 3)",
    ]
    assert error.startswith("Error: Could not connect to 127.0.0.1:9 ")


WITHOUT_A_MODULE = """
import sys
sys.modules[{missing!r}] = None
from llm_stages.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long  # a process that has imported nothing
@pytest.mark.parametrize(
    "missing", ["rich", "readline", "pty", "termios"], ids=lambda name: f"without {name}"
)
def test_the_command_works_without_optional_modules(tool_file, missing):
    def run_without(*arguments):
        program = WITHOUT_A_MODULE.format(missing=missing)
        command = [sys.executable, "-c", program, *arguments]
        folder = Path(__file__).parents[3]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60)

    done = run_without("check", tool_file)
    assert (done.returncode, done.stdout) == (0, "2 tools, no problems.\n")
    chat = run_without("chat")
    assert (chat.returncode, "Traceback" in chat.stderr) == (0, False)
