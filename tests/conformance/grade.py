"""Grade a subject: run its cases, and compare each outcome with the case.

Each case runs alone, with a time limit, in its own event loop.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tests.conformance.case import Case
from tests.conformance.subject import place_of
from tests.conformance.surroundings import PARTS, prepared

SECONDS = 2.0
"""The time limit of one case."""


class Graded(Protocol):
    """A `Subject`, a `Program` or a `PythonFile`.

    Attributes:
        name: The name in reports.
        unwritten: The functions that the learner has not written yet, by step; after the start.
        prepared_parts: What the suite prepares of an input. The subject prepares the rest.
        needs_time_limit: Whether the suite stops an operation; otherwise the subject does.
        defect: A defect that no case shows; after `finish`.
    """

    name: str
    unwritten: dict[int, list[str]]
    prepared_parts: Set[str]
    needs_time_limit: bool
    defect: str

    async def start(self) -> None:
        """Load the subject.

        Raises:
            SubjectError: The subject cannot be loaded.
        """

    async def perform(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call an operation, and return its outcome."""

    async def finish(self) -> None:
        """End after the last case."""

    async def stop(self) -> None:
        """End at once."""


@dataclass(frozen=True)
class Verdict:
    """The result of one case.

    Attributes:
        case: The case.
        status: "passed", "failed", "unsupported" (the subject reports that it does not do this) or
            "unwritten" (the function of this step is not written yet).
        failures: Why the case failed: the mismatches, or one sentence.
        outcome: The outcome of the subject, and of its surroundings.
        printed: The beginning of what the subject printed.
        has_stopped: Whether the program of the subject ended, or was ended without a time limit.
    """

    case: Case
    status: Literal["passed", "failed", "unsupported", "unwritten"]
    failures: Sequence[object]
    outcome: dict[str, Any]
    printed: str = ""
    has_stopped: bool = False

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
    """Yield the verdict of each case as soon as it is known.

    Raises:
        SubjectError: The subject cannot be loaded.
    """
    with asyncio.Runner() as runner:
        try:
            runner.run(subject.start())
            for case in cases:
                yield runner.run(verdict(subject, case, seconds))
            runner.run(subject.finish())
        finally:
            runner.run(subject.stop())


async def verdict(subject: Graded, case: Case, seconds: float) -> Verdict:
    """Run one case."""
    if isinstance(case.step, int) and case.step in subject.unwritten:
        names = ", ".join(subject.unwritten[case.step])
        return Verdict(case, "unwritten", [f"not written yet: {names}"], {})
    start = time.perf_counter()
    parts = PARTS - {"tools"} if case.stage == "stage0" else PARTS
    outcome = await outcome_of(subject, case.operation, case.input, parts, seconds)
    outcome["seconds"] = time.perf_counter() - start
    process = outcome.pop("printed", ""), outcome.pop("stopped", False)
    failures = case.failures(outcome)
    reported = outcome.get("error")
    if failures and isinstance(reported, dict) and reported.get("kind") == "unsupported":
        return Verdict(case, "unsupported", [reported.get("message", "")], outcome, *process)
    return Verdict(case, "failed" if failures else "passed", failures, outcome, *process)


async def outcome_of(
    subject: Graded, operation: str, fields: dict[str, Any], parts: Set[str], seconds: float
) -> dict[str, Any]:
    """Return what the subject does with the input of a case.

    Args:
        subject: The subject.
        operation: The operation.
        fields: The input.
        parts: The fields of the input that prepare its surroundings.
        seconds: The time limit of the subject.
    """
    async with prepared(fields, parts & subject.prepared_parts) as (arguments, seen):
        try:
            async with asyncio.timeout(seconds if subject.needs_time_limit else None):
                outcome = await subject.perform(operation, arguments)
        except TimeoutError as error:
            place = place_of(error.__cause__ or error)
            outcome = {"crash": f"It does not stop: no outcome within {seconds:g} seconds{place}."}
    return {**outcome, **seen}
