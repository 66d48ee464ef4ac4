"""Grade a subject: run its cases, and compare each outcome with the case.

Each case runs alone, with a time limit, in its own event loop.
"""

import _thread
import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tests.conformance.case import Case
from tests.conformance.surroundings import EndlessRun, prepared

SECONDS = 2.0
"""The time limit of one case."""

GRACE = 0.5
"""The further seconds until code that does not await is interrupted."""


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
        status: "passed", "failed", "unsupported" (the subject reports that it does not do this) or
            "unwritten" (the function of this step is not written yet).
        failures: Why the case failed: the mismatches, or one sentence.
        outcome: The outcome of the subject, and of its surroundings.
    """

    case: Case
    status: Literal["passed", "failed", "unsupported", "unwritten"]
    failures: Sequence[object]
    outcome: dict[str, Any]

    @property
    def is_endless(self) -> bool:
        """Whether the subject did not stop."""
        return str(self.outcome.get("crash", "")).startswith("It does not stop")

    @property
    def is_defect(self) -> bool:
        """Whether a MUST case did not pass."""
        return self.status != "passed" and self.case.level == "MUST"


def grade(subject: Graded, cases: Iterable[Case], seconds: float = SECONDS) -> list[Verdict]:
    """Return the verdict of each case."""
    return list(verdicts(subject, cases, seconds))


def verdicts(subject: Graded, cases: Iterable[Case], seconds: float = SECONDS) -> Iterator[Verdict]:
    """Yield the verdict of each case as soon as it is known."""
    with asyncio.Runner() as runner:
        try:
            for case in cases:
                yield verdict(subject, case, runner.get_loop(), seconds)
        finally:
            if stop := getattr(subject, "stop", None):
                runner.run(stop())


def verdict(
    subject: Graded, case: Case, loop: asyncio.AbstractEventLoop, seconds: float
) -> Verdict:
    """Run one case."""
    if isinstance(case.step, int) and case.step in subject.unwritten:
        names = ", ".join(subject.unwritten[case.step])
        return Verdict(case, "unwritten", [f"not written yet: {names}"], {})
    try:
        with time_limit(seconds):
            outcome = loop.run_until_complete(outcome_of(subject, case, seconds))
    except EndlessRun as error:
        outcome = {"crash": f"It does not stop: {error}."}
    failures = case.failures(outcome)
    reported = outcome.get("error")
    if failures and isinstance(reported, dict) and reported.get("kind") == "unsupported":
        return Verdict(case, "unsupported", [reported.get("message", "")], outcome)
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
    """Raise EndlessRun in code that does not await, a moment after the time limit."""

    def stop(*_: object) -> None:
        raise EndlessRun(f"no outcome within {seconds:g} seconds")

    has_timer = hasattr(signal, "setitimer")  # Windows has none
    number = signal.SIGALRM if has_timer else signal.SIGTERM
    before = signal.signal(number, stop)
    try:
        with alarm(seconds + GRACE) if has_timer else interruption(seconds + GRACE, number):
            yield
    finally:
        signal.signal(number, before)


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Send SIGALRM after some seconds. It also interrupts a call that waits."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def interruption(seconds: float, number: int) -> Iterator[None]:
    """Simulate a signal after some seconds, where the system has no timer."""
    timer = threading.Timer(seconds, _thread.interrupt_main, [number])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
