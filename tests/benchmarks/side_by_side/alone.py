"""Tasks without a model server, in one process: validation, extraction, windowing.

    python tests/benchmarks/side_by_side/alone.py [rounds]

The variants of a task alternate, round by round, with a garbage collection before each and a warm-up
round. The figure is the median CPU time of all threads. Ratios to the task's base are computed in
each round; their median is shown. The result of each variant is checked before the measurement. A
library that is not installed is omitted.

    arguments … one valid, parsed call, with a compiled schema. Ours is `CompiledSchema.issues`, as
                a registry calls it. With `[fast]` it tries jsonschema-rs first, but only if the
                schema has no patterns.
    json in …   1 MB of JSON between words, or in a fence; `json.loads` gets the JSON alone.
                `parse_json_markdown` takes minutes for 1 MB, so it gets 10 kB. Between words
                without a fence it finds nothing.
    hostile …   1 MB of one bracket, which must be rejected with a message.
    window …    the messages to send of a session of this size, none of them new.
    turn …      the same after two more messages. `trim_messages` also gets a list in memory.
"""

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal
from unittest.mock import patch

import jsonschema
from alone_data import SCHEMA, VALUE, Event, Sessions, conversation, orders, trimming

from stage0_gateway import Message
from stage2_output import CompiledSchema, ExtractionError, OutputController, extract_json

Unit = Literal["us", "ms"]
_IN_A_SECOND: dict[Unit, float] = {"us": 1e6, "ms": 1e3}
_ROUNDS = 7
_CHECKS, _LOOKS, _TURNS = 300, 50, 10  # in one round
_MEGABYTE = 1_000_000
_OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@dataclass(frozen=True, slots=True)
class Row:
    """Cost of one variant of a task.

    Attributes:
        task: The name of the task.
        way: The name of the variant.
        unit: The unit of the figure.
        figure: The median CPU time of one repetition.
        ratio: The median ratio to the base of the task; None for the base itself, and without a base.
        runs: The number of rounds.
    """

    task: str
    way: str
    unit: Unit
    figure: float
    ratio: float | None
    runs: int


async def _nothing() -> None:
    """The empty preparation of most variants."""


@dataclass(frozen=True, slots=True)
class Way:
    """A variant of a task: `run` repeats it `times` times. `prepare` runs before each round and is
    not measured."""

    name: str
    run: Callable[[], Awaitable[object]]
    times: int = 1
    prepare: Callable[[], Awaitable[object]] = _nothing


@dataclass(frozen=True, slots=True)
class Task:
    """A task and its variants; they are compared with the one named `base`, if there is one."""

    name: str
    unit: Unit
    base: str
    ways: Sequence[Way]


def plain(name: str, function: Callable[[], object], times: int = 1) -> Way:
    """Return a variant that calls a plain function."""

    async def run() -> None:
        for _ in range(times):
            function()

    return Way(name, run, times)


def _must(right: bool, name: str) -> None:
    if not right:
        raise RuntimeError(f"{name}: not the expected answer")


# ---- one value, one text
# ---------------------------------------------------------------------------------


def arguments(which: str, schema: dict[str, Any]) -> Task:
    """Return the validation of a value."""
    checks: dict[str, Callable[[Any], object]] = {
        "llm-stages": _without_fast(schema).issues,
        "jsonschema": jsonschema.Draft202012Validator(schema).validate,
        "pydantic": Event.model_validate,
    }
    if find_spec("jsonschema_rs"):
        checks["llm-stages [fast]"] = CompiledSchema(schema).issues
        checks["jsonschema_rs"] = import_module("jsonschema_rs").validator_for(schema).validate
    if find_spec("fastjsonschema"):
        checks["fastjsonschema"] = import_module("fastjsonschema").compile(schema)
    wrong = VALUE | {"recurrence": {"frequency": "never"}}
    for name, check in checks.items():
        _must(not _refuses(check, VALUE) and _refuses(check, wrong), name)
    ways = [plain(name, partial(check, VALUE), _CHECKS) for name, check in checks.items()]
    return Task(f"arguments {which}", "us", "jsonschema", ways)


def _without_fast(schema: dict[str, Any]) -> CompiledSchema:
    """Return our schema as it is compiled without the extra `[fast]`."""
    with patch.dict(sys.modules, {"jsonschema_rs": None}):
        return CompiledSchema(schema)


def _without_patterns(schema: Any) -> Any:
    """Return a schema without its patterns."""
    if isinstance(schema, dict):
        return {name: _without_patterns(part) for name, part in schema.items() if name != "pattern"}
    return [*map(_without_patterns, schema)] if isinstance(schema, list) else schema


def _refuses(check: Callable[[Any], object], value: Any) -> bool:
    try:
        found = check(value)
    except Exception:  # each library has its own class
        return True
    return isinstance(found, tuple) and found != ()


def extraction() -> Iterator[Task]:
    """Return the extraction of JSON in two wrappings, and of a small text for slow libraries."""
    large, small = orders(_MEGABYTE), orders(10_000)
    slow = {}
    if find_spec("langchain_core"):
        name = "langchain_core parse_json_markdown (1 MB takes minutes)"
        slow[name] = import_module("langchain_core.utils.json").parse_json_markdown
    yield in_text("json in prose", large, "{}")
    yield in_text("json in a fence", large, "```json\n{}\n```")
    yield in_text("json in a fence, 10 kB", small, "```json\n{}\n```", **slow)


def in_text(task: str, text: str, wrapping: str, **slow: Callable[[str], object]) -> Task:
    """Return the extraction of a JSON text from the text of a model."""
    whole = f"Here are the orders:\n\n{wrapping.replace('{}', text)}\n\nTell me if you need more."
    readers = {"llm-stages": lambda given: extract_json(given).value, **slow}
    if find_spec("json_repair"):
        readers["json_repair"] = import_module("json_repair").loads
    for name, read in readers.items():
        _must(read(whole) == json.loads(text), name)
    ways = [plain(name, partial(read, whole)) for name, read in readers.items()]
    return Task(task, "ms", "json.loads", [plain("json.loads", partial(json.loads, text)), *ways])


def hostile(bracket: str) -> Task:
    """Return the rejection of brackets that are never closed."""
    text = bracket * _MEGABYTE
    validate = partial(OutputController().parse_and_validate, text, _OBJECT)
    _must(bool(validate().errors), "parse_and_validate")
    extract = plain("llm-stages extract_json", partial(refused, text))
    return Task(
        f"hostile {bracket}", "ms", "", [plain("llm-stages parse_and_validate", validate), extract]
    )


def refused(text: str) -> None:
    """Extract JSON from a text without JSON; any exception but the expected one ends the program."""
    with suppress(ExtractionError):
        _must(not extract_json(text), "extract_json")


# ---- windows
# --------------------------------------------------------------------------------------------


def windows(size: int) -> Iterator[Task]:
    """Return the windowing of a conversation of this size."""
    messages = conversation(size + 2)
    ways = {
        "window": [looking(messages[:size])],
        "turn": [turning(messages[:size], messages[size:])],
    }
    base = "langchain_core trim_messages"
    if find_spec("langchain_core"):
        times = _TURNS if size < 1000 else 1
        ways["window"].append(plain(base, trimming(messages[:size]), times))
        # Appending two messages to a list has no measurable cost.
        ways["turn"].append(plain(base, trimming(messages), times))
    for name, each in ways.items():
        yield Task(f"{name} {size}", "us", base, each)


def looking(messages: Sequence[Message]) -> Way:
    """Return our variant without new messages."""
    sessions = Sessions(messages)

    async def run() -> None:
        for _ in range(_LOOKS):
            await sessions.engine.messages_for_request(sessions.ids[0])

    return Way("llm-stages", run, _LOOKS, partial(sessions.renew, 1))


def turning(messages: Sequence[Message], more: Sequence[Message]) -> Way:
    """Return our variant of a turn; each has its own session, so that all have the same size."""
    sessions = Sessions(messages)

    async def run() -> None:
        for session in sessions.ids:
            for message in more:
                await sessions.engine.add_message(session, message)
            await sessions.engine.messages_for_request(session)

    return Way("llm-stages", run, _TURNS, partial(sessions.renew, _TURNS))


# ---- measurements
# ------------------------------------------------------------------------------------------


def tasks() -> Iterator[Task]:
    """Generate all tasks one by one, so that little is in memory at once."""
    yield arguments("with patterns", SCHEMA)
    yield arguments("without", _without_patterns(SCHEMA))
    yield from extraction()
    yield from map(hostile, "{[")
    for size in (10, 100, 1000, 10_000):
        yield from windows(size)


async def take_turns(task: Task, rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of one repetition of each variant in each round."""
    taken: dict[str, list[float]] = {way.name: [] for way in task.ways}
    for _ in range(rounds + 1):
        for way in task.ways:
            await way.prepare()
            gc.collect()
            begun = time.process_time()
            await way.run()
            taken[way.name].append((time.process_time() - begun) / way.times)
    return {name: seconds[1:] for name, seconds in taken.items()}


def rows(task: Task, taken: dict[str, list[float]]) -> Iterator[Row]:
    """Return the rows of a task."""
    base = taken.get(task.base)
    for name, seconds in taken.items():
        ratio = None
        if base and name != task.base:
            ratio = statistics.median(a / b for a, b in zip(seconds, base, strict=True))
        figure = statistics.median(seconds) * _IN_A_SECOND[task.unit]
        yield Row(task.name, name, task.unit, figure, ratio, len(seconds))


def measure(rounds: int) -> list[Row]:
    """Measure all variants of all tasks in this number of rounds."""

    async def every() -> list[Row]:
        return [row for task in tasks() for row in rows(task, await take_turns(task, rounds))]

    return asyncio.run(every())


def main(rounds: int) -> None:
    """Measure and print."""
    print(f"{'task':22}  {'way':55}  {'CPU, once':>14}  {'ratio':>8}  {'runs':>4}")
    for row in measure(rounds):
        ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
        print(
            f"{row.task:22}  {row.way:55}  {row.figure:11.2f} {row.unit}  {ratio:>8}  {row.runs:4}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS)
