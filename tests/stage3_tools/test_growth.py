"""The cost of a turn must not grow with the history, and the cost of a call not with the number of
calls. It is measured in function calls, which do not depend on the machine."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
    tool,
)
from tests.tables import for_each

ROUNDS = 50
STAGES = tuple(str(path) for path in Path(__file__).parents[2].glob("stage*"))


def reply(number, native):
    """Return the nth reply: a call, or the answer at the end."""
    given = {"number": number}
    text, calls = json.dumps({"tool": "count", "arguments": given}), []
    if native and number < ROUNDS:
        function = {"name": "count", "arguments": json.dumps(given)}
        text, calls = None, [{"id": f"call_{number}", "type": "function", "function": function}]
    elif number == ROUNDS:
        text = "done" if native else '{"tool": null, "reply": "done"}'
    message = {"role": "assistant", "content": text, "tool_calls": calls}
    reason = "tool_calls" if calls else "stop"
    return httpx.Response(
        200, json={"choices": [{"message": message, "finish_reason": reason}], "usage": {}}
    )


@for_each("dialect, most", [(NativeDialect(), 1.1), (PromptDialect(), 1.27)])
async def test_the_fiftieth_turn_costs_hardly_more_function_calls_than_the_fifth(dialect, most):
    asked, steps, seen = 0, 0, []

    def answer(request):
        nonlocal asked
        asked += 1
        return reply(asked - 1, isinstance(dialect, NativeDialect))

    @tool
    async def count(number: int) -> str:
        """Count."""
        seen.append(steps)
        return f"{number} " + "and so on " * 20

    def step(frame, event, _):
        nonlocal steps
        steps += event == "call" and frame.f_code.co_filename.startswith(STAGES)

    async with Gateway("openai:m", api_key="k", transport=httpx.MockTransport(answer)) as gateway:
        context = ContextEngine()
        deps = ToolLoopDeps(gateway, context, OutputController(), ToolRegistry(count))
        session_id = await context.create_session(system_prompt="Count.")
        sys.setprofile(step)
        try:
            options = ToolLoopOptions(max_tool_rounds=ROUNDS, dialect=dialect)
            result = await run_tool_loop(deps, session_id, "Count to fifty.", options)
        finally:
            sys.setprofile(None)
    assert (result.reply, result.tool_rounds) == ("done", ROUNDS)
    turns = [after - before for before, after in pairwise(seen)]
    assert sum(turns[-5:]) <= most * sum(turns[2:7])


@pytest.mark.parametrize("number", [300, pytest.param(1_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("parallel", [1, 8])
async def test_each_of_many_calls_of_a_reply_costs_the_same_number_of_function_calls(
    parallel, number
):
    few, many = [await steps_of_calls(each, parallel) for each in (100, number)]
    assert many / number <= 1.05 * few / 100


async def steps_of_calls(number, parallel):
    """Count the function calls of a run whose first reply contains this number of calls."""
    steps = 0

    @tool
    async def count(number: int) -> str:
        """Count."""
        return "counted"

    def step(frame, event, _):
        nonlocal steps
        steps += event == "call" and frame.f_code.co_filename.startswith(STAGES)

    calls = [ToolCall(f"c{each}", "count", json.dumps({"number": each})) for each in range(number)]
    model = ScriptedModel([Message.assistant("", calls), "done"])
    async with Gateway("openai:m", api_key="k", transport=model) as gateway:
        deps = ToolLoopDeps(gateway, tool_registry=[count])
        session_id = await deps.context_engine.create_session()
        sys.setprofile(step)
        try:
            result = await run_tool_loop(
                deps, session_id, "Go.", dialect=NativeDialect(), max_parallel_tools=parallel
            )
        finally:
            sys.setprofile(None)
    assert [each.result.status for each in result.history] == ["completed"] * number
    return steps
