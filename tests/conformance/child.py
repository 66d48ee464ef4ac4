"""The process of one Python file: `python_file.py` starts it, and sends operations.

The connection to the suite is moved to private descriptors before the file is imported. Then stdin
is empty, and everything that the file prints goes to stderr, which the suite keeps apart. Because
the file cannot be trusted to end, a watchdog ends the process after the time limit.
"""

import asyncio
import contextlib
import faulthandler
import os
import sys
from collections.abc import Iterator, Mapping
from json import dumps, loads
from os import _exit, getpid, write  # by name, because the file may replace the functions of os
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).parents[2]))  # the files of this checkout

from tests.conformance.connection import LONGEST_LINE
from tests.conformance.course import load_course_file, replace_finished
from tests.conformance.grade import outcome_of
from tests.conformance.python_file import SECONDS_TO_LOAD
from tests.conformance.subject import Operation, Subject, SubjectError, described_error, load_module
from tests.conformance.surroundings import PARTS

MEMORY = 4_000_000_000
"""The bytes of memory that the process may use, where the system can limit them."""

DELAY = 0.25
"""The further seconds until code that does not await is ended."""


class Channel:
    """The connection to the suite."""

    def __init__(self) -> None:
        self._process, self._id = getpid(), ""
        self._requests = os.fdopen(os.dup(0), "rb")
        self.answers = os.dup(1)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.dup2(2, 1)  # print() and errors are one output
        os.close(empty)

    def requests(self) -> Iterator[dict[str, Any]]:
        """Yield the requests of the suite."""
        for line in self._requests:
            request = loads(line)
            self._id = request["id"]
            yield request

    def answer(self, id: str, **fields: Any) -> None:
        """Answer a request."""
        data = dumps({"id": id, **fields}).encode() + b"\n"
        if len(data) > LONGEST_LINE:
            crash = f"The value has {len(data):,} bytes; {LONGEST_LINE:,} are allowed."
            return self.answer(id, value={"crash": crash})
        while data:
            data = data[write(self.answers, data) :]
        return None

    def end_copy(self) -> None:
        """End a copy of this process that the file has made, and report that it returned."""
        if getpid() != self._process:
            crash = "It returns twice, because it made a copy of the process (os.fork)."
            self.answer(self._id, value={"crash": crash})
            _exit(0)


def main() -> None:
    """Answer requests until the connection is closed."""
    streams = sys.stdout, sys.stderr
    for stream in streams:
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    limit_memory()
    channel = Channel()
    subject, parts, runner = Subject("", {}), PARTS, asyncio.Runner()
    for request in channel.requests():
        id, given = request["id"], request["input"]
        if request["operation"] == "$load":
            parts = PARTS - {"tools"} if given["stage"] == "stage0" else PARTS
            try:
                with watchdog(SECONDS_TO_LOAD, channel):
                    subject = load(**given)
            except SubjectError as error:
                channel.answer(id, error={"kind": "import", "message": str(error)})
            else:
                names = {"operations": list(subject.operations), "unwritten": subject.unwritten}
                channel.answer(id, value=names)
            continue
        seconds = given["seconds"]
        work = outcome_of(subject, request["operation"], given["fields"], parts, seconds)
        try:
            with watchdog(seconds + DELAY, channel):
                outcome = runner.get_loop().run_until_complete(work)
        except BaseException as error:  # a task of the file has raised SystemExit, for example
            outcome = {"crash": described_error(error)}
            runner = asyncio.Runner()
        if not flush(streams):
            outcome = {"crash": "It leaves sys.stdout or sys.stderr closed or replaced."}
        channel.answer(id, value=outcome)
    runner.close()


def limit_memory() -> None:
    """Let the process raise MemoryError before the memory of the computer is used up."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))


@contextlib.contextmanager
def watchdog(seconds: float, channel: Channel) -> Iterator[None]:
    """End the process after some seconds, and write to the suite where it was."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=channel.answers)
    try:
        yield
    finally:
        channel.end_copy()  # in a copy, the next line would wait forever
        faulthandler.cancel_dump_traceback_later()


def flush(streams: tuple[TextIO, TextIO]) -> bool:
    """Write what the file has printed; return whether the streams are still those of the start."""
    try:
        for stream in streams:
            stream.flush()
    except (OSError, ValueError):  # closed
        return False
    return (sys.stdout, sys.stderr) == streams


def load(path: str, stage: str, has_operations: bool, others: dict[str, str]) -> Subject:
    """Import a file, and the learner's files that it uses.

    Raises:
        SubjectError: A file cannot be imported.
    """
    sys.argv = [path]
    sys.path.remove(str(Path(__file__).parent))  # the file is run from its own folder
    for folder in {str(Path(each).parent): None for each in (path, *others.values())}:
        sys.path.insert(0, folder)
    for name, other in others.items():
        replace_finished(name, Path(other))
    if not has_operations:
        return load_course_file(Path(path), stage)
    module = load_module(Path(path))
    return Subject(Path(path).name, operations_of(module))


def operations_of(module: ModuleType) -> Mapping[str, Operation]:
    """The operations of a file that is not one of the course; `main` is that of the demo."""
    found: Mapping[str, Operation] = getattr(
        module, "OPERATIONS", {"main": vars(module).get("main")}
    )
    return found


if __name__ == "__main__":
    main()
