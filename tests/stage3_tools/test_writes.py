"""A write runs once, for every failure, approver, stop and later resume."""

import asyncio
import gc
import threading
from collections import Counter

import pytest
from hypothesis import strategies as st

from stage0_gateway import ToolCall
from stage1_context import (
    CallFinishedRecord,
    CallStartedRecord,
    ContextEngine,
    MemoryStore,
    MessageRecord,
    SessionConflict,
)
from stage3_tools import (
    ExecutionSettings,
    ResultCache,
    Retry,
    RunLimits,
    Tool,
    ToolError,
    ToolRegistry,
    execute_tool_call,
)
from stage3_tools.execution.approval import Always, Edit, Reject
from stage3_tools.execution.several_calls import execute_tool_calls
from stage3_tools.loop import run_tool_loop
from stage3_tools.options import ToolLoopOptions
from tests.random_values import random_examples
from tests.stage3_tools.clock import jump_after, without_waiting
from tests.stage3_tools.conversation import Native, deps_of, native_response
from tests.tables import for_each

MAY = "may have happened"
CALL = ToolCall("c", "pay", "{}")
RAISED = {
    "an exception": ValueError("no"),
    "a connection": ConnectionResetError("away"),
    "a time": TimeoutError(),
    "a group": ExceptionGroup("two", [ValueError(), OSError()]),
    "an exit": SystemExit(1),
    "a cancellation": asyncio.CancelledError(),
    "an end": StopIteration(),
    "named network": ToolError("network", "away", retryable=True, max_retries=5, retry_delay=0.0),
    "named timeout": ToolError("timeout", "late", retryable=True),
}
FAILURES = [*RAISED, "takes too long", "takes too long in a thread"]


class Pay:
    """A tool that fails in the given way after it has acted; `acted` is its number of runs."""

    def __init__(self, end, **settings):
        self.acted, self.end = 0, end
        self.begun, self.release = threading.Event(), threading.Event()
        plain = end == "takes too long in a thread"
        settings |= {"timeout": 60} if end.startswith("takes") else {}
        self.tool = Tool("pay", "", None, self.in_thread if plain else self.run, **settings)

    async def run(self, arguments):
        self.acted += 1
        if self.end.startswith("takes"):
            await asyncio.Event().wait()
        if self.end in RAISED:
            raise RAISED[self.end]
        return "paid"

    def in_thread(self, arguments):
        self.acted += 1
        self.begun.set()
        self.release.wait()


def options(**rest):
    return ToolLoopOptions(dialect=Native(), **rest)


async def looped(pay, **rest):
    store = MemoryStore({"s": ()})
    made = deps_of([pay.tool], native_response(CALL), store=store)
    result = await run_tool_loop(made, "s", "Go.", options(**rest))
    assert (await made.context_engine.history("s")).check_history() == []
    return result.history[0].result


def again(exception):
    return ToolError("network", "try again", retryable=True, max_retries=5, retry_delay=0.0)


async def one(pay, **settings):
    return await execute_tool_call(ToolRegistry(pay.tool), CALL, ExecutionSettings(**settings))


async def batched(pay):
    return (await execute_tool_calls(ToolRegistry(pay.tool), [CALL]))[0]


MODES = {
    "alone": one,
    "classified as passing": lambda pay: one(pay, classify=again),
    "in a batch": batched,
    "through a cache": lambda pay: one(pay, cache=ResultCache()),
    "approved": lambda pay: one(pay, approve=lambda request: True),
    "edited": lambda pay: one(pay, approve=lambda request: Edit({"x": 1})),
    "always": lambda pay: one(pay, approve=lambda request: Always()),
    "reviewed": lambda pay: one(pay, approve_result=lambda request: True),
    "in a loop": looped,
    "in a loop with everything": lambda pay: looped(
        pay,
        cache=ResultCache(),
        approve=lambda request: Always(),
        approve_result=lambda request: True,
        classify=again,
        limits=RunLimits(seconds=90),
        abort=asyncio.Event(),
    ),
}


@for_each("mode", MODES)
@for_each("end", FAILURES)
@without_waiting
async def test_a_failed_write_runs_once_and_has_an_unknown_effect(mode, end):
    pay = Pay(end)
    if end.endswith("thread"):  # a thread that has not begun at the timeout never runs
        jump_after(pay.begun)
    result = await MODES[mode](pay)
    pay.release.set()
    assert (pay.acted, result.status, result.attempts) == (1, "unknown_effect", 1)
    assert MAY in result.output


@for_each("end", ["a connection", "named network", "takes too long"])
@without_waiting
async def test_the_same_failures_of_an_idempotent_tool_are_retried(end):
    pay = Pay(end, effect="idempotent", retry=2)
    assert (await one(pay)).attempts == pay.acted == 3


@for_each("retry", [1, Retry(3), Retry(1, 0.0)])
async def test_a_write_cannot_have_retries(retry):
    with pytest.raises(ValueError, match="a write is never retried"):
        Pay("a connection", retry=retry)
    pay = Pay("a connection")
    object.__setattr__(pay.tool, "retry", retry)
    assert ((await one(pay)).status, pay.acted) == ("unknown_effect", 1)


@for_each("end", ["well", "an exception", "a connection"])
async def test_a_write_with_a_rejected_result_does_not_run_again(end):
    pay = Pay(end)
    result = await looped(pay, approve_result=lambda request: Reject("no"))
    assert (pay.acted, result.status, result.attempts) == (1, "result_rejected", 1)
    assert (MAY in result.as_message().text) == (end != "well")


@for_each("how", ["cancelled", "cancelled twice", "aborted", "timeout"])
@for_each("end", ["takes too long", "takes too long in a thread"])
@without_waiting
async def test_a_write_that_is_running_when_the_run_stops_has_an_unknown_effect(how, end):
    pay, store, abort = Pay(end), MemoryStore({"s": ()}), asyncio.Event()
    object.__setattr__(pay.tool, "timeout", None)
    made = deps_of([pay.tool], native_response(CALL), store=store)
    limits = RunLimits(seconds=20) if how == "timeout" else None
    if end.endswith("thread"):
        jump_after(pay.begun)
    running = asyncio.create_task(
        run_tool_loop(made, "s", "Go.", options(abort=abort, limits=limits))
    )
    while not pay.acted:  # noqa: ASYNC110 -- a thread cannot set an event of the loop
        await asyncio.sleep(0)
    if how == "aborted":
        abort.set()
    for _ in range(
        ["", "cancelled", "cancelled twice"].index(how) if how.startswith("cancelled") else 0
    ):
        running.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({running})
    assert running.cancelled() if how.startswith("cancelled") else running.result().status == how
    resumed = await run_tool_loop(made, "s", None, options(), resume=True)
    pay.release.set()
    history = await made.context_engine.history("s")
    (message,) = history.by_role("tool")
    assert (pay.acted, MAY in message.text, history.check_history(), resumed.status) == (
        1,
        True,
        [],
        "completed",
    )


class Tools:
    """Tools that record the length of the journal when they act."""

    def __init__(self, store, effects):
        self.acted_at, self.acted, self.store = {}, Counter(), store
        self.tools = [self.tool(f"t{place}", *each) for place, each in enumerate(effects)]

    def tool(self, name, effect, exclusive, fails, steps):
        async def run(arguments):
            self.acted[name] += 1
            self.acted_at[name] = (await self.store.info("s")).records
            for _ in range(steps):
                await asyncio.sleep(0)
            if fails:
                raise ValueError("no")

        return Tool(name, "", None, run, effect=effect, exclusive=exclusive)


batches = st.lists(
    st.tuples(
        st.sampled_from(["read", "idempotent", "write", "write"]),
        st.sampled_from([False, False, True]),
        st.booleans(),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=5,
)


async def crash_everywhere(effects, parallel):
    """Run a group of calls; then resume it from every point at which the process could have
    crashed."""
    store = MemoryStore({"s": ()})
    first = Tools(store, effects)
    calls = [ToolCall(f"c{place}", f"t{place}", "{}") for place in range(len(effects))]
    given_options = options(max_parallel_tools=parallel)
    await run_tool_loop(
        deps_of(first.tools, native_response(*calls), store=store), "s", "Go.", given_options
    )
    records = [record for _, record in await store.read("s")]
    assert len([each for each in records if isinstance(each, CallStartedRecord)]) == len(calls)
    for length in range(2, len(records) + 1):  # starting with the message that has the calls
        await resume_from(records[:length], first, effects, calls)


async def resume_from(records, first, effects, calls):
    store = MemoryStore({"s": records})
    second = Tools(store, effects)
    made = deps_of(second.tools, store=store)
    result = await run_tool_loop(made, "s", None, options(), resume=True)
    history = await made.context_engine.history("s")
    assert (result.status, history.check_history()) == ("completed", [])
    answers = {each.tool_call_id: each.text for each in history.by_role("tool")}
    answered = {each.message.tool_call_id for each in records if isinstance(each, MessageRecord)}
    answered |= {each.call_id for each in records if isinstance(each, CallFinishedRecord)}
    begun = {each.call_id for each in records if isinstance(each, CallStartedRecord)}
    for call, (effect, *_) in zip(calls, effects, strict=True):
        acted = first.acted_at[call.name] <= len(records)
        if call.id in answered:
            assert second.acted[call.name] == 0
        elif effect == "write" and call.id in begun:
            assert (second.acted[call.name], MAY in answers[call.id]) == (0, True)
        else:  # never started, or safe to repeat
            assert second.acted[call.name] == 1
            assert not (acted and effect == "write")


@random_examples(15, 150, batches, st.integers(1, 3))
def test_after_a_crash_at_any_point_a_resumed_run_repeats_no_started_write(effects, parallel):
    asyncio.run(crash_everywhere(effects, parallel))
    gc.collect(1)


async def test_a_running_write_does_not_run_again_when_another_process_resumes():
    store, pay, begun, proceed = (
        MemoryStore({"s": ()}),
        Pay("well"),
        asyncio.Event(),
        asyncio.Event(),
    )

    async def execute(arguments):
        pay.acted += 1
        begun.set()
        await proceed.wait()

    tool = Tool("pay", "", None, execute)
    first = asyncio.create_task(
        run_tool_loop(deps_of([tool], native_response(CALL), store=store), "s", "Go.", options())
    )
    await begun.wait()
    second = await run_tool_loop(deps_of([tool], store=store), "s", None, options(), resume=True)
    proceed.set()
    with pytest.raises(SessionConflict):
        await first
    assert (pay.acted, second.history[0].result.status) == (1, "unknown_effect")
    assert (await ContextEngine(store=store).history("s")).check_history() == []
