"""Reads from the first bracket of a text to the last one.

Caught by: O-012
Seen in: OpenNSWM-Lab/FAROS#70 (an expression reads two objects and the words between them as one)
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator

from examples.from_scratch import context
from examples.from_scratch.gateway import Message, Reply


@dataclass
class Result:
    """The value in a text, or the issues of that text. A value with issues is not used.

    Attributes:
        value: The parsed value.
        repairs: The corrections of the JSON.
        issues: The reasons why the value is invalid.
    """

    value: Any = None
    repairs: list[str] = field(default_factory=list)
    issues: list[str] = field(default_factory=list)


# ---- Step 1: Find

THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
FENCE = re.compile(r"^```\w*\n((?:.*\n)*?)```", re.MULTILINE)
STRING = r'"(?:[^"\\]|\\.)*"'
TOKEN = re.compile(rf"{STRING}|[{{}}\[\]]", re.DOTALL)


def find(text: str) -> Iterator[str]:
    """Yield the candidates: the whole text, then each fence, then each pair of brackets."""
    text = THINKING.sub("", text)
    yield text.strip()
    for fence in FENCE.finditer(text):
        yield fence[1]
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    end = max(text.rfind("}"), text.rfind("]"))
    if starts:
        yield text[min(starts) : end + 1]


def unwrap(text: str) -> str:
    """Return a text without its thinking, and without a code fence around all of it."""
    text = THINKING.sub("", text).strip()
    fence = FENCE.fullmatch(text)
    return fence[1] if fence else text


# ---- Step 2: Parse

REPAIRABLE = re.compile(
    rf"""{STRING}|(?P<single>'(?:[^'\\]|\\.)*')|(?P<comma>(?<=["'\w\]}}]),(?=\s*[\]}}]))"""
)


def parse(text: str) -> tuple[Any, list[str]]:
    """Return the value of a JSON text, and the repairs that it needed.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        return strict(text), []
    except ValueError:
        repairs: list[str] = []

    def corrected(found: re.Match[str]) -> str:
        if found["comma"]:
            repairs.append("trailing comma removed")
            return ""
        if found["single"]:
            repairs.append("single quotes replaced")
            inner = found["single"][1:-1].replace("\\'", "'")
            return '"' + re.sub(r'(?<!\\)"', r"\"", inner) + '"'
        return found[0]

    return strict(REPAIRABLE.sub(corrected, text)), repairs


def strict(text: str) -> Any:
    """Parse JSON as its standard demands; Python's parser accepts more."""
    try:
        return json.loads(text, parse_constant=finite, parse_float=finite, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("too deeply nested") from None


def finite(number: str) -> float:
    """Return a number, and reject NaN, Infinity and numbers that are too large."""
    if not abs(float(number)) < float("inf"):
        raise ValueError(f"{number} is not JSON")
    return float(number)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, and reject a name that appears twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name appears twice in one object")
    return dict(pairs)


# ---- Step 3: Validate


def validate(value: Any, schema: dict[str, Any]) -> list[str]:
    """Return all issues of a value, each with its location."""
    errors = Draft202012Validator(schema).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for error in errors]


def read(text: str, schema: dict[str, Any]) -> Result:
    """Return the first candidate that fits the schema, or the issues of the first JSON."""
    invalid = None
    for candidate in find(text):
        try:
            value, repairs = parse(candidate)
        except ValueError:
            continue
        result = Result(value, repairs, validate(value, schema))
        if not result.issues:
            return result
        invalid = invalid or result
    return invalid or Result(issues=["The reply contains no valid JSON."])


# ---- Step 4: Feedback

LONGEST = 150
"""The length of the beginning and of the end of an issue; between them is a long value."""


def describe(issues: Sequence[str]) -> str:
    """Return one message to the model with all issues."""
    lines = "".join(f"\n- {issue[:LONGEST]}{issue[LONGEST:][-LONGEST:]}" for issue in issues)
    return f"Your reply cannot be used:{lines}\nAnswer with the corrected JSON only."


# ---- Step 5: Ask again

Ask = Callable[[Sequence[Message]], Awaitable[Reply]]


class InvalidOutput(Exception):
    """No attempt was valid."""


async def request(
    ask: Ask, messages: Sequence[Message], schema: dict[str, Any], attempts: int = 3
) -> Result:
    """Ask until the reply fits the schema. Each new attempt contains the reply and its issues."""
    result = Result()
    for _ in range(attempts):
        reply = await ask(messages)
        result = read(reply.message["content"] or "", schema)
        if reply.finish_reason == "length":  # what looks complete may be half of the answer
            result = Result(issues=["The reply was cut off. Write a shorter one."])
        if not result.issues:
            return result
        messages = [*messages, reply.message, context.feedback(describe(result.issues))]
    raise InvalidOutput(f"{attempts} attempts were invalid: {result.issues}")
