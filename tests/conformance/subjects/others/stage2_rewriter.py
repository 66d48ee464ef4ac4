"""Stage 2 with a state machine that rewrites a text to strict JSON while it reads it.

Each character changes the state of a `Scanner`. The scanner collects complete values at depth 0,
together with their repairs, so candidates and repairs come from a single pass. Corrections are asked
for by a function that calls itself with one attempt less.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import jsonschema

from tests.conformance.surroundings import Failure


@dataclass
class Candidate:
    """A part of the text as strict JSON, and what was rewritten."""

    text: str
    repairs: list[str]


@dataclass
class Scanner:
    """Collects the parts of a text from an opening bracket to the one that closes it."""

    written: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    depth: int = 0
    quote: str = ""
    escaped: bool = False
    comma: int | None = None
    """The position of a comma that may be a trailing one."""
    is_behind_value: bool = False

    def feed(self, mark: str) -> Candidate | None:
        """Read one character; return the candidate that ends with it."""
        if self.quote:
            self.read_in_string(mark)
        elif mark in "{[":
            self.open(mark)
        elif self.depth:
            return self.read_in_value(mark)
        return None

    def open(self, mark: str) -> None:
        if not self.depth:
            self.written, self.repairs = [], []
        self.depth += 1
        self.write(mark, is_value=False)

    def write(self, mark: str, is_value: bool = True) -> None:
        self.written.append(mark)
        self.comma, self.is_behind_value = None, is_value

    def read_in_value(self, mark: str) -> Candidate | None:
        if mark in "\"'":
            self.quote = mark
            if mark == "'":
                self.repairs.append("single_quotes")
            self.write('"')
        elif mark == "," and self.is_behind_value:
            self.write(mark, is_value=False)
            self.comma = len(self.written) - 1
        elif mark in "}]":
            if self.comma is not None:
                self.written[self.comma] = ""
                self.repairs.append("trailing_comma")
            self.write(mark)
            self.depth -= 1
            if not self.depth:
                return Candidate("".join(self.written), self.repairs)
        elif mark.isspace():
            self.written.append(mark)
        else:
            self.write(mark, is_value=mark not in ",:")
        return None

    def read_in_string(self, mark: str) -> None:
        if self.escaped:
            self.written.append("'" if mark == "'" else "\\" + mark)
            self.escaped = False
        elif mark == "\\":
            self.escaped = True
        elif mark == self.quote:
            self.quote = ""
            self.write('"')
        else:
            self.written.append('\\"' if mark == '"' else mark)


class Decoder(json.JSONDecoder):
    """Strict JSON: finite numbers, and each name once."""

    def __init__(self) -> None:
        super().__init__(
            parse_float=self.number, parse_constant=self.refuse, object_pairs_hook=self.members
        )

    def number(self, text: str) -> float:
        return self.refuse(text) if math.isinf(float(text)) else float(text)

    def refuse(self, text: str) -> NoReturn:
        raise ValueError(f"{text} is not a value")

    def members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for name, value in pairs:
            if name in members:
                raise ValueError(f"{name} appears twice")
            members[name] = value
        return members


def decoded(candidate: Candidate) -> list[Any]:
    """Return a list with the value, or an empty list."""
    try:
        return [Decoder().decode(candidate.text)]
    except (ValueError, RecursionError):
        return []


def split_thinking(text: str) -> str:
    """Return the text behind a thinking block at the beginning."""
    stripped = text.strip()
    end = stripped.find("</think>") if stripped.startswith("<think>") else -1
    return stripped[end + len("</think>") :].strip() if end >= 0 else stripped


def fenced(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield each fence: its first line, its last line, and its content."""
    lines, first = text.split("\n"), None
    for at, line in enumerate(lines):
        if line[:3] == "```":
            if first is not None:
                yield first, at, "\n".join(lines[first + 1 : at])
            first = at if first is None else None


def candidates(text: str) -> Iterator[Candidate]:
    """Yield the whole text, the fences, and the values between brackets."""
    yield Candidate(text, [])
    for _, _, content in fenced(text):
        yield Candidate(content, [])
    scanner = Scanner()
    for mark in text:
        if found := scanner.feed(mark):
            yield found


def unwrap(text: str) -> str:
    text = split_thinking(text)
    last = text.count("\n")
    return next((inner for first, end, inner in fenced(text) if (first, end) == (0, last)), text)


def validate(value: Any, schema: Any) -> dict[str, Any]:
    validator = jsonschema.validators.validator_for(schema)(schema)
    errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.path)))
    return {"issues": list(map(sentence, errors))}


def sentence(error: jsonschema.ValidationError) -> str:
    """Name the location and the rule; the value is not repeated."""
    place = "/".join(map(str, error.absolute_path)) or "the value"
    if error.validator == "required":
        missing = [
            name for name in error.validator_value if repr(name) == error.message.split(" is ")[0]
        ]
        return f"{place}: {missing[0]} is missing"
    if error.validator == "additionalProperties" and error.validator_value is False:
        unknown = set(error.instance) - set(error.schema.get("properties", ()))
        return f"{place}: unknown names: {', '.join(sorted(unknown))}"
    return f"{place}: {error.validator} must be {json.dumps(error.validator_value)[:200]}"


def read(text: str, schema: Any = True, finish_reason: str = "stop") -> dict[str, Any]:
    if finish_reason == "length":
        return {"issues": ["The reply is incomplete, because it is too long."]}
    rejected = []
    for candidate in candidates(split_thinking(text)):
        for value in decoded(candidate):
            result = {"value": value, "repairs": candidate.repairs, **validate(value, schema)}
            if not result["issues"]:
                return result
            rejected.append(result)
    return rejected[0] if rejected else {"issues": ["No JSON was found."]}


def feedback(text: str, schema: Any, finish_reason: str = "stop") -> dict[str, Any]:
    issues = read(text, schema, finish_reason)["issues"]
    return {"text": "\n".join([*issues, "Reply with nothing but the JSON."])}


async def request(
    ask: Any, messages: Sequence[Any], schema: Any, attempts: int = 3
) -> dict[str, Any]:
    if not attempts:
        raise Failure("invalid", "no attempt is left")
    reply = await ask(tuple(messages))
    text, reason = reply["message"]["content"] or "", reply["finish_reason"]
    result = read(text, schema, reason)
    if not result["issues"]:
        return {"value": result["value"], "messages": list(messages)}
    correction = "[Feedback] " + feedback(text, schema, reason)["text"]
    pair = [{"role": "assistant", "content": text}, {"role": "user", "content": correction}]
    answer = await request(ask, [*messages, *pair], schema, attempts - 1)
    return {"value": answer["value"], "messages": list(messages)}


OPERATIONS = {
    "read": read,
    "unwrap": unwrap,
    "validate": validate,
    "feedback": feedback,
    "request": request,
}
