"""The report of a graded file: the progress of each step, and the first failure.

The text is the same with and without color. This module does not grade, and prints nothing.
"""

import contextlib
import json
import os
import pprint
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from tests.conformance.case import Case, Mismatch, Step, shortened, size
from tests.conformance.grade import Verdict
from tests.conformance.location import line_of
from tests.conformance.surroundings import server_sent_event

WIDTH = 20
"""The length of a bar."""

MOST_MISMATCHES = 3
"""The mismatches of a case that are shown."""

LONGEST_TEXT = 200
"""The characters of a text in an input that are shown."""

MOST_LINES = 20
"""The lines of an input that are shown."""

MOST_SERVER_LINES = 40
"""The lines of an input with the answers of a server."""

MOST_PRINTED_LINES = 10
"""The lines that a file has printed, and that are shown."""

GOOD, ALMOST, BAD, BOLD = "32", "33", "31", "1"


@dataclass
class Report:
    """The settings of a report.

    Attributes:
        titles: The titles of the steps.
        unwritten: The functions that the learner has not written yet, by step.
        hint: Whether the hint of the first failure is shown.
        color: Whether the terminal shows colors.
        functions: The functions that the learner has to write, by step.
        step: The step that is graded; None for all steps.
        following: The page after the last step.
    """

    titles: dict[int, str] = field(default_factory=dict)
    unwritten: dict[int, list[str]] = field(default_factory=dict)
    hint: bool = False
    color: bool = False
    functions: dict[int, list[str]] = field(default_factory=dict)
    step: int | None = None
    following: str = ""

    def lines(self, verdicts: Sequence[Verdict], diagnosis: Sequence[str] = ()) -> Iterator[str]:
        """Yield the lines of the report."""
        steps = steps_of(verdicts)
        for step in steps:
            yield self.progress(step, [each for each in verdicts if each.case.step == step])
        yield ""
        failed = [each for each in verdicts if each.is_defect and each.status != "unwritten"]
        if failed:
            first = min(failed, key=importance)
            yield from self.failure(first)
            yield ""
            yield from others(first, failed)
            for sentence in diagnosis:
                yield from textwrap.wrap(sentence, 98, break_on_hyphens=False)
            return
        if open_steps := [step for step in steps if step in self.unwritten]:
            yield from self.next_step(open_steps[0], verdicts)
        else:
            yield self.painted("Every MUST case passed.", GOOD)
            yield from self.following_step()
        for each in verdicts:
            if each.case.level == "SHOULD" and each.status in ("failed", "unsupported"):
                yield f"Recommended ({each.case.id}): {each.case.rule}"

    def progress(self, step: Step, verdicts: Sequence[Verdict]) -> str:
        """The line of one step."""
        name = f"  {self.title(step):24}"
        if isinstance(step, int) and step in self.unwritten:
            return f"{name} not written yet: {', '.join(self.unwritten[step])}"
        counted = [each for each in verdicts if each.case.level != "INFO"]
        passed = sum(each.status == "passed" for each in counted)
        filled = WIDTH * passed // max(len(counted), 1)
        bar = "#" * filled + "." * (WIDTH - filled)
        fails = any(each.is_defect for each in counted)
        color = BAD if fails else GOOD if passed == len(counted) else ALMOST
        recommended = f" ({len(counted) - passed} recommended)"
        rest = recommended if color == ALMOST else ""
        return f"{name} {self.painted(bar, color)} {passed:3} of {len(counted)}{rest}"

    def title(self, step: Step) -> str:
        """A step in words."""
        if step == "complete":
            return "Beyond the course"
        return f"Step {step}: {self.titles.get(step, '')}".removesuffix(": ")

    def next_step(self, step: Step, verdicts: Sequence[Verdict]) -> Iterator[str]:
        """Yield what to write next."""
        assert isinstance(step, int)
        page = next(each.case.page for each in verdicts if each.case.step == step)
        yield self.painted(f"Next: {self.title(step)}", BOLD)
        yield f"  write     {', '.join(self.unwritten[step])}"
        yield f"  page      {page}"

    def following_step(self) -> Iterator[str]:
        """Yield what follows the step or the file that has passed."""
        step = None if self.step is None else self.step + 1
        if step in self.functions:
            names = ", ".join(self.functions[step])
            yield self.painted(f"Next: {self.title(step)}", BOLD) + f" ({names})"
        elif self.step is not None:
            yield self.painted("Next: grade the whole file, without a step.", BOLD)
        elif self.following:
            yield self.painted(f"Next: {self.following}", BOLD)

    def checked_functions(self, case: Case) -> str:
        """The functions that a case checks, if its operation has another name."""
        names = self.functions.get(case.step, []) if isinstance(case.step, int) else []
        return "" if case.operation in names or not names else f", to check {', '.join(names)}"

    def failure(self, verdict: Verdict) -> Iterator[str]:
        """Yield a failed case."""
        case = verdict.case
        yield self.painted(f"{case.id} failed ({self.title(case.step)})", BAD)
        yield self.painted(case.rule, BOLD)
        yield ""
        yield f"  {case.operation}{self.checked_functions(case)}"
        yield from shown_input(case)
        yield ""
        for each in verdict.failures[:MOST_MISMATCHES]:
            if isinstance(each, Mismatch):
                yield labeled("expected", f"{each.place}: {each.expected}".removeprefix(": "))
                yield labeled("actual", each.actual)
            else:
                yield labeled("actual", str(each))
        if any(
            isinstance(each, Mismatch) and each.actual == "missing" for each in verdict.failures
        ):
            outcome = {name: each for name, each in verdict.outcome.items() if name != "seconds"}
            yield labeled("outcome", shortened(outcome))
        if verdict.printed:
            yield ""
            yield from shown_output(verdict.printed)
        yield ""
        origin = case.origin
        yield labeled("seen in", f"{next(iter(origin.values()))}: {origin['source']}")
        yield labeled("page", case.page)
        yield labeled("complete", location(case.code))
        if self.hint:
            yield labeled("hint", case.hint)
        else:
            yield labeled("hint", "add --hint, or HINT=1 with make")

    def painted(self, text: str, code: str) -> str:
        """A text in a color, if the terminal shows colors."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.color else text


def abbreviated(value: Any) -> Any:
    """Return a JSON value with the beginnings of its long texts, so that all fields can be shown."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}… ({len(value):,} characters)"
    if isinstance(value, dict):
        return {name: abbreviated(each) for name, each in value.items()}
    if isinstance(value, list):
        return [abbreviated(each) for each in value]
    return value


def shown_input(case: Case) -> Iterator[str]:
    """Yield the input of a case, one field after the other."""
    lines = []
    most = MOST_LINES
    for name, value in case.input.items():
        text = pprint.pformat(abbreviated(value), width=84, sort_dicts=False)
        first, *rest = text.splitlines()
        if name == "server":
            first, *rest = [line for answer in value for line in answer_lines(answer)]
            most = MOST_SERVER_LINES
        lines += [f"    {name:9} {first}", *(" " * 14 + line for line in rest)]
    yield from lines[:most]
    if len(lines) > most:
        yield f"    … ({len(lines) - most} more lines)"


def answer_lines(answer: dict[str, Any]) -> Iterator[str]:
    """Yield an answer of a server as lines: its status and headers, and its body as it is sent."""
    others = {name: each for name, each in answer.items() if name in ("headers", "drop")}
    yield f"{answer.get('status', 200)} {others or ''}".rstrip()
    for name in ("json", "text"):
        if name in answer:
            text = answer[name]
            yield abbreviated(text if isinstance(text, str) else json.dumps(text))
    for event in answer.get("events", []):
        yield abbreviated(server_sent_event(event).rstrip())
    for chunk in answer.get("chunks", []):
        yield repr(abbreviated(chunk if isinstance(chunk, str) else bytes(chunk)))


def shown_output(printed: str) -> Iterator[str]:
    """Yield the beginning of what the file printed during a case."""
    lines = printed.splitlines()
    yield "  Your file printed:"
    yield from (f"    | {abbreviated(line)}" for line in lines[:MOST_PRINTED_LINES])
    if len(lines) > MOST_PRINTED_LINES:
        yield "    | …"


def location(code: str) -> str:
    """Where the complete stage handles a case: the file, the line and the name."""
    path, _, name = code.partition("::")
    with contextlib.suppress(LookupError):
        path += f":{line_of(code)}"
    return f"{path} ({name})"


def labeled(label: str, text: str) -> str:
    """A line with a label; a long text continues below its beginning."""
    wrapped = textwrap.wrap(text, 86, break_on_hyphens=False, break_long_words=False) or [""]
    return "\n".join([f"  {label:9} {wrapped[0]}", *(" " * 12 + line for line in wrapped[1:])])


def importance(failed: Verdict) -> tuple[int, bool, int]:
    """The order of failures: the first step, then a run without end, then the smallest input."""
    return order(failed.case.step), not failed.is_endless, size(failed.case)


def others(first: Verdict, failed: Sequence[Verdict]) -> Iterator[str]:
    """Yield how many other MUST cases failed."""
    rest = [each for each in failed if each is not first]
    if rest:
        ids = ", ".join(each.case.id for each in rest[:8]) + (", …" if len(rest) > 8 else "")
        cases = "case" if len(rest) == 1 else "cases"
        yield f"{len(rest)} other MUST {cases} failed: {ids}"


def steps_of(verdicts: Iterable[Verdict]) -> list[Step]:
    """The steps of the verdicts, in their order."""
    return sorted({each.case.step for each in verdicts}, key=order)


def order(step: Step) -> int:
    """The position of a step; "complete" is the last one."""
    return 99 if step == "complete" else step


def shows_color(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colors."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return False
    if os.name == "nt":
        os.system("")  # switches the escape codes of a Windows console on
    return True
