"""Grade a subject: run its cases, and compare each outcome with the case.

Each case runs alone, with a time limit, in its own event loop.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tests.conformance.case import Case
from tests.conformance.surroundings import EndlessRun, prepared

SECONDS = 2.0
"""The time limit of one case."""


class Graded(Protocol):
    """A `Subject` or a `Program`."""

    name: str
    unwritten: dict[int, list[str]]

    async def perform(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call an operation, and return its outcome."""


@dataclass(frozen=True)
class Verdict:
    """The result of one case.

    Attributes:
        case: The case.
        status: "passed", "failed", "unsupported" (the subject says that it does not do this) or
            "unwritten" (the function of this step is not written yet).
        failures: Why the case failed, as sentences.
        outcome: What the subject did.
    """

    case: Case
    status: Literal["passed", "failed", "unsupported", "unwritten"]
    failures: Sequence[str]
    outcome: dict[str, Any]

    @property
    def is_defect(self) -> bool:
        """Whether a MUST case did not pass."""
        return self.status != "passed" and self.case.level == "MUST"


def grade(subject: Graded, cases: Iterable[Case], seconds: float = SECONDS) -> list[Verdict]:
    """Return the verdict of each case."""
    with asyncio.Runner() as runner:
        verdicts = [verdict(subject, case, runner, seconds) for case in cases]
        if stop := getattr(subject, "stop", None):
            runner.run(stop())
    return verdicts


def verdict(subject: Graded, case: Case, runner: asyncio.Runner, seconds: float) -> Verdict:
    """Run one case."""
    if isinstance(case.step, int) and case.step in subject.unwritten:
        names = ", ".join(subject.unwritten[case.step])
        return Verdict(case, "unwritten", [f"not written yet: {names}"], {})
    try:
        with time_limit(seconds):
            outcome = runner.run(outcome_of(subject, case, seconds))
    except EndlessRun as error:
        outcome = {"crash": f"It does not stop: {error}."}
    failures = case.failures(outcome)
    error = outcome.get("error")
    if failures and isinstance(error, dict) and error.get("kind") == "unsupported":
        return Verdict(case, "unsupported", [error.get("message", "")], outcome)
    return Verdict(case, "failed" if failures else "passed", failures, outcome)


async def outcome_of(subject: Graded, case: Case, seconds: float) -> dict[str, Any]:
    """Return what the subject does with the input of a case."""
    start = time.perf_counter()
    with_tools = case.stage != "stage0"
    async with prepared(case.input, with_tools=with_tools) as (arguments, seen):
        try:
            async with asyncio.timeout(seconds):
                outcome = await subject.perform(case.operation, arguments)
        except TimeoutError:
            outcome = {"crash": f"It does not stop: no outcome within {seconds:g} seconds."}
    return {**outcome, **seen, "seconds": time.perf_counter() - start}


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise EndlessRun in code that does not let the event loop run, where the system can do that."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise EndlessRun(f"no outcome within {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds + 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
