"""Run Python programs in processes of their own, without the time that Python needs to start.

One server process imports the packages once. Each program runs in a copy of it: with its own
arguments, environment, folder, input and exit status, like a program that Python has just started.
Tests of signals, pipes and terminals start real processes instead.

    run_program(["examples/basic_usage.py"])
    run_program(["-m", "stage3_tools", "doctor"], input="…")
"""

import atexit
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import warnings as python_warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 60
"""The seconds after which a program is killed."""

PRELOADED = ["griffe", "jsonschema", "pydantic", "rich.console", "rich.markdown", "stamina"]
"""Libraries that the packages import at their first use."""


def run_program(
    arguments: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    input: str = "",
    warnings: str = "default",
    is_merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program, and return its status and what it has printed.

    Args:
        arguments: The arguments of Python: a file, or "-m" and a module, and the program's own.
        environment: The environment variables; PATH and HOME by default.
        cwd: The folder; the project's by default.
        input: The standard input.
        warnings: "error" raises warnings as exceptions.
        is_merged: Whether stderr is part of stdout, in the order of a terminal.
    """
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / name) for name in ("stdin", "stdout", "stderr")}
        Path(files["stdin"]).write_text(input, encoding="utf-8")
        if is_merged:
            files["stderr"] = files["stdout"]
        request = {
            "arguments": list(map(str, arguments)),
            "environment": dict(inherited if environment is None else environment),
            "cwd": str(cwd or ROOT),
            "warnings": warnings,
            "files": files,
        }
        server = _server()
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        printed = [Path(files[name]).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess(
        request["arguments"], status, printed[0], "" if is_merged else printed[1]
    )


@cache
def _server() -> subprocess.Popen[str]:
    """Return the server of this process."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.programs"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    @atexit.register
    def stop() -> None:
        server.stdin.close()
        server.stdout.close()
        server.wait()

    return server


def _serve() -> list[str]:
    """Start a copy of this process for each request; in the copy, return its arguments."""
    modules = sorted(ROOT.glob("stage*/**/[a-z]*.py"))
    for name in [
        *PRELOADED,
        *(".".join(each.relative_to(ROOT).with_suffix("").parts) for each in modules),
    ]:
        import_module(name)
    gc.freeze()  # the copies share these objects
    while line := sys.stdin.readline():
        if not (program := os.fork()):
            return _become_program(json.loads(line))
        status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()
    return []


def _become_program(request) -> list[str]:
    signal.alarm(LIMIT)
    modes = {"stdin": os.O_RDONLY, "stdout": os.O_WRONLY, "stderr": os.O_WRONLY}
    for number, (name, mode) in enumerate(modes.items()):
        file = os.open(request["files"][name], mode | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", write_through=True)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    python_warnings.simplefilter(request["warnings"])
    return request["arguments"]


if __name__ == "__main__":
    if arguments := _serve():
        if arguments[0] == "-m":
            sys.path[0] = os.getcwd()
            sys.argv = arguments[1:]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            sys.argv = arguments
            runpy.run_path(sys.argv[0], run_name="__main__")
