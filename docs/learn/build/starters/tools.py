"""Tools: describe functions to a model, run what it calls, and return the results.

The model only writes text. This module decides whether the text is a call, whether the call is
valid, and when to stop. There are two dialects: "prompt" describes the tools in the system message
and reads calls as JSON text, and "native" uses the tool calls of the server.

Steps:
  1. Tool: a function with a name, a description and a JSON Schema of its parameters.
  2. Describe: the tools and the results as text, for the prompt dialect.
  3. Decide: a reply contains calls, an answer, or a problem.
  4. Run: each call gets exactly one result, whatever happens.
  5. Loop: ask, run, and ask again, with a limit.

Write the functions whose body is `...`. A function that is not written yet is built in, so you may
start with any step. Other functions and constants are up to you.

The page: docs/learn/build/3-tools.md
The check: make grade FILE=my_tools.py
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from examples.from_scratch import context, output
from examples.from_scratch.gateway import Message, Reply

# ---- Step 1: Tool


class Tool(NamedTuple):
    """A function that the model may call.

    Attributes:
        spec: What the model sees: `name`, `description`, and the JSON Schema of its `parameters`.
        function: The function; it receives the arguments by name.
    """

    spec: dict[str, Any]
    function: Callable[..., Any]


def registry(*tools: Tool) -> dict[str, Tool]:
    """Return the tools by name.

    Raises:
        ValueError: Two tools have the same name.
    """
    ...


# ---- Step 2: Describe

INSTRUCTIONS = """You can use tools. Answer with exactly one JSON object and nothing else.
To call a tool: {"tool": "<name>", "arguments": {<its parameters>}}
To answer the user: {"tool": null, "reply": "<your answer>"}
The result of a call comes in a message that begins with [Tool result for <name>].
The tools, one per line, with a JSON Schema of their parameters:"""


def as_text(messages: Sequence[Message], tools: dict[str, Tool]) -> list[Message]:
    """Return the messages for a model that reads only text: INSTRUCTIONS and the tools first."""
    ...


# ---- Step 3: Decide


class Decision(NamedTuple):
    """What a reply means: calls to run, an answer, or a problem that the model should correct."""

    calls: Sequence[dict[str, Any]] = ()
    answer: str = ""
    problem: str = ""


def decide(reply: Reply, dialect: str) -> Decision:
    """Return the meaning of a reply."""
    ...


# ---- Step 4: Run


def run(call: dict[str, Any], tools: dict[str, Tool]) -> Message:
    """Run one call, and return its one result. An error is a result too: the model reads it."""
    ...


# ---- Step 5: Loop

Ask = Callable[[Sequence[Message], Sequence[Any]], Awaitable[Reply]]
"""Sends messages and tools to a model, such as `Gateway.chat`."""

MAX_TURNS, MAX_TOKENS = 8, 8000
"""The limits: requests for one question, and tokens of the messages in one request."""


class TurnLimit(Exception):
    """The model did not answer within the limit."""


async def answer(
    question: str, history: context.History, ask: Ask, tools: dict[str, Tool], dialect: str
) -> str:
    """Add a question to the history, run the calls that it needs, and return the answer.

    Raises:
        TurnLimit: The model did not answer within MAX_TURNS requests.
    """
    ...
