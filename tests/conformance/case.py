"""`Case`: one rule of a stage, with an input and the outcome that it demands.

Cases are JSON data in `cases/`; `case.schema.json` describes their fields. An outcome is a JSON
object. A case lists checks of it, each at one place, so that the wording of an implementation and
its additional fields are free.

This module knows neither the subjects nor how an outcome comes about.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.conformance.surroundings import expanded

FOLDER = Path(__file__).parent / "cases"
STAGES = ("stage0", "stage1", "stage2", "stage3")

Level = Literal["MUST", "SHOULD", "INFO"]
Step = int | Literal["complete"]
"""A step of the course; "complete" is what only a complete stage handles."""


@dataclass(frozen=True)
class Case:
    """One rule with an input and the demanded outcome.

    Attributes:
        id: A letter for the stage, and a number: G (gateway), C (context), O (output), L (loop).
        rule: The rule as one sentence.
        level: MUST (a violation is a defect), SHOULD (recommended), INFO (for comparison only).
        stage: The stage, such as "stage2".
        step: The step of the course.
        operation: The function of the subject that is called; see README.md.
        input: Its arguments, and what surrounds it: a server, replies of a model, tools, a file.
        expect: The checks of the outcome.
        origin: Where the case was seen: a provider or library, and its source.
        page: The page and the section that explain the rule.
        code: The code of the complete stage that handles the case, as "path::name".
        hint: A sentence that helps to correct a failure.
    """

    id: str
    rule: str
    level: Level
    stage: str
    step: Step
    operation: str
    input: dict[str, Any]
    expect: list[dict[str, Any]]
    origin: dict[str, str]
    page: str
    code: str
    hint: str

    def failures(self, outcome: dict[str, Any]) -> list["Mismatch"]:
        """The checks that an outcome fails; an empty list means passed."""
        if "crash" in outcome:
            expected = "; ".join(described(check) for check in self.expect)
            return [Mismatch("", expected, f"the subject failed: {outcome['crash']}")]
        return [each for check in self.expect for each in failures_of(check, outcome)]


class Mismatch(NamedTuple):
    """A check that an outcome fails.

    Attributes:
        place: The place in the outcome; empty for all of it.
        expected: The demand of the check, in words.
        actual: The value at the place, in words.
    """

    place: str
    expected: str
    actual: str

    def __str__(self) -> str:
        place = self.place or "the outcome"
        return f"{place}: expected {self.expected}; actual: {self.actual}"


def load_cases(stage: str) -> list[Case]:
    """Return the cases of a stage, in the order of the steps.

    Raises:
        ValueError: The stage is unknown.
    """
    if stage not in STAGES:
        raise ValueError(f"Unknown stage {stage!r}. The stages are {', '.join(STAGES)}.")
    cases = []
    for path in sorted((FOLDER / stage).glob("*.json")):
        for fields in json.loads(path.read_text(encoding="utf-8")):
            cases.append(Case(stage=stage, **fields))
    return cases


def load_course_cases(stage: str) -> list[Case]:
    """Return the cases of a stage that a file of the course passes."""
    return [case for case in load_cases(stage) if case.step != "complete"]


# ---- checks


def failures_of(check: dict[str, Any], outcome: Any) -> Iterator[Mismatch]:
    """Yield each part of a check that an outcome fails."""
    if "any" in check:
        found = [
            [each for allowed in checks for each in failures_of(allowed, outcome)]
            for checks in check["any"]
        ]
        if all(found):
            yield Mismatch("", described(check), shortened(outcome))
        return
    place = check["at"]
    try:
        value = lookup(outcome, place)
    except LookupError:
        if not check.get("absent"):
            yield Mismatch(place, demanded(check), "missing")
        return
    if check.get("absent"):
        yield Mismatch(place, "no value", shortened(value))
        return
    for name, expected in check.items():
        if name in COMPARISONS and not COMPARISONS[name](value, expected):
            yield Mismatch(place, phrase(name, expected), shortened(value))


def lookup(value: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer; -1 is the last item of a list.

    Raises:
        LookupError: There is no such value.
    """
    for part in pointer.split("/")[1:]:
        if isinstance(value, list) and re.fullmatch(r"-?\d+", part):
            value = value[int(part)]
        elif isinstance(value, dict):
            value = value[part.replace("~1", "/").replace("~0", "~")]
        else:
            raise LookupError(pointer)
    return value


def equal(value: Any, expected: Any) -> bool:
    """Compare two JSON values; True is not 1, and the order of fields does not matter."""
    return json.dumps(value, sort_keys=True) == json.dumps(expected, sort_keys=True)


def contains(value: Any, expected: Any) -> bool:
    """Whether a text contains each expected text, or a list each expected item."""
    parts = expected if isinstance(expected, list) else [expected]
    if isinstance(value, str):
        return all(part in value for part in parts)
    if isinstance(value, list):
        return all(any(equal(part, item) for item in value) for part in parts)
    return False


def lacks(value: Any, expected: Any) -> bool:
    """Whether a text or a list contains none of the parts."""
    parts = expected if isinstance(expected, list) else [expected]
    return not any(contains(value, part) for part in parts)


def is_json(value: Any, expected: Any) -> bool:
    """Whether a text is the JSON of a value."""
    try:
        return isinstance(value, str) and equal(json.loads(value), expected)
    except ValueError:
        return False


def distinct(value: Any, expected: Any) -> bool:
    """Whether the items of a list have different values at a JSON pointer."""
    if not isinstance(value, list):
        return False
    try:
        found = [json.dumps(lookup(item, expected), sort_keys=True) for item in value]
    except LookupError:
        return False
    return len(set(found)) == len(found)


def unpaired_calls(messages: Any) -> list[str]:
    """Return the ids of calls without exactly one result behind them, and of results without a call.

    The results of a message are the tool messages that follow it directly.
    """
    wrong: list[str] = []
    open_ids: list[str] = []
    for message in messages:
        if message["role"] != "tool":
            wrong += open_ids
            open_ids = [call["id"] for call in message.get("tool_calls") or []]
            wrong += [id for id in set(open_ids) if open_ids.count(id) > 1]
        elif message["tool_call_id"] in open_ids:
            open_ids.remove(message["tool_call_id"])
        else:
            wrong.append(message["tool_call_id"])
    return wrong + open_ids


def is_paired(value: Any, expected: Any) -> bool:
    """Whether a list of messages has exactly one result directly behind each call."""
    try:
        return isinstance(value, list) and not unpaired_calls(value)
    except (LookupError, TypeError, AttributeError):  # not messages
        return False


def is_number(value: Any) -> bool:
    """Whether a value is a number; True is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "equals": equal,
    "one_of": lambda value, expected: any(equal(value, each) for each in expected),
    "contains": contains,
    "lacks": lacks,
    "json": is_json,
    "matches": lambda value, expected: (
        isinstance(value, str) and re.search(expected, value) is not None
    ),
    "length": lambda value, expected: (
        isinstance(value, str | list | dict) and len(value) == expected
    ),
    "distinct": distinct,
    "at_least": lambda value, expected: is_number(value) and value >= expected,
    "at_most": lambda value, expected: is_number(value) and value <= expected,
    "paired": is_paired,
    "present": lambda value, expected: True,
}
"""The comparisons of a check with the value at its place."""

PHRASES = {
    "equals": "",
    "one_of": "one of ",
    "contains": "a value that contains ",
    "lacks": "a value without ",
    "json": "the JSON text of ",
    "matches": "a text that matches ",
    "length": "the length ",
    "distinct": "a list with different values at ",
    "at_least": "at least ",
    "at_most": "at most ",
    "paired": "messages with exactly one result directly behind each call",
    "present": "a value",
}
"""The beginning of what a comparison demands, in words."""

FLAGS = {"paired", "present"}
"""Comparisons without a value."""


def phrase(name: str, expected: Any) -> str:
    """Describe the demand of one comparison."""
    return PHRASES[name] + ("" if expected is True and name in FLAGS else shortened(expected))


def demanded(check: dict[str, Any]) -> str:
    """Describe the demand of a check at its place."""
    if check.get("absent"):
        return "no value"
    return " and ".join(
        phrase(name, expected) for name, expected in check.items() if name in COMPARISONS
    )


def described(check: dict[str, Any]) -> str:
    """Describe a check: its place and its demand."""
    if "any" in check:
        allowed = (" and ".join(map(described, checks)) for checks in check["any"])
        return " or ".join(allowed)
    return f"{check['at'] or 'the outcome'}: {demanded(check)}"


def shortened(value: Any, limit: int = 400) -> str:
    """A value in Python's notation; a long one is shortened."""
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + " …"


def size(case: Case) -> int:
    """The length of the input; the shortest one is shown first."""
    return len(json.dumps(expanded(case.input)))
