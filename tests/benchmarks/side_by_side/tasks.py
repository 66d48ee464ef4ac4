"""The tasks that are measured with a model server, as a table.

They are run by `worker.py` and `pairs.py`, and shown by `report.py`.
"""

from dataclasses import dataclass, field
from typing import Any

DIALECTS = {
    "decisions": "prompt dialect",
    "calls": "tool calls",
    "messages": "Anthropic's tool calls",
}
"""The dialects of `job.py`, and their titles in a report."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task for every driver that supports it.

    Attributes:
        name: The name in the results.
        title: The name in a report.
        way: The function of `worker.py`.
        needs: The feature a driver must have, with the names of `job.py`.
        given: The arguments of the function, besides the server.
        quick: The number of measurements in a run of two minutes.
    """

    name: str
    title: str
    way: str
    needs: str
    given: dict[str, Any] = field(default_factory=dict)
    quick: int = 9


def _loop(dialect: str, rounds: int, times: int) -> Task:
    given = {"dialect": dialect, "rounds": rounds, "times": times}
    return Task(
        f"{dialect} {rounds}",
        f"{DIALECTS[dialect]}, {rounds} round{'s' if rounds > 1 else ''}",
        "loop",
        dialect,
        given,
    )


def _at_once(loops: int, rounds: int, quick: int) -> Task:
    given = {"loops": loops, "rounds": rounds}
    return Task(
        f"at once {loops}", f"{loops} loops at once", "at_once", "shared client", given, quick
    )


TASKS = (
    _loop("calls", 1, 20),
    _loop("calls", 10, 5),
    _loop("calls", 50, 2),
    _loop("decisions", 10, 5),
    _loop("decisions", 50, 2),
    _loop("messages", 10, 5),
    _at_once(32, 10, 5),
    _at_once(256, 3, 3),
    Task(
        "three",
        "three tools at once, coroutines",
        "three",
        "shared client",
        {"tools": "three"},
        5,
    ),
    Task(
        "three blocking",
        "three tools at once, plain functions",
        "three",
        "shared client",
        {"tools": "three blocking"},
        5,
    ),
    Task("stream", "a stream of 10,000 pieces", "stream", "reading", {"pieces": 10000}, 5),
    Task(
        "snapshots 500",
        "arguments parsed after each of 500 pieces",
        "snapshots",
        "snapshots",
        {"pieces": 500},
        5,
    ),
    Task("snapshots 2000", "after each of 2,000", "snapshots", "snapshots", {"pieces": 2000}, 3),
    Task("snapshots 10000", "after each of 10,000", "snapshots", "snapshots", {"pieces": 10000}, 3),
)
