"""Output: find the JSON in a model's text, and use it only if it is valid.

A model is asked for JSON and often adds a sentence, a code fence or a comma. This module finds the
JSON, corrects what has only one possible correction, and reports it. Everything else is returned to
the model as feedback.

Steps:
  1. Find: the parts of a text that may be the JSON.
  2. Parse: strict JSON, and two repairs that are reported.
  3. Validate: compare the value with a JSON Schema.
  4. Feedback: one message with all issues.
  5. Ask again: until the value is valid, with a limit.

Write the functions whose body is `...`. A function that is not written yet is built in, so you may
start with any step. Other functions and constants are up to you.

The page: docs/learn/build/2-output.md
The check: make grade FILE=my_output.py
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


def find(text: str) -> Iterator[str]:
    """Yield the parts of a text that may be the JSON, the most likely one first."""
    ...


def unwrap(text: str) -> str:
    """Return a text without its thinking, and without a code fence around all of it."""
    ...


# ---- Step 2: Parse


def parse(text: str) -> tuple[Any, list[str]]:
    """Return the value of a JSON text, and the repairs that it needed.

    Raises:
        ValueError: The text is not JSON.
    """
    ...


# ---- Step 3: Validate


def validate(value: Any, schema: dict[str, Any]) -> list[str]:
    """Return all issues of a value, each with its location; an empty list means valid."""
    ...


def read(text: str, schema: dict[str, Any]) -> Result:
    """Return the first candidate that fits the schema, or the issues of the first JSON."""
    ...


# ---- Step 4: Feedback


def describe(issues: Sequence[str]) -> str:
    """Return one message to the model with all issues."""
    ...


# ---- Step 5: Ask again

Ask = Callable[[Sequence[Message]], Awaitable[Reply]]


class InvalidOutput(Exception):
    """No attempt was valid."""


async def request(
    ask: Ask, messages: Sequence[Message], schema: dict[str, Any], attempts: int = 3
) -> Result:
    """Ask until the reply fits the schema. Each new attempt contains the reply and its issues.

    Raises:
        InvalidOutput: No attempt was valid.
    """
    ...
