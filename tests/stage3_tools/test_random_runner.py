"""Random use of a runner: nothing is lost, nothing runs twice, and the history stays valid."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

import httpx
from hypothesis import strategies as st

from stage0_gateway import Gateway, GatewayError, Message, MessageStream, ScriptedModel, ToolCall
from stage1_context import ContextEngine, MessageHistory, SqliteStore
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    RunnerParams,
    Tool,
    ToolError,
    ToolLoopDeps,
    ToolRegistry,
    ToolRunner,
)
from tests.random_values import random_examples
from tests.stage3_tools.tasks import run_and_check_tasks

EDITS = ["push", "push two", "set a value", "set by a function", "set badly", "rewrite"]
EARLY = ["early", "early twice", "early at once", "early, cancelled"]
READS = ["read", "read a part"]
LEAVES = ["break", "raise"]
KINDS = ["works", "works", "fails", "raises", "is slow"]


@dataclass(frozen=True)
class Setup:
    dialect: str
    mode: str
    streams: bool
    most: int | None
    raises: tuple[str, int]  # the name of the callback, and the number of its call


actions = st.lists(st.sampled_from(EDITS * 2 + EARLY * 2 + READS * 2 + LEAVES), max_size=3)
failures = st.sampled_from([None, None, None, 500, "dropped"])
rounds = st.tuples(failures, st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
setups = st.builds(
    Setup,
    st.sampled_from(["native", "prompt"]),
    st.sampled_from(["messages", "memory", "sqlite"]),
    st.booleans(),
    st.sampled_from([None, None, None, 0, 1, 2, 3]),
    st.tuples(st.sampled_from(["nothing", "iteration", "call", "result"]), st.integers(1, 3)),
)


class ConsumerLeft(Exception):
    """The exception that a consumer raises."""


class RandomUse:
    """A model, its tools, a runner and its consumer."""

    def __init__(self, setup, script, plans):
        self.setup, self.plans = setup, plans
        self.acted, self.notified, self.pushed, self.yielded = Counter(), Counter(), [], []
        self.over, self.left, self.items = False, False, 0
        store = SqliteStore(":memory:") if setup.mode == "sqlite" else None
        self.engine = ContextEngine(store=store)
        turns = enumerate(kinds for _, kinds in script)
        self.kinds = {
            f"{turn}-{place}": kind for turn, kinds in turns for place, kind in enumerate(kinds)
        }
        model = ScriptedModel([*self.replies(script), *[self.answer(n) for n in range(40)]])
        gateway = Gateway("openai:m", transport=model, max_retries=0)
        self.deps = ToolLoopDeps(
            gateway,
            self.engine,
            OutputController(),
            ToolRegistry(Tool("f", "", None, self.act, effect="write")),
            stream=setup.streams,
        )

    def replies(self, script):
        for turn, (failure, kinds) in enumerate(script):
            if failure is not None:
                yield httpx.ConnectError("dropped") if failure == "dropped" else failure
            asked = [{"x": f"{turn}-{place}"} for place in range(len(kinds))]
            if self.setup.dialect == "prompt":
                yield json.dumps([{"tool": "f", "arguments": each} for each in asked])
            else:
                calls = [
                    ToolCall(f"c{place}", "f", json.dumps(each)) for place, each in enumerate(asked)
                ]
                yield Message.assistant("", calls)

    def answer(self, n):
        return (
            json.dumps({"tool": None, "reply": f"done {n}"})
            if self.setup.dialect == "prompt"
            else f"done {n}"
        )

    async def act(self, arguments):
        self.acted[arguments["x"]] += 1
        kind = self.kinds[arguments["x"]]
        for _ in range(5 if kind == "is slow" else 0):
            await asyncio.sleep(0)
        if kind == "fails":
            raise ToolError("execution", "no")
        if kind == "raises":
            raise ValueError("no")
        return "ok"

    def notify(self, what):
        self.notified[what] += 1
        if self.setup.raises == (what, self.notified[what]):
            raise LookupError(what)

    async def begin(self):
        session = None if self.setup.mode == "messages" else await self.engine.create_session("s")
        dialect = (
            PromptDialect(multiple=True) if self.setup.dialect == "prompt" else NativeDialect()
        )
        self.runner = ToolRunner(
            self.deps,
            RunnerParams(messages=[Message.user("Go.")], session_id=session, dialect=dialect),
            max_iterations=self.setup.most,
            on_iteration=lambda number, response: self.notify("iteration"),
            on_tool_call=lambda call: self.notify("call"),
            on_tool_result=lambda result: self.notify("result"),
        )

    # ---- checks

    async def history(self):
        if self.setup.mode != "messages":
            return await self.engine.history("s")
        return MessageHistory(self.runner.params.messages)

    async def check(self):
        """Check everything that must hold at any time."""
        history = await self.history()
        assert history.check_history() == []
        stored_pushes = [each.text for each in history if each.text.startswith("pushed")]
        assert stored_pushes == self.pushed[: len(stored_pushes)]
        assert max(self.acted.values(), default=0) <= 1
        assert [
            each.text for each in self.runner.params.messages if each.text.startswith("pushed")
        ] == self.pushed
        return stored_pushes

    async def check_end(self):
        stored_pushes = await self.check()
        history = await self.history()
        stored_replies = [self.content_of(each) for each in history if each.role == "assistant"]
        expected = [each for each in self.yielded[: None if self.over else -1] if each is not None]
        left = iter(stored_replies)
        assert all(any(each == other for other in left) for each in expected), (
            expected,
            stored_replies,
        )
        assert len(stored_replies) == len({*stored_replies})  # no reply is stored twice
        if self.over and self.setup.most != 0:
            assert stored_pushes == self.pushed
            assert self.content_of((await self.runner.done()).message) == stored_replies[-1]
            assert self.items == self.runner.iteration_count

    def content_of(self, message):
        """Return what distinguishes a reply from the others."""
        return message.text or tuple(json.loads(each.arguments)["x"] for each in message.tool_calls)

    # ---- actions

    async def do(self, action, item):
        if action in EARLY:
            with suppress(LookupError):  # an exception of a callback does not end the iteration
                await self.early(action)
        elif action in READS and isinstance(item, MessageStream):
            if action == "read":
                await item.final_message()
            else:
                await anext(item.events(), None)
        elif action in LEAVES:
            self.left = True
            raise ConsumerLeft
        else:
            self.edit(action)
        await self.check()

    async def early(self, action):
        first = asyncio.create_task(self.runner.generate_tool_response())
        if action == "early, cancelled":
            for _ in range(4):
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait({first})
            if not first.cancelled() and first.exception() is not None:
                raise first.exception()
            return
        if action == "early at once":
            second = asyncio.create_task(self.runner.generate_tool_response())
            await asyncio.wait({first, second})
            second.exception()
        messages = await first
        if action != "early":
            assert await self.runner.generate_tool_response() == messages

    def edit(self, action):
        runner = self.runner
        if action.startswith("push"):
            new = [
                f"pushed {len(self.pushed) + place}" for place in range(1 + (action == "push two"))
            ]
            runner.push_messages(*map(Message.user, new))
            self.pushed += new
        elif action == "set a value":
            runner.set_params(replace(runner.params, temperature=0.5))
        elif action == "set by a function":
            runner.set_params(lambda now: replace(now, max_parallel_tools=1))
        elif action == "set badly":
            with suppress(ZeroDivisionError):
                runner.set_params(lambda now: 1 / 0)
        elif action == "rewrite" and self.setup.mode == "messages":
            runner.set_params(
                lambda now: replace(now, messages=[Message.user("first"), *now.messages])
            )

    async def iterate(self):
        """Iterate, also after each failure, until the run ends or the consumer leaves."""
        while not self.over and not self.left:
            with suppress(GatewayError, LookupError, ConsumerLeft):
                async for item in self.runner:
                    await self.use(item)
                self.over = True
            await self.check()

    async def use(self, item):
        self.items = self.runner.iteration_count
        self.yielded.append(
            None if isinstance(item, MessageStream) else self.content_of(item.message)
        )
        await self.check()
        for action in self.plans.pop(0) if self.plans else ():
            await self.do(action, item)

    async def run(self, before):
        await self.begin()
        with suppress(ConsumerLeft, LookupError):
            for action in before:
                await self.do(action, None)
        async with asyncio.timeout(10):
            await self.iterate()
        await self.check_end()
        await self.engine.aclose()


@random_examples(
    40, 400, setups, st.lists(rounds, max_size=4), actions, st.lists(actions, max_size=6)
)
def test_random_use_of_a_runner_loses_nothing_and_runs_nothing_twice(setup, script, before, plans):
    run_and_check_tasks(RandomUse(setup, script, plans).run(before))
