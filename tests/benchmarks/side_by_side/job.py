"""The job of every driver: the question, the tools, and the record of their calls.

A driver is a file in `drivers/`. It imports the library it drives, and only this file of the project
(`ours.py`, of course, drives the project). This file needs only Python, because it is imported in
the virtual environment of each peer. A driver defines:

    TITLE      its name in a report
    PACKAGES   the distributions whose versions a report lists
    IMPORT     the first statement of a user of the library; its time and memory are measured
    asking     `asking(work)`: an asynchronous context manager that yields an async function. The
               function asks the question in a new conversation and returns the final text. The
               client and other reusable objects are created once, outside of the function.
    SPEAKS     the dialects that `asking` supports
    reading    (if it streams) `reading(url)`: a context manager as above. Its function reads the
               whole stream, and returns the number of characters of text and the call's arguments.
    snapshots  (if it parses partial arguments) the same, with the value parsed after each piece of
               the arguments. Its function also returns the last value.
    FOLLOWED   (if its path is counted) the packages of the path: the library's own, and the SDK of a
               provider that it uses; not HTTP libraries, pydantic and their like, for any driver
    following  (optional) as `asking`, for the path alone: what it opens is not a part of the path
    HIDDEN     (optional) installed packages that the driver must not find
    OPENS_A_CLIENT   (optional) whether each question opens a client; only single loops are measured
"""

import asyncio
import importlib
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

Dialect = Literal["calls", "decisions", "messages"]
"""OpenAI's tool calls, decisions as JSON in the text, or Anthropic's tool calls."""

Ask = Callable[[], Awaitable[str]]
"""Asks the question in a new conversation; returns the final text of the model."""

SYSTEM = "You are a calculator. Use the tool for each sum, and then say what came out."
QUESTION = "Please add the numbers, one after the other."
KEY = "sk-0123456789abcdef0123456789abcdef"

called: list[float] = []
"""The CPU time of this process, in seconds, at each call of `add`."""


def driver(name: str) -> ModuleType:
    """Import a driver for the rest of this process, and hide the packages that it must not find.

    Args:
        name: One of `drivers/`.
    """
    module = importlib.import_module(f"drivers.{name}")
    for hidden in getattr(module, "HIDDEN", ()):
        sys.modules[hidden] = None  # type: ignore[assignment]  # an import fails, and `find_spec` is None
    return module


@dataclass(frozen=True, slots=True)
class Work:
    """The parameters of a measurement.

    Attributes:
        server: URL of the model server.
        dialect: The dialect of the calls.
        rounds: The number of tool rounds before the answer.
        tools: "add", or the three tools that wait 100, 200 and 150 ms, as coroutines or as plain
            functions.
    """

    server: str
    dialect: Dialect = "calls"
    rounds: int = 10
    tools: Literal["add", "three", "three blocking"] = "add"

    @property
    def base(self) -> str:
        """The base URL in the form of the SDKs: OpenAI's ends in /v1, Anthropic's does not."""
        way = (
            "three"
            if self.tools != "add"
            else "decisions"
            if self.dialect == "decisions"
            else "calls"
        )
        return f"{self.server}/{way}/{self.rounds}" + ("" if self.dialect == "messages" else "/v1")

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The tool functions."""
        return {"add": [add], "three": WAITING, "three blocking": BLOCKING}[self.tools]

    @property
    def model(self) -> str:
        """A model name that the SDKs know."""
        return "claude-haiku-4-5" if self.dialect == "messages" else "gpt-4o"


async def add(a: int, b: int) -> str:
    """Add two integers.

    Args:
        a: The first number.
        b: The second number.
    """
    called.append(time.process_time())
    return str(a + b)


async def wait_100() -> str:
    """Wait 100 ms."""
    await asyncio.sleep(0.1)
    return "100"


async def wait_200() -> str:
    """Wait 200 ms."""
    await asyncio.sleep(0.2)
    return "200"


async def wait_150() -> str:
    """Wait 150 ms."""
    await asyncio.sleep(0.15)
    return "150"


def blocking(milliseconds: int) -> Callable[[], str]:
    """Return the tool of the same name that blocks its thread."""

    def wait() -> str:
        time.sleep(milliseconds / 1000)
        return str(milliseconds)

    wait.__name__ = wait.__qualname__ = f"wait_{milliseconds}"
    wait.__doc__ = f"Wait {milliseconds} ms."
    return wait


WAITING: list[Callable[..., Any]] = [wait_100, wait_200, wait_150]
BLOCKING: list[Callable[..., Any]] = [blocking(100), blocking(200), blocking(150)]

PARAMETERS: dict[str, Any] = {
    "add": {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first number."},
            "b": {"type": "integer", "description": "The second number."},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }
}
_NONE = {"type": "object", "properties": {}, "additionalProperties": False}


def described(functions: list[Callable[..., Any]]) -> list[dict[str, Any]]:
    """Return the tools as JSON, for a handwritten loop."""
    return [
        {
            "name": each.__name__,
            "description": (each.__doc__ or "").partition("\n")[0],
            "parameters": PARAMETERS.get(each.__name__, _NONE),
        }
        for each in functions
    ]


async def run_all(work: Work, requested: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Run calls, given by name and arguments: concurrently if there are several."""
    functions = {each.__name__: each for each in work.functions}
    if work.tools == "three blocking":
        return await asyncio.gather(
            *[asyncio.to_thread(functions[name], **given) for name, given in requested]
        )
    if len(requested) == 1:
        [(name, given)] = requested
        return [await functions[name](**given)]
    return await asyncio.gather(*[functions[name](**given) for name, given in requested])
