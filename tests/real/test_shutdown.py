"""`asyncio.run` ends and cancels all tasks while a run writes: each call has one stored result.

The moments are random; SHUTDOWN_SEED=… in the environment repeats a run that printed it.
"""

import asyncio
import json
import os
import random
from collections import Counter

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
from tests.real.locations import store_at

pytestmark = pytest.mark.real
SHUTDOWNS = 60
CALLS = 8  # in each reply
MOST_CALLS, LATEST = 30, 0.005  # a program ends after a number of calls, and these seconds
OPTIONS = ToolLoopOptions(dialect=NativeDialect(), max_tool_rounds=None)
SEED = int(os.environ.get("SHUTDOWN_SEED") or random.randrange(1_000_000))


class Program:
    """A session whose model requests more tools until it is resumed.

    Args:
        location: The location of the session.
        session: The id of the session.
        number_of_calls: The number of calls after which `main` ends.
    """

    def __init__(self, location, session, number_of_calls):
        self.location, self.session, self.executed = location, session, Counter()
        self._number_of_calls, self._is_reached = number_of_calls, asyncio.Event()

    async def write(self, arguments, context):
        self.executed[context.call_id] += 1
        if len(self.executed) >= self._number_of_calls:
            self._is_reached.set()
        await asyncio.sleep(0.001 * int(context.call_id[-1]))
        return "done"

    async def ask_for_tools(self, messages, **settings):
        ids = [f"{len(messages)}-{number}" for number in range(CALLS)]
        calls = [ToolCall(each, "write", json.dumps({"id": each})) for each in ids]
        return ChatResponse(Message.assistant("", calls), "tool_calls")

    async def answer(self, messages, **settings):
        return ChatResponse(Message.assistant("final"), "stop")

    async def run(self, engine, chat, question):
        tools = ToolRegistry(Tool("write", "", None, self.write))
        deps = ToolLoopDeps(chat, engine, OutputController(), tools)
        await run_tool_loop(deps, self.session, question, OPTIONS, resume=question is None)

    async def main(self, seconds, cancelled):
        engine = ContextEngine(store=store_at(self.location))
        await engine.create_session(self.session)
        running = asyncio.create_task(self.run(engine, self.ask_for_tools, "Go."))
        await self._is_reached.wait()
        await asyncio.sleep(seconds)
        if cancelled:  # asyncio.run cancels it again
            running.cancel()
            await asyncio.sleep(0)

    async def resume(self):
        async with ContextEngine(store=store_at(self.location)) as engine:
            before = (await engine.history(self.session)).check_history()
            await self.run(engine, self.answer, None)
            return before, (await engine.history(self.session)).check_history()


def test_a_program_that_ends_while_it_writes_stores_one_result_per_call(fresh, say):
    chance, calls, location = random.Random(SEED), 0, asyncio.run(fresh())
    for number in range(SHUTDOWNS):
        program = Program(location, f"session {number}", chance.randint(1, MOST_CALLS))
        asyncio.run(program.main(chance.uniform(0, LATEST), cancelled=number % 2))
        assert asyncio.run(program.resume()) == ([], []), f"SHUTDOWN_SEED={SEED}"
        assert set(program.executed.values()) <= {1}
        calls += len(program.executed)
    say(f"SHUTDOWN_SEED={SEED}: {SHUTDOWNS} programs ended, {calls} calls were run once")
