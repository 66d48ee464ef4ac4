"""Random runs, stopped at random times in random ways: the history stays valid, and a run can be
resumed."""

import asyncio
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from stage0_gateway import ChatResponse, Message, ToolCall
from stage1_context import ContextEngine, MemoryStore, SqliteStore
from stage2_output import OutputController
from stage3_tools import (
    ResultCache,
    RunLimits,
    Tool,
    ToolError,
    ToolLoopDeps,
    ToolRegistry,
    run_tool_loop,
)
from stage3_tools.execution.approval import Always, Edit, Later, Reject
from stage3_tools.execution.results import MAY_HAVE_HAPPENED
from stage3_tools.options import ToolLoopOptions
from tests.random_values import random_examples
from tests.stage3_tools.conversation import Native
from tests.stage3_tools.tasks import run_and_check_tasks

KINDS = [
    "at once",
    "steps",
    "thread",
    "fails",
    "hangs",
    "flaky",
    "cancels itself",
    "exits",
    "thread fails",
]
KINDS += ["names its failure", "ignores its cancellation", "unknown", "does not fit"]
STOPPING = ["sets abort", "cancels the run"]
DECISIONS = [True] * 6 + ["always", "edit", "edit badly", "reject", "later", "slowly", "raises"]
STOPS = ["nothing"] * 3 + ["cancel", "cancel twice", "abort", "limit"]
STOPS += ["listener", "store", "approver", "reviewer"]


@dataclass(frozen=True)
class Plan:
    kind: str
    effect: str
    exclusive: bool
    decision: object  # the answer of the approver …
    review: object  # … and of the reviewer of its result


@dataclass(frozen=True)
class Stop:
    how: str
    after: int  # number of event loop iterations, events, writes or approvals
    then: int


plans = st.builds(
    Plan,
    st.sampled_from(KINDS[:3] * 3 + KINDS + STOPPING),
    st.sampled_from(["read", "idempotent", "write"]),
    st.sampled_from([False, False, True]),
    st.sampled_from(DECISIONS),
    st.sampled_from([True, True, True, "reject"]),
)
scripts = st.lists(st.lists(plans, min_size=1, max_size=5), min_size=1, max_size=3)
stops = st.builds(Stop, st.sampled_from(STOPS), st.integers(0, 40), st.integers(0, 5))
choices_of_runs = st.fixed_dictionaries(
    {
        "parallel": st.integers(1, 3),
        "approves": st.booleans(),
        "reviews": st.booleans(),
        "caches": st.booleans(),
    }
)


class Store(MemoryStore):
    def __init__(self, slow, fails_at):
        super().__init__()
        self.slow, self.fails_at, self.writes = slow, fails_at, 0

    async def append(self, session_id, *records, expected=None):
        self.writes += 1
        for _ in range(self.slow):
            await asyncio.sleep(0)
        if self.writes == self.fails_at:
            raise OSError("disk")
        return await super().append(session_id, *records, expected=expected)


class Tools:
    """The tools of all runs of one session, and a record of their calls."""

    def __init__(self, script, choices):
        self.script, self.choices, self.turn = script, choices, 0
        self.acted, self.wrong, self.running, self.most = Counter(), [], set(), 0
        self.abort, self.task, self.cancelled, self.reviewed = asyncio.Event(), None, False, set()
        self.plans = {
            f"t{turn}-{place}": plan
            for turn, plans in enumerate(script)
            for place, plan in enumerate(plans)
        }
        known = [
            self.tool(name, plan) for name, plan in self.plans.items() if plan.kind != "unknown"
        ]
        self.registry = ToolRegistry(*known)
        stopping = {*STOPPING, *(["raises"] if choices["approves"] else [])}
        self.stops_itself = any(
            {each.kind, each.decision} & stopping for each in self.plans.values()
        )

    def tool(self, name, plan):
        async def execute(arguments):
            self.acted[name] += 1
            self.running.add(name)
            self.most = max(self.most, len(self.running))
            if len(self.running) > 1 and any(self.plans[each].exclusive for each in self.running):
                self.wrong.append(f"{name} runs beside {self.running}")
            try:
                await self.act(name, plan.kind)
            finally:
                self.running.discard(name)
            return name

        def plain(arguments):
            self.acted[name] += 1
            if plan.kind == "thread fails":
                raise ValueError("no")
            return name

        schema = {"required": ["x"]} if plan.kind == "does not fit" else None
        rest = {
            "effect": plan.effect,
            "exclusive": plan.exclusive,
            "needs_approval": plan.decision == "later",
        }
        rest["timeout"] = 0.001 if plan.kind == "hangs" else None
        return Tool(name, "", schema, plain if plan.kind.startswith("thread") else execute, **rest)

    async def act(self, name, kind):
        if kind == "hangs":
            await asyncio.Event().wait()
        if kind == "sets abort":
            self.abort.set()
        if kind == "cancels the run" and self.task:
            self.cancelled |= self.task.cancel()
        with (
            suppress(asyncio.CancelledError)
            if kind == "ignores its cancellation"
            else nullcontext()
        ):
            for _ in range(0 if kind == "at once" else int(name[-1]) + 1):
                await asyncio.sleep(0)
        for _ in range(9 if kind == "ignores its cancellation" else 0):
            await asyncio.sleep(0)
        failures = {
            "fails": ValueError("no"),
            "names its failure": ToolError("execution", "named"),
            "cancels itself": asyncio.CancelledError(),
            "exits": SystemExit(3),
            "flaky": ConnectionError("away") if self.acted[name] < 3 else None,
        }
        if failure := failures.get(kind):
            raise failure

    async def chat(self, messages, **settings):
        await asyncio.sleep(0)
        if self.turn == len(self.script):
            return ChatResponse(message=Message.assistant("done"), finish_reason="stop")
        calls = [
            ToolCall(f"c{place % 3}", f"t{self.turn}-{place}", "{}")  # some ids are repeated
            for place in range(len(self.script[self.turn]))
        ]
        self.turn += 1
        return ChatResponse(
            message=Message.assistant("", tool_calls=calls), finish_reason="tool_calls"
        )

    def options(self, stop=None):
        """Return the options of a run; without `stop`, those of a resumed run that approves every
        call."""
        callbacks, first, choices = Callbacks(self, stop), stop is not None, self.choices
        return ToolLoopOptions(
            dialect=Native(),
            max_parallel_tools=choices["parallel"],
            approve=callbacks.approve if choices["approves"] or not first else None,
            approve_all=True,
            approve_result=callbacks.review if choices["reviews"] else None,
            cache=ResultCache() if choices["caches"] else None,
            abort=self.abort if first else None,
            limits=RunLimits(seconds=0.001) if first and stop.how == "limit" else None,
            on_event=lambda event: callbacks.count("listener"),
        )


class Callbacks:
    """The approver, reviewer and listener; raises LookupError at the planned call."""

    def __init__(self, tools, stop):
        self.tools, self.stop, self.asked = tools, stop, Counter()

    def count(self, what):
        self.asked[what] += 1
        if (
            self.stop is not None
            and self.stop.how == what
            and self.asked[what] == self.stop.after + 1
        ):
            raise LookupError(what)

    async def approve(self, request):
        self.count("approver")
        decision, turn = self.tools.plans[request.tool].decision, request.tool.split("-")[0]
        begun = [name for name in self.tools.acted if name.startswith(f"{turn}-")]
        if self.stop is None:
            return Edit({2: 1}) if decision == "edit badly" else True
        if begun:
            self.tools.wrong.append(f"{begun} before {request.tool} was decided")
        if decision == "raises":
            raise LookupError("approver")
        if decision == "slowly":
            await asyncio.sleep(0)
        answers = {"later": Later(), "always": Always(), "reject": Reject("no")}
        answers |= {"edit": Edit({"x": 1}), "edit badly": Edit({2: 1})}
        return answers.get(decision, True)

    def review(self, request):
        self.count("reviewer")
        self.tools.reviewed.add(request.tool)
        return Reject("no") if self.tools.plans[request.tool].review == "reject" else True


async def stopped_run(tools, engine, stop):
    deps = ToolLoopDeps(tools.chat, engine, OutputController(), tools.registry)
    tools.task = asyncio.create_task(run_tool_loop(deps, "s", "Go.", tools.options(stop)))
    times = {"cancel": [stop.after], "cancel twice": [stop.after, stop.then], "abort": [stop.after]}
    for iterations in times.get(stop.how, ()):
        for _ in range(iterations):
            await asyncio.sleep(0)
        if stop.how == "abort":
            tools.abort.set()
        else:
            tools.cancelled |= tools.task.cancel()
    await asyncio.wait({tools.task}, timeout=10)
    assert tools.task.done()
    if not tools.task.cancelled() and (error := tools.task.exception()):
        assert isinstance(error, LookupError | OSError), repr(error)
        return "raised"
    # The task is cancelled exactly if it was cancelled from outside.
    assert tools.task.cancelled() == tools.cancelled
    if tools.cancelled:
        return "cancelled"
    return tools.task.result().status


def check(history, tools):
    """Check that each call has one result, in order, with a correct status."""
    assert history.check_history() == []
    for index, message in enumerate(history):
        results = history.range(index + 1, index + 1 + len(message.tool_calls))
        assert [each.tool_call_id for each in results] == [call.id for call in message.tool_calls]
        for call, result in zip(message.tool_calls, results, strict=True):
            check_result(tools.plans[call.name], tools.acted[call.name], result)
            assert result.is_error or call.name in tools.reviewed or not tools.choices["reviews"]
    assert tools.wrong == []
    assert tools.most <= tools.choices["parallel"]
    assert all(
        tools.acted[name] <= 1 for name, plan in tools.plans.items() if plan.effect == "write"
    )


def check_result(plan, acted, result):
    refused = plan.kind in ("unknown", "does not fit")
    assert not (refused and acted)
    if plan.effect != "write":
        assert MAY_HAVE_HAPPENED not in result.text
    elif plan.kind.startswith("thread"):
        pass  # it is unknown whether the thread has run
    elif not result.is_error:
        assert acted == 1
    elif acted and plan.kind != "names its failure" and '"result_rejected"' not in result.text:
        assert MAY_HAVE_HAPPENED in result.text
    else:
        assert acted or MAY_HAVE_HAPPENED not in result.text


async def check_run(script, choices, stop, store):
    tools, engine = Tools(script, choices), ContextEngine(store=store)
    await engine.create_session("s")
    status = await stopped_run(tools, engine, stop)
    refused = ("later", "reject", "edit badly") if choices["approves"] else ("later",)
    assert not any(
        tools.acted[name] for name, plan in tools.plans.items() if plan.decision in refused
    )
    opened = await engine.transcript("s").open_calls()
    waits = opened and opened.pending and status in ("awaiting_approval", "cancelled")
    if not waits and not (stop.how == "store" and tools.stops_itself):
        check(await engine.history("s"), tools)
    tools.task = store.fails_at = None
    deps = ToolLoopDeps(tools.chat, engine, OutputController(), tools.registry)
    for question, resume in [(None, True), ("And now?", False)][
        :: -1 if waits and stop.then % 2 else 1
    ]:
        result = await run_tool_loop(deps, "s", question, tools.options(), resume=resume)
        assert result.status == "completed"
        check(await engine.history("s"), tools)
    await engine.aclose()


@random_examples(100, 500, scripts, choices_of_runs, stops, st.integers(0, 5))
def test_a_run_leaves_a_valid_history_regardless_of_how_it_stops(script, choices, stop, slow):
    fails_at = stop.after + 1 if stop.how == "store" else None
    run_and_check_tasks(check_run(script, choices, stop, Store(slow, fails_at)))


@random_examples(10, 100, scripts, choices_of_runs, stops)
def test_a_run_with_a_store_in_a_thread_leaves_a_valid_history(script, choices, stop):
    run_and_check_tasks(
        check_run(script, choices, replace(stop, after=stop.after * 20), SqliteStore(":memory:"))
    )
