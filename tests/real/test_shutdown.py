"""`asyncio.run` ends and cancels all tasks while a run writes: each call has one stored result.

The moments are random; SHUTDOWN_SEED=… in the environment repeats a run that printed it.
"""

import asyncio
import importlib.util
import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from stage0_gateway import ChatResponse, Message, ToolCall
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)

pytestmark = pytest.mark.real
SHUTDOWNS, LATEST = 60, 0.15  # seconds after the first request
CALLS = 8
OPTIONS = ToolLoopOptions(dialect=NativeDialect(), max_tool_rounds=None)
SEED = int(os.environ.get("SHUTDOWN_SEED") or random.randrange(1_000_000))

_spec = importlib.util.spec_from_file_location(
    "locations", Path(__file__).with_name("locations.py")
)
locations = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(locations)


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(request, tmp_path):
    with locations.fresh_locations(request.param, tmp_path) as fresh:
        yield fresh


class Program:
    """A session whose model requests more tools until it is resumed."""

    def __init__(self, location):
        self.location, self.asked, self.acted, self.sent = location, asyncio.Event(), Counter(), []

    async def write(self, arguments, context):
        self.acted[context.call_id] += 1
        await asyncio.sleep(0.001 * int(context.call_id[-1]))
        return "done"

    async def ask_for_tools(self, messages, **settings):
        self.asked.set()
        ids = [f"{len(messages)}-{number}" for number in range(CALLS)]
        calls = [ToolCall(each, "write", json.dumps({"id": each})) for each in ids]
        return ChatResponse(Message.assistant("", calls), "tool_calls")

    async def answer(self, messages, **settings):
        return ChatResponse(Message.assistant("final"), "stop")

    async def run(self, engine, chat, question):
        tools = ToolRegistry(Tool("write", "", None, self.write))
        deps = ToolLoopDeps(chat, engine, OutputController(), tools)
        await run_tool_loop(deps, "s", question, OPTIONS, resume=question is None)

    async def main(self, seconds, cancelled):
        engine = ContextEngine(store=locations.store_at(self.location))
        await engine.create_session("s")
        running = asyncio.create_task(self.run(engine, self.ask_for_tools, "Go."))
        await self.asked.wait()
        await asyncio.sleep(seconds)
        if cancelled:  # asyncio.run cancels it again
            running.cancel()
            await asyncio.sleep(0)

    async def resume(self):
        async with ContextEngine(store=locations.store_at(self.location)) as engine:
            before = (await engine.history("s")).check_history()
            await self.run(engine, self.answer, None)
            return before, (await engine.history("s")).check_history()


def test_a_program_that_ends_while_it_writes_stores_one_result_per_call(fresh, say):
    chance, calls = random.Random(SEED), 0
    for number in range(SHUTDOWNS):
        program = Program(asyncio.run(fresh()))
        asyncio.run(program.main(chance.uniform(0, LATEST), cancelled=number % 2))
        assert asyncio.run(program.resume()) == ([], []), f"SHUTDOWN_SEED={SEED}"
        assert set(program.acted.values()) <= {1}
        calls += len(program.acted)
    say(f"SHUTDOWN_SEED={SEED}: {SHUTDOWNS} programs ended, {calls} calls were run once")
    assert calls > 10 * SHUTDOWNS
