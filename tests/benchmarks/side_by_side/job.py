"""What every driver is given to do: the question, the tools, and how it is seen that they were
called.

A driver is a file in `drivers/`. It imports the library it drives, and nothing of this project but
this file (`ours.py`, of course, drives the project). Needs nothing but Python: it is imported in
the virtual environment of each peer.

    TITLE      what it is called in a report
    PACKAGES   the distributions whose versions a report names
    IMPORT     the statement that a user of the library begins with; its time and memory are
    measured asking     `asking(work)`: an asynchronous context manager that gives a function
    without arguments; awaited,
               it asks the question in a conversation of its own and returns the final text. The
               client and all that can be used again is made once, outside of it.
    SPEAKS     the dialects it can do `asking` in
    reading    (if it streams) `reading(url)`: a context manager as above; the function reads the
    whole stream and
               returns how many characters of text there were, and the arguments of the call
    snapshots  (if it shows arguments while they are written) the same, and after each piece of the
    arguments the
               value so far has been parsed; returns the last such value besides
    HIDDEN     (if there are any) installed packages that the driver must not find
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
"""Asks the question in a new conversation; returns what the model says at the end."""

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
        sys.modules[hidden] = None  # type: ignore[assignment]  # then an import fails, and `find_spec` is None
    return module


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done.

    Attributes:
        server: URL of the model server.
        dialect: How calls are written.
        rounds: How many rounds the model asks for before it answers.
        tools: "add"; or the three that wait 100, 200 and 150 ms, as coroutines or as plain
            functions.
    """

    server: str
    dialect: Dialect = "calls"
    rounds: int = 10
    tools: Literal["add", "three", "three blocking"] = "add"

    @property
    def base(self) -> str:
        """The base URL as SDKs want it: OpenAI's ends in /v1, Anthropic's does not."""
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
        """The tools."""
        return {"add": [add], "three": WAITING, "three blocking": BLOCKING}[self.tools]

    @property
    def model(self) -> str:
        """A name that SDKs know."""
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
    """The tool of the same name that keeps its thread busy."""

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
    """The tools as JSON, for who writes a loop by hand."""
    return [
        {
            "name": each.__name__,
            "description": (each.__doc__ or "").partition("\n")[0],
            "parameters": PARAMETERS.get(each.__name__, _NONE),
        }
        for each in functions
    ]


async def run_all(work: Work, asked: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Run calls by hand, given by name and arguments: all at once if there are several."""
    functions = {each.__name__: each for each in work.functions}
    if work.tools == "three blocking":
        return await asyncio.gather(
            *[asyncio.to_thread(functions[name], **given) for name, given in asked]
        )
    if len(asked) == 1:
        [(name, given)] = asked
        return [await functions[name](**given)]
    return await asyncio.gather(*[functions[name](**given) for name, given in asked])
