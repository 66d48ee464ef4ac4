"""Run Python programs in processes of their own, without the time that Python needs to start.

One server process imports the packages once. Each program runs in a copy of it: with its own
arguments, environment, folder, files and exit status, like a program that Python has just started.

    done = run_program(["examples/basic_usage.py"])
    done = run_program(["-m", "llm_stages", "doctor"], input="…")
    program = Program(["-m", "llm_stages", "chat"], stdin=terminal, stdout=terminal, stderr=terminal)
"""

import atexit
import gc
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import warnings as python_warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 60
"""The seconds after which a program is killed."""

PACKAGES = ["stage*", "llm_stages"]

LIBRARIES = ["griffe", "jsonschema", "pydantic", "rich.console", "rich.markdown", "stamina"]
"""Libraries that the packages import at their first use."""


class Program:
    """A running program.

    Args:
        arguments: The arguments of Python: a file, or "-m" and a module, and the program's own.
        stdin: The path of a file, a FIFO or a terminal.
        stdout: Likewise.
        stderr: Likewise.
        environment: All environment variables; PATH and HOME by default.
        cwd: The folder; the project's by default.
        warnings: "error" raises warnings as exceptions.
        umask: The mask of the modes of new files; that of the tests by default.

    Attributes:
        pid: The id of the process, and of its process group.
    """

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        stdin: str | Path = os.devnull,
        stdout: str | Path = os.devnull,
        stderr: str | Path = os.devnull,
        environment: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        warnings: str | None = None,
        umask: int | None = None,
    ) -> None:
        if environment is None:
            environment = {
                each: os.environ[each] for each in ("PATH", "HOME") if each in os.environ
            }
        self._status: int | None = None
        self.pid: int = _ask_server(
            start=list(map(str, arguments)),
            files=[str(stdin), str(stdout), str(stderr)],
            environment=dict(environment),
            cwd=str(cwd or ROOT),
            warnings=warnings,
            umask=umask,
        )

    def poll(self) -> int | None:
        """Return the exit status, or None if the program runs."""
        if self._status is None:
            self._status = _ask_server(status_of=self.pid, waits=False)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status after the end of the program.

        Raises:
            subprocess.TimeoutExpired: The program runs after these seconds.
        """
        if timeout is None and self._status is None:
            self._status = _ask_server(status_of=self.pid, waits=True)
        end = time.monotonic() + (timeout or 0)
        while (status := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("python", timeout or 0)
            time.sleep(0.005)
        return status

    def kill(self) -> None:
        """Kill the program, and wait for its end."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


def run_program(
    arguments: Sequence[str | Path], *, input: str = "", is_merged: bool = False, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return its status and what it has printed.

    Args:
        arguments: The arguments of Python.
        input: The standard input.
        is_merged: Whether stderr is part of stdout, in the order of a terminal.
        options: Other arguments of `Program`.
    """
    with tempfile.TemporaryDirectory() as folder:
        stdin, stdout, stderr = (Path(folder) / name for name in ("stdin", "stdout", "stderr"))
        stdin.write_text(input, encoding="utf-8")
        errors = stdout if is_merged else stderr
        program = Program(arguments, stdin=stdin, stdout=stdout, stderr=errors, **options)
        status = program.wait()
        printed = stdout.read_text(encoding="utf-8")
        return subprocess.CompletedProcess(
            list(arguments), status, printed, "" if is_merged else stderr.read_text("utf-8")
        )


# ---- the server


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


def _ask_server(**request: object):
    server = _server()
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def serve() -> list[str]:
    """Answer requests. In the copy of this process for a program, return its arguments."""
    files = [path for each in PACKAGES for path in ROOT.glob(f"{each}/**/[a-z]*.py")]
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sorted(files)]
    for name in [*LIBRARIES, *modules]:
        if not name.startswith("llm_stages.testing."):  # it imports pytest
            import_module(name)
    gc.freeze()  # the copies share these objects
    while line := sys.stdin.readline():
        request = json.loads(line)
        if "status_of" in request:
            flags = 0 if request["waits"] else os.WNOHANG
            pid, status = os.waitpid(request["status_of"], flags)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif not (answer := os.fork()):
            return become_program(request)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    return []


def become_program(request) -> list[str]:
    """Give this process the files, the environment and the folder of a program."""
    os.setsid()  # a terminal that is opened now controls this process
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(LIMIT)
    for number, path in enumerate(request["files"]):
        file = os.open(path, (os.O_WRONLY | os.O_CREAT | os.O_APPEND) if number else os.O_RDONLY)
        os.dup2(file, number)
        os.close(file)
    standard_input = io.BufferedReader(io.FileIO(0, closefd=False))
    sys.stdin = io.TextIOWrapper(standard_input, encoding="utf-8")
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8", write_through=True)
        for number in (1, 2)
    )
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    if request["umask"] is not None:
        os.umask(request["umask"])
    if request["warnings"] is not None:
        python_warnings.simplefilter(request["warnings"])
    return request["start"]


if __name__ == "__main__" and (arguments := serve()):
    if arguments[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = arguments[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        sys.argv = arguments
        runpy.run_path(sys.argv[0], run_name="__main__")
