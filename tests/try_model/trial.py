"""Run one task with a model, and check its result against the task.

A task of `tasks.json` has these fields; the expectations are optional:

    name, kind, question, tools   what is asked, and the tools of `tools.py` that may be called
    calls          calls that must succeed, with some of their arguments
    attempted      tools that must be called, whatever the result
    forbidden      tools that must not run
    approve        whether a person approves calls that need approval; true by default
    reply          texts in the reply; "a|b" is one of them
    output_type    the JSON Schema of a typed answer
    output         its expected value
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stage0_gateway import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    Gateway,
    GatewayError,
)
from stage2_output import extract_json
from stage3_tools import (
    Dialect,
    FeedbackGiven,
    LoopEvent,
    NativeDialect,
    PromptDialect,
    Reject,
    RunLimits,
    ToolCallRecord,
    ToolLoopDeps,
    ToolLoopResult,
    run_tool_loop,
)
from tests.try_model.tools import TOOLS

SYSTEM_PROMPT = "You are a helpful assistant. Answer briefly."
DIALECTS: dict[str, type[Dialect]] = {"prompt": PromptDialect, "native": NativeDialect}
_UNUSABLE = (ConfigurationError, AuthenticationFailed, ConnectionFailed)
_WRITE = "whole_reply"
_CORRECTED = ("validation", "not_found")
_SECONDS = 120.0

Task = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trial:
    """One task in one dialect.

    Attributes:
        name: The name of the task.
        kind: Its kind.
        problem: Why it failed; None if it succeeded.
        feedback: The number of replies and calls that were answered with a correction.
        writes_with_text: The number of replies among them that contained a call of a write tool
            and other text, so the model was asked for the call alone.
        tool_rounds: The number of turns that ran a tool.
        tokens: The tokens of all requests and replies; None if the server did not count them.
        seconds: The time from the question to the reply.
    """

    name: str
    kind: str
    problem: str | None
    feedback: int = 0
    writes_with_text: int = 0
    tool_rounds: int = 0
    tokens: int | None = None
    seconds: float = 0.0


def read_tasks() -> list[Task]:
    """Return the tasks."""
    tasks: list[Task] = json.loads((Path(__file__).parent / "tasks.json").read_text("utf-8"))
    return tasks


async def try_task(gateway: Gateway, task: Task, dialect: str) -> Trial:
    """Ask the model, and check its result.

    Raises:
        GatewayError: The model cannot be used: the settings, the key or the address is wrong.
    """
    events: list[LoopEvent] = []
    started = time.perf_counter()
    deps = ToolLoopDeps(gateway, tool_registry=[TOOLS[name] for name in task["tools"]])
    session = await deps.context_engine.create_session(system_prompt=SYSTEM_PROMPT)
    try:
        result = await run_tool_loop(
            deps,
            session,
            task["question"],
            dialect=DIALECTS[dialect](),
            output_type=task.get("output_type"),
            approve=lambda request: (
                task.get("approve", True) or Reject("The person does not want this.")
            ),
            limits=RunLimits(seconds=_SECONDS),
            on_event=events.append,
        )
    except _UNUSABLE:
        raise
    except GatewayError as error:
        seconds = time.perf_counter() - started
        counted = count_feedback(events)
        return Trial(task["name"], task["kind"], f"{error}", *counted, seconds=seconds)
    errors = [each.result.error for each in result.history if each.result.error]
    feedback, writes_with_text = count_feedback(events)
    feedback += sum(error.kind in _CORRECTED for error in errors)
    counts = [result.usage.input_tokens, result.usage.output_tokens]
    return Trial(
        task["name"],
        task["kind"],
        find_problem(task, result),
        feedback,
        writes_with_text,
        result.tool_rounds,
        None if counts == [None, None] else sum(filter(None, counts)),
        time.perf_counter() - started,
    )


def count_feedback(events: Iterable[LoopEvent]) -> tuple[int, int]:
    """Count the replies with feedback, and those that called a write tool beside other text."""
    feedback = [event for event in events if isinstance(event, FeedbackGiven)]
    writes = [each for each in feedback if any(issue.rule == _WRITE for issue in each.issues)]
    return len(feedback), len(writes)


def find_problem(task: Task, result: ToolLoopResult) -> str | None:
    """Return the first expectation of a task that its result does not meet."""
    if result.status != "completed":
        return f"the run ended with {result.status}: {result.status_reason}"
    return _problem_of_calls(task, result) or _problem_of_reply(task, result)


def _problem_of_calls(task: Task, result: ToolLoopResult) -> str | None:
    succeeded = [each for each in result.history if not each.result.is_error]
    for call in task.get("calls", ()):
        if not any(_is_call(each, call) for each in succeeded):
            return f"{call['tool']}({json.dumps(call['arguments'])}) did not succeed"
    for name in task.get("attempted", ()):
        if not any(each.name == name for each in result.history):
            return f"{name} was not called"
    for name in task.get("forbidden", ()):
        if any(each.name == name for each in succeeded):
            return f"{name} was called"
    return None


def _problem_of_reply(task: Task, result: ToolLoopResult) -> str | None:
    reply = (result.reply or "").casefold()
    for texts in task.get("reply", ()):
        if not any(text.casefold() in reply for text in texts.split("|")):
            return f"the reply does not contain {texts}: {result.reply}"
    if "output" in task and result.output != task["output"]:
        return f"the answer is {json.dumps(result.output)}"
    return None


def _is_call(record: ToolCallRecord, expected: Mapping[str, Any]) -> bool:
    if record.name != expected["tool"]:
        return False
    arguments = extract_json(record.arguments).value
    return all(
        _is_value(arguments.get(name), value) for name, value in expected["arguments"].items()
    )


def _is_value(value: Any, expected: Any) -> bool:
    if isinstance(expected, str) and isinstance(value, str):
        return expected.casefold() in value.casefold()
    return bool(value == expected)
