"""Tests of programs that end during a run: `asyncio.run` cancels all tasks, including writes to a
store."""

import asyncio
import gc
from collections import Counter
from itertools import count

from stage0_gateway import ChatResponse, Message, ToolCall
from stage1_context import CallStartedRecord, ContextEngine, MemoryStore, MessageRecord, SqliteStore
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)
from tests.tables import for_each

ROUNDS, CALLS = 1, 3
OPTIONS = ToolLoopOptions(dialect=NativeDialect(), variables_over=500)
LONG = "x" * 600


class Suspending(MemoryStore):
    """A store in memory that suspends before and after each write, as a database does."""

    async def append(self, session_id, *records, expected=None):
        await asyncio.sleep(0)
        length = await super().append(session_id, *records, expected=expected)
        await asyncio.sleep(0)
        return length


class Signalling(SqliteStore):
    """A store in a file that sets an event when an append begins or ends."""

    def __init__(self, path, at):
        super().__init__(path)
        self.points, self.at, self.reached = count(), at, asyncio.Event()

    def point(self):
        if next(self.points) == self.at:
            self.reached.set()

    async def append(self, session_id, *records, expected=None):
        self.point()
        try:
            return await super().append(session_id, *records, expected=expected)
        finally:
            self.point()


class Program:
    """Runs of one session, and a record of their tool calls."""

    def __init__(self):
        self.acted, self.sent = Counter(), []
        self.registry = ToolRegistry(*(self.tool(number) for number in range(CALLS)))

    def tool(self, number):
        async def act(arguments, context):
            self.acted[context.call_id] += 1
            for _ in range(number):
                await asyncio.sleep(0)
            return LONG if number == 1 else "done"

        return Tool(f"t{number}", "", None, act)

    async def chat(self, messages, **settings):
        self.sent.append(messages)
        turn = sum(each.role == "assistant" for each in messages)
        if turn >= ROUNDS:
            return ChatResponse(Message.assistant("final"), "stop")
        calls = [ToolCall(f"c{turn}-{number}", f"t{number}", "{}") for number in range(CALLS)]
        return ChatResponse(Message.assistant("", calls), "tool_calls")

    async def run(self, store, question):
        deps = ToolLoopDeps(
            self.chat, ContextEngine(store=store), OutputController(), self.registry
        )
        await run_tool_loop(deps, "s", question, OPTIONS, resume=question is None)

    async def check(self, store):
        """Check that the history is valid after the program ends and after it is resumed."""
        engine = ContextEngine(store=store)
        before = await engine.history("s")
        assert before.check_history() == []
        await self.run(store, None)
        history = await engine.history("s")
        assert history.check_history() == []
        assert history.messages[: len(before)] == before.messages
        assert history.messages[-1].text == "final"
        assert set(self.acted.values()) <= {1}
        for each in history.by_role("tool"):
            if not each.is_error:
                assert self.acted[each.tool_call_id] == 1
            elif "may have happened" not in each.text:
                assert self.acted[each.tool_call_id] == 0


@for_each("cancelled_before", [None, 2])
def test_a_program_that_ends_at_any_step_leaves_one_result_for_each_call(cancelled_before):
    """With a number, the run is cancelled this many steps before all tasks are cancelled."""
    ended = False
    for steps in count(2):
        store, program = Suspending({"s": ()}), Program()

        async def main(steps=steps, store=store, program=program):
            running = asyncio.create_task(program.run(store, "Go."))
            for _ in range(steps):
                await asyncio.sleep(0)
            if running.done():
                return True
            if cancelled_before is not None:
                running.cancel()
                for _ in range(cancelled_before):
                    await asyncio.sleep(0)
            return False

        ended = asyncio.run(main())
        asyncio.run(program.check(store))
        if ended:
            break
    assert steps > 30
    gc.collect(1)


def test_a_program_that_ends_while_it_writes_to_a_file_leaves_one_result_for_each_call(tmp_path):
    for at in count(2):  # the question is written first
        program, path = Program(), tmp_path / f"{at}.db"

        async def main(at=at, program=program, path=path):
            store = Signalling(path, at)
            await store.create("s")
            running = asyncio.create_task(program.run(store, "Go."))
            reached = asyncio.create_task(store.reached.wait())
            await asyncio.wait({running, reached}, return_when="FIRST_COMPLETED")
            for _ in range(at % 3):
                await asyncio.sleep(0)
            return running.done()

        async def check(program=program, path=path):
            store = SqliteStore(path)
            await program.check(store)
            await store.aclose()

        ended = asyncio.run(main())
        asyncio.run(check())
        if ended:
            break
    assert at > 10
    gc.collect(1)


# ---- histories with two results for one call


def result(call_id, text):
    return MessageRecord(Message.tool(text, call_id))


def calling(*ids):
    return MessageRecord(Message.assistant("", [ToolCall(each, "t0", "{}") for each in ids]))


TWICE = [
    MessageRecord(Message.user("Go.")),
    calling("a", "b"),
    CallStartedRecord("a", "t0"),
    result("a", "first"),
    result("b", "other"),
    result("a", "second"),
]


@for_each("question", [None, "And now?"])
async def test_a_resumed_run_removes_duplicate_results(question):
    store, program = MemoryStore({"s": TWICE}), Program()
    engine = ContextEngine(store=store)
    assert (await engine.history("s")).check_history() == ["2 results for one call: a"]
    deps = ToolLoopDeps(program.chat, engine, OutputController(), program.registry)
    await run_tool_loop(deps, "s", question, OPTIONS, resume=True)
    history = await engine.history("s")
    assert history.check_history() == []
    assert [each.text for each in history.by_role("tool")][:2] == ["first", "other"]


async def test_a_request_omits_duplicate_results():
    store, program = MemoryStore({"s": TWICE}), Program()
    await program.run(store, "And now?")
    assert [each.text for each in program.sent[0]] == ["Go.", "", "first", "other", "And now?"]
    assert (await ContextEngine(store=store).history("s")).check_history() == [
        "2 results for one call: a"
    ]


async def test_a_duplicate_result_does_not_replace_a_missing_result():
    store, program = MemoryStore({"s": [*TWICE[:4], result("a", "second")]}), Program()
    await program.run(store, None)
    assert [each.text for each in program.sent[0]] == ["Go.", "", "first", "done"]
    assert program.acted["b"] == 1
    assert (await ContextEngine(store=store).history("s")).check_history() == []


async def test_the_repair_leaves_open_calls_of_another_run_open():
    store = MemoryStore({"s": [*TWICE, calling("c")]})
    transcript = ContextEngine(store=store).transcript("s")
    await transcript.repair_closed_exchanges()
    assert (await transcript.history()).check_history() == ["call without a result: c"]
