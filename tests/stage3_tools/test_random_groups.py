"""Random tools in random groups, cancelled at random times: each call has one result, and no task
is left."""

import asyncio
import gc
import threading
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stage0_gateway import ToolCall
from stage3_tools import ExecutionSettings, Tool, ToolError, ToolRegistry
from stage3_tools.execution.results import MAY_HAVE_HAPPENED
from stage3_tools.execution.several_calls import PendingCall, cancel, groups, run_group
from stage3_tools.tool import Effect

RETURNS = ("at once", "steps", "waits", "thread", "ignores its cancellation")
FAILS = ("fails", "fails late", "hangs", "cancels itself", "exits", "thread fails")
NEVER_RUNS = ("unknown", "does not fit", "no approver")


@dataclass(frozen=True)
class Plan:
    """One call, and the behavior of its tool."""

    kind: str
    effect: Effect
    exclusive: bool


plans = st.builds(
    Plan,
    st.sampled_from(
        [
            *RETURNS * 2,
            "ignores its cancellation",
            *FAILS,
            "names its failure",
            "flaky",
            *NEVER_RUNS,
        ]
    ),
    st.sampled_from(["read", "idempotent", "write"]),
    st.sampled_from([False, False, False, True]),
)


class Tools:
    """The tools of these calls, and a record of their runs."""

    def __init__(self, plans):
        self.plans = plans
        self.acted = Counter()
        self.returned = set()
        self.running = set()
        self.most = 0
        self.wrong = []
        self.gates = {
            place: asyncio.Event() for place, plan in enumerate(plans) if plan.kind == "waits"
        }
        self.open = threading.Event()  # releases the threads
        self.threads = []
        self.stopping = False

    def tool(self, place, plan):
        def enter():
            if self.stopping:
                self.wrong.append(f"{place} began after the end")
            if self.running and (
                plan.exclusive or any(self.plans[each].exclusive for each in self.running)
            ):
                self.wrong.append(f"{place} runs beside {self.running}")
            self.running.add(place)
            self.most = max(self.most, len(self.running))
            self.acted[place] += 1

        async def run(arguments):
            enter()
            try:
                await self.act(place, plan.kind)
            finally:
                self.running.discard(place)
            self.returned.add(place)
            return f"result {place}"

        def run_in_thread(arguments):
            self.acted[place] += 1
            ended = threading.Event()
            self.threads.append(ended)
            try:
                self.open.wait(30)
                if plan.kind == "thread fails":
                    raise ValueError("no")
                self.returned.add(place)
                return f"result {place}"
            finally:
                ended.set()

        schema = {"type": "object", "required": ["x"]} if plan.kind == "does not fit" else None
        settings = {"effect": plan.effect, "exclusive": plan.exclusive}
        settings["needs_approval"] = plan.kind == "no approver"
        settings["timeout"] = 0.001 if plan.kind == "hangs" else None
        return Tool(
            f"t{place}",
            "",
            schema,
            run_in_thread if plan.kind.startswith("thread") else run,
            **settings,
        )

    async def act(self, place, kind):
        await self.wait(place, kind)
        failures = {
            "flaky": ConnectionError("away") if self.acted[place] < 3 else None,
            "names its failure": ToolError("execution", "named"),
            "cancels itself": asyncio.CancelledError(),
            "exits": SystemExit(3),
            "fails": ValueError("no"),
            "fails late": ValueError("no"),
        }
        if failure := failures.get(kind):
            raise failure

    async def wait(self, place, kind):
        if kind == "waits":
            await self.gates[place].wait()
        elif kind == "hangs":
            await asyncio.Event().wait()
        elif kind == "ignores its cancellation":
            with suppress(asyncio.CancelledError):
                await self.sleep(20)
            await self.sleep(20)
        elif kind in ("steps", "fails late"):
            await self.sleep(place + 2)

    async def sleep(self, iterations):
        for _ in range(iterations):
            await asyncio.sleep(0)


class PendingCalls(RuleBasedStateMachine):
    """Running calls, while gates open, time passes, and the waiting task is cancelled."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.reported = []
        self.loop.set_exception_handler(lambda loop, context: self.reported.append(context))
        self.tools = None
        self.cancelled = False

    @initialize(plans=st.lists(plans, min_size=1, max_size=7), parallel=st.integers(1, 4))
    def begin(self, plans, parallel):
        self.plans, self.parallel = plans, parallel
        self.ended, self.results = [], None
        self.loop.run_until_complete(self.set_up())

    async def set_up(self):
        self.tools = Tools(self.plans)
        registered = [
            self.tools.tool(place, plan)
            for place, plan in enumerate(self.plans)
            if plan.kind != "unknown"
        ]
        self.calls = [ToolCall(f"c{place}", f"t{place}", "{}") for place in range(len(self.plans))]
        registry, settings = ToolRegistry(*registered), ExecutionSettings()
        self.pending = [PendingCall(call, registry, settings) for call in self.calls]
        self.task = asyncio.create_task(self.run())

    async def run(self):
        try:
            for one in self.pending:
                await one.prepare()
            for group in groups(self.pending):
                running = run_group(group, self.parallel)
                async with aclosing(running) as ended:
                    async for one in ended:
                        await asyncio.sleep(0)  # as a store does
                        self.ended.append(one.call.id)
            self.results = [await one.review() for one in self.pending]
        except BaseException:
            self.tools.stopping = True
            await cancel(self.pending)
            self.results = [one.interrupt() for one in self.pending]
            raise

    def tick(self, times):
        self.loop.run_until_complete(self.tools.sleep(times))

    @rule(times=st.integers(1, 6))
    def time_passes(self, times):
        self.tick(times)

    @precondition(lambda self: self.tools.gates)
    @rule(data=st.data())
    def a_gate_opens(self, data):
        self.tools.gates[data.draw(st.sampled_from(sorted(self.tools.gates)))].set()
        self.tick(1)

    @rule()
    def threads_continue(self):
        self.tools.open.set()
        self.tick(1)

    @precondition(lambda self: not self.cancelled)
    @rule(again=st.booleans())
    def the_waiting_task_is_cancelled(self, again):
        self.cancelled |= self.task.cancel()
        self.tick(1)
        if again and all(plan.kind != "ignores its cancellation" for plan in self.plans):
            self.task.cancel()  # a second cancellation does not wait for tools that ignore it

    @invariant()
    def each_call_ends_once_and_tools_keep_their_limits_and_end_with_the_group(self):
        if self.tools is None:
            return
        assert len({*self.ended}) == len(self.ended)
        assert not (self.task.done() and asyncio.all_tasks(self.loop))
        assert self.tools.wrong == []
        assert self.tools.most <= self.parallel
        assert all(
            self.tools.acted[place] <= 1
            for place, plan in enumerate(self.plans)
            if plan.effect == "write"
        )

    def teardown(self):
        try:
            if self.tools is not None:
                for gate in [*self.tools.gates.values(), self.tools.open]:
                    gate.set()
                self.loop.run_until_complete(asyncio.wait({self.task}, timeout=10))
                self.tick(1)
                self.check()
        finally:
            self.loop.close()

    def check(self):
        assert self.task.done()
        assert asyncio.all_tasks(self.loop) == set()
        assert all(ended.wait(30) for ended in self.tools.threads)
        if not self.task.cancelled():
            assert self.task.exception() is None
        else:
            assert self.cancelled
        assert [each.call_id for each in self.results] == [call.id for call in self.calls]
        for place, result in enumerate(self.results):
            self.check_result(place, self.plans[place], result, self.calls[place].id in self.ended)
        self.task = self.pending = None
        gc.collect(1)
        assert self.reported == []

    def check_result(self, place, plan, result, ended):
        acted, returned = self.tools.acted[place], place in self.tools.returned
        assert (result.status == "unknown_effect") == (MAY_HAVE_HAPPENED in result.output)
        if result.status == "completed":
            assert (returned, result.output) == (True, f"result {place}")
        elif plan.kind in NEVER_RUNS or not (acted or plan.kind.startswith("thread")):
            assert acted == 0
            assert result.status in ("error", "rejected", "interrupted")
            assert not returned
        elif plan.effect == "write" and plan.kind != "names its failure":
            assert result.status == "unknown_effect" or not acted
        elif plan.effect != "write" and plan.kind in RETURNS:
            assert result.status == "interrupted"
        else:
            assert result.status in ("error", "interrupted", "unknown_effect")
            assert (result.status != "unknown_effect") or plan.effect == "write"
        if ended and plan.kind in RETURNS:
            assert result.status == "completed"  # independent of the other calls


class TestPendingCalls(PendingCalls.TestCase):
    settings = settings(max_examples=40, stateful_step_count=12)


@pytest.mark.long
class TestManyPendingCalls(PendingCalls.TestCase):
    settings = settings(max_examples=400, stateful_step_count=12)
