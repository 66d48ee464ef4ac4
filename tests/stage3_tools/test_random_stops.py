"""Random runs, stopped at random times in random ways: the history stays valid, and a run can be
resumed."""

import asyncio
import gc
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

from hypothesis import given, settings
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
from stage3_tools.dialects.protocol import FinalReply, RequestParts, ToolCalls
from stage3_tools.execution.approval import Always, Edit, Later, Reject
from stage3_tools.execution.results import MAY_HAVE_HAPPENED
from stage3_tools.options import ToolLoopOptions

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
KINDS += ["names its failure", "stubborn", "unknown", "does not fit"]
STOPPING = ["sets abort", "cancels the run"]
VERDICTS = [True] * 6 + ["always", "edit", "edit badly", "reject", "later", "slowly", "raises"]
STOPS = ["nothing"] * 3 + ["cancel", "cancel twice", "abort", "limit"]
STOPS += ["listener", "store", "approver", "reviewer"]


@dataclass(frozen=True)
class Plan:
    kind: str
    effect: str
    exclusive: bool
    verdict: object  # the answer of the approver …
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
    st.sampled_from(VERDICTS),
    st.sampled_from([True, True, True, "reject"]),
)
scripts = st.lists(st.lists(plans, min_size=1, max_size=5), min_size=1, max_size=3)
stops = st.builds(Stop, st.sampled_from(STOPS), st.integers(0, 40), st.integers(0, 5))
settings_of_runs = st.fixed_dictionaries(
    {
        "parallel": st.integers(1, 3),
        "asks": st.booleans(),
        "reviews": st.booleans(),
        "caches": st.booleans(),
    }
)


class ManyCalls:
    def describe(self, registry):
        return ""

    def render(self, transcript, registry, *, last=False):
        return RequestParts(tuple(transcript))

    def read(self, response, registry):
        return ToolCalls(response.message) if response.tool_calls else FinalReply(response.message)


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


class World:
    """The tools of all runs of one session, and a record of their calls."""

    def __init__(self, script, knobs):
        self.script, self.knobs, self.turn = script, knobs, 0
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
        stopping = {*STOPPING, *(["raises"] if knobs["asks"] else [])}
        self.stops_itself = any(
            {each.kind, each.verdict} & stopping for each in self.plans.values()
        )

    def tool(self, name, plan):
        async def execute(arguments):
            self.acted[name] += 1
            self.running.add(name)
            self.most = max(self.most, len(self.running))
            if len(self.running) > 1 and any(self.plans[each].exclusive for each in self.running):
                self.wrong.append(f"{name} runs beside {self.running}")
            try:
                await self.behave(name, plan.kind)
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
            "needs_approval": plan.verdict == "later",
        }
        rest["timeout"] = 0.001 if plan.kind == "hangs" else None
        return Tool(name, "", schema, plain if plan.kind.startswith("thread") else execute, **rest)

    async def behave(self, name, kind):
        if kind == "hangs":
            await asyncio.Event().wait()
        if kind == "sets abort":
            self.abort.set()
        if kind == "cancels the run" and self.task:
            self.cancelled |= self.task.cancel()
        with suppress(asyncio.CancelledError) if kind == "stubborn" else nullcontext():
            for _ in range(0 if kind == "at once" else int(name[-1]) + 1):
                await asyncio.sleep(0)
        for _ in range(9 if kind == "stubborn" else 0):
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
        asker, first, knobs = Asker(self, stop), stop is not None, self.knobs
        return ToolLoopOptions(
            dialect=ManyCalls(),
            max_parallel_tools=knobs["parallel"],
            approve=asker.approve if knobs["asks"] or not first else None,
            approve_all=True,
            approve_result=asker.review if knobs["reviews"] else None,
            cache=ResultCache() if knobs["caches"] else None,
            abort=self.abort if first else None,
            limits=RunLimits(seconds=0.001) if first and stop.how == "limit" else None,
            on_event=lambda event: asker.count("listener"),
        )


class Asker:
    """The approver, reviewer and listener; raises LookupError at the planned call."""

    def __init__(self, world, stop):
        self.world, self.stop, self.asked = world, stop, Counter()

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
        verdict, turn = self.world.plans[request.tool].verdict, request.tool.split("-")[0]
        begun = [name for name in self.world.acted if name.startswith(f"{turn}-")]
        if self.stop is None:
            return Edit({2: 1}) if verdict == "edit badly" else True
        if begun:
            self.world.wrong.append(f"{begun} before {request.tool} was decided")
        if verdict == "raises":
            raise LookupError("approver")
        if verdict == "slowly":
            await asyncio.sleep(0)
        answers = {"later": Later(), "always": Always(), "reject": Reject("no")}
        answers |= {"edit": Edit({"x": 1}), "edit badly": Edit({2: 1})}
        return answers.get(verdict, True)

    def review(self, request):
        self.count("reviewer")
        self.world.reviewed.add(request.tool)
        return Reject("no") if self.world.plans[request.tool].review == "reject" else True


async def stopped_run(world, engine, stop):
    deps = ToolLoopDeps(world.chat, engine, OutputController(), world.registry)
    world.task = asyncio.create_task(run_tool_loop(deps, "s", "Go.", world.options(stop)))
    times = {"cancel": [stop.after], "cancel twice": [stop.after, stop.then], "abort": [stop.after]}
    for iterations in times.get(stop.how, ()):
        for _ in range(iterations):
            await asyncio.sleep(0)
        if stop.how == "abort":
            world.abort.set()
        else:
            world.cancelled |= world.task.cancel()
    await asyncio.wait({world.task}, timeout=10)
    assert world.task.done()
    if not world.task.cancelled() and (error := world.task.exception()):
        assert isinstance(error, LookupError | OSError), repr(error)
        return "raised"
    # The task is cancelled exactly if it was cancelled from outside.
    assert world.task.cancelled() == world.cancelled
    if world.cancelled:
        return "cancelled"
    return world.task.result().status


def check(history, world):
    """Check that each call has one result, in order, with a correct status."""
    assert history.check_history() == []
    for index, message in enumerate(history):
        results = history.range(index + 1, index + 1 + len(message.tool_calls))
        assert [each.tool_call_id for each in results] == [call.id for call in message.tool_calls]
        for call, result in zip(message.tool_calls, results, strict=True):
            check_result(world.plans[call.name], world.acted[call.name], result)
            assert result.is_error or call.name in world.reviewed or not world.knobs["reviews"]
    assert world.wrong == []
    assert world.most <= world.knobs["parallel"]
    assert all(
        world.acted[name] <= 1 for name, plan in world.plans.items() if plan.effect == "write"
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


async def play(script, knobs, stop, store):
    world, engine = World(script, knobs), ContextEngine(store=store)
    await engine.create_session("s")
    status = await stopped_run(world, engine, stop)
    refused = ("later", "reject", "edit badly") if knobs["asks"] else ("later",)
    assert not any(
        world.acted[name] for name, plan in world.plans.items() if plan.verdict in refused
    )
    opened = await engine.transcript("s").open_calls()
    waits = opened and opened.pending and status in ("awaiting_approval", "cancelled")
    if not waits and not (stop.how == "store" and world.stops_itself):
        check(await engine.history("s"), world)
    world.task = store.fails_at = None
    deps = ToolLoopDeps(world.chat, engine, OutputController(), world.registry)
    for question, resume in [(None, True), ("And now?", False)][
        :: -1 if waits and stop.then % 2 else 1
    ]:
        result = await run_tool_loop(deps, "s", question, world.options(), resume=resume)
        assert result.status == "completed"
        check(await engine.history("s"), world)
    await engine.aclose()


def clean(main):
    reported = []

    async def watched():
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: reported.append(context)
        )
        await main
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(watched())
    gc.collect(1)
    assert reported == []


@settings(max_examples=150)
@given(scripts, settings_of_runs, stops, st.integers(0, 5))
def test_a_run_leaves_a_valid_history_regardless_of_how_it_stops(script, knobs, stop, slow):
    fails_at = stop.after + 1 if stop.how == "store" else None
    clean(play(script, knobs, stop, Store(slow, fails_at)))


@settings(max_examples=25)
@given(scripts, settings_of_runs, stops)
def test_a_run_with_a_store_in_a_thread_leaves_a_valid_history(script, knobs, stop):
    clean(play(script, knobs, replace(stop, after=stop.after * 20), SqliteStore(":memory:")))
