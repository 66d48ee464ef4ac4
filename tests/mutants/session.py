"""Run the tests on mutants: collect once, then one process for each mutant.

The first process records which tests execute which lines. Each mutant gets a copy of the collecting
process, where its functions receive the changed code, and runs the tests that execute the changed
lines: first those of the module, then the fast ones.
"""

import gc
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol

from tests.mutants.changes import Mutant

BUDGET = 20.0
"""The seconds of tests for one mutant, as measured without changes."""

LIMIT = 60.0
"""The seconds after which a mutant counts as endless."""

Lines = Mapping[tuple[str, int], Sequence[int]]
"""The numbers of the tests that execute a line of a file."""


class MutantSession:
    """A pytest plugin that runs mutants instead of the tests.

    Args:
        root: The project.
        packages: The packages whose lines are recorded.
        mutants: The mutants.
        on_result: Receives each mutant with its result: "killed", "endless", "survived", or "not
            run" if no test executes its lines.
        processes: The number of mutants at the same time.
    """

    def __init__(
        self,
        root: Path,
        packages: Sequence[str],
        mutants: Sequence[Mutant],
        on_result: Callable[[Mutant, str], None],
        processes: int = 1,
    ) -> None:
        self._root, self._packages, self._mutants = root, packages, mutants
        self._on_result, self._processes = on_result, processes
        self._subtest_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notice a failed subtest, for which the report of its test says nothing."""
        self._subtest_failed = self._subtest_failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Record the lines of the tests, then run each mutant."""
        if session.testsfailed:
            raise session.Failed(f"{session.testsfailed} errors during collection")
        for path in {mutant.path for mutant in self._mutants}:
            import_module(path.removesuffix(".py").replace("/", "."))
        session.config._tmp_path_factory.getbasetemp()  # before the copies of this process
        sys.stdout.flush()
        lines, seconds = _in_child(lambda: self._record(session.items))
        waiting, active = [*reversed(self._mutants)], {}
        while waiting or active:
            while waiting and len(active) < self._processes:
                mutant = waiting.pop()
                numbers = self._select(mutant, lines, seconds, session.items)
                if not numbers:
                    self._on_result(mutant, "not run")
                    continue
                items = [session.items[number] for number in numbers]
                code = mutant.compile(self._root)
                active[_start(lambda: self._is_killed(code, items))] = mutant  # noqa: B023
            for child, result in _ended(active):
                self._on_result(active.pop(child), result)
        return True

    def _record(self, items: Sequence[pytest.Item]) -> tuple[dict, list[float]]:
        """Return the tests that execute each line, and the seconds of each test."""
        import coverage  # part of the extra [dev]

        seconds = []
        recording = coverage.Coverage(data_file=None, source=[*self._packages], config_file=False)
        for number, item in enumerate(items):
            recording.start()  # for each test, because some tests set other trace functions
            recording.switch_context(str(number))
            start = time.perf_counter()
            following = items[number + 1] if number + 1 < len(items) else None
            has_failed = self._fails(item, following)
            seconds.append(time.perf_counter() - start)
            recording.stop()
            if has_failed:
                print(f"\nThis test fails without changes, so it is not used: {item.nodeid}")
                seconds[-1] = float("inf")
            if number % 500 == 0:
                print(f"\r  recording the lines of test {number} of {len(items)}", end="")
                sys.stdout.flush()
        print(flush=True)
        data, lines = recording.get_data(), {}
        for path in {mutant.path for mutant in self._mutants}:
            for line, contexts in data.contexts_by_lineno(str(self._root / path)).items():
                lines[path, line] = [int(each) for each in contexts if each]
        return lines, seconds

    def _select(
        self, mutant: Mutant, lines: Lines, seconds: Sequence[float], items: Sequence[pytest.Item]
    ) -> list[int]:
        """Return the tests of a mutant in the order in which they run."""
        first, last = mutant.lines
        found = {
            number
            for line in range(first, last + 1)
            for number in lines.get((mutant.path, line), ())
            if seconds[number] < LIMIT  # infinite for a test that fails without changes
        }
        name = Path(mutant.path).stem

        def order(number: int) -> tuple[bool, float]:
            return name not in items[number].path.stem, seconds[number]

        selected, total = [], 0.0
        for number in sorted(found, key=order):
            total += seconds[number]
            if total > BUDGET and selected:
                break
            selected.append(number)
        return selected

    def _is_killed(self, code: CodeType, items: Sequence[pytest.Item]) -> bool:
        """Return whether a test fails with the changed code."""
        apply(code)
        return any(
            self._fails(item, items[number + 1] if number + 1 < len(items) else None)
            for number, item in enumerate(items)
        )

    def _fails(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        """Run a test, and return whether it or one of its subtests failed."""
        self._subtest_failed = False
        reports = runtestprotocol(item, log=False, nextitem=following)
        return self._subtest_failed or any(report.failed for report in reports)


def apply(code: CodeType) -> None:
    """Give the living functions of a module the code of another version of the module."""
    new = {(each.co_qualname, each.co_firstlineno): each for each in _codes(code)}
    gc.unfreeze()  # a frozen object is not listed
    for function in gc.get_objects():
        if type(function) is FunctionType:  # isinstance() may run code of a foreign object
            old = function.__code__
            changed = new.get((old.co_qualname, old.co_firstlineno))
            if old.co_filename != code.co_filename or changed is None:
                continue
            if old.co_freevars == changed.co_freevars:  # else the next call of its outer function
                function.__code__ = changed


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


# ---- processes


def _in_child(work: Callable[[], object]) -> object:
    """Return the result of a function that runs in a copy of this process."""
    reader, writer = os.pipe()
    if not os.fork():
        os.close(reader)
        with open(writer, "wb") as file:
            pickle.dump(work(), file)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        result = pickle.load(file)
    os.wait()
    return result


def _start(is_killed: Callable[[], bool]) -> tuple[int, int, float]:
    """Start a copy of this process; return its id, a pipe with the result, and its time limit."""
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        return child, reader, time.monotonic() + LIMIT
    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        result = b"killed" if is_killed() else b"survived"
    except BaseException:
        result = b"killed"
    with suppress(OSError):
        os.write(writer, result)
    os._exit(0)


def _ended(active: Mapping[tuple[int, int, float], Mutant]) -> Iterator[tuple[tuple, str]]:
    """Wait for a process, and yield those that ended."""
    ready, _, _ = select.select([reader for _, reader, _ in active], [], [], 1.0)
    for child in list(active):
        process, reader, limit = child
        if reader in ready or time.monotonic() > limit:
            result = os.read(reader, 20).decode() or "killed" if reader in ready else "endless"
            os.close(reader)
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            yield child, result
