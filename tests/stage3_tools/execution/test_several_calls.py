import asyncio

import pytest

from stage0_gateway import ToolCall
from stage3_tools import ExecutionSettings, Tool, ToolRegistry, execute_tool_calls
from stage3_tools.execution.several_calls import PendingCall, cancel, groups, run_group
from tests.stage3_tools.conversation import Recorder
from tests.tables import for_each


def calls(*names):
    return [ToolCall(f"c{place}", name, "{}") for place, name in enumerate(names, 1)]


class Group:
    """Pending calls with the settings to run them."""

    def __init__(self, registry, calls, settings=None, max_parallel=8):
        settings = settings or ExecutionSettings()
        self.pending = [PendingCall(call, registry, settings) for call in calls]
        self.max_parallel = max_parallel

    async def run(self):
        for one in self.pending:
            await one.prepare()
        for group in groups(self.pending):
            async for _ in run_group(group, self.max_parallel):
                pass
        for one in self.pending:
            await one.review()

    async def stop(self):
        """Cancel the calls and return their results."""
        await cancel(self.pending)
        return [one.interrupt() for one in self.pending]


class GatedTools:
    """Tools that block until they are released, and a log of their starts and ends."""

    def __init__(self, *names, exclusive=(), effect="read"):
        self.running, self.most, self.log = set(), 0, []
        self.gates = {name: asyncio.Event() for name in names}
        self.registry = ToolRegistry(
            *(
                Tool(name, "", None, self._held(name), effect=effect, exclusive=name in exclusive)
                for name in names
            )
        )

    def _held(self, name):
        async def run(arguments):
            self.running.add(name)
            self.most = max(self.most, len(self.running))
            self.log.append(f"+{name}")
            try:
                await self.gates[name].wait()
            finally:
                self.running.discard(name)
                self.log.append(f"-{name}")
            return name

        return run

    async def settle(self):
        for _ in range(20):
            await asyncio.sleep(0)
        return sorted(self.running)


async def test_calls_run_in_parallel_and_results_are_in_call_order():
    tools = GatedTools("a", "b", "c")
    batch = asyncio.create_task(execute_tool_calls(tools.registry, calls("a", "b", "c")))
    assert await tools.settle() == ["a", "b", "c"]
    for name in "cba":
        tools.gates[name].set()
        await tools.settle()
    assert [each.output for each in await batch] == ["a", "b", "c"]
    assert tools.log[3:] == ["-c", "-b", "-a"]


@for_each("cap, most", [(1, 1), (2, 2), (8, 4)])
async def test_max_parallel_limits_the_tools_that_run_at_once(cap, most):
    tools = GatedTools(*"abcd")
    for each in tools.gates.values():
        each.set()
    results = await execute_tool_calls(tools.registry, calls(*"abcd"), max_parallel=cap)
    assert [each.output for each in results] == [*"abcd"]
    assert tools.most <= most
    if cap == 1:
        assert tools.log == ["+a", "-a", "+b", "-b", "+c", "-c", "+d", "-d"]


async def test_an_exclusive_tool_runs_alone_and_in_order():
    tools = GatedTools(*"abxcd", exclusive="x")
    batch = asyncio.create_task(execute_tool_calls(tools.registry, calls(*"abxcd")))
    steps = []
    for name in ["a", "b", "x", "c", "d"]:
        steps.append(await tools.settle())
        tools.gates[name].set()
    await batch
    assert steps == [["a", "b"], ["b"], ["x"], ["c", "d"], ["d"]]


async def test_a_failed_call_does_not_affect_the_others():
    broken = Tool("broken", "", None, lambda arguments: 1 / 0, effect="read")
    registry = ToolRegistry(Recorder("a").tool, broken)
    results = await execute_tool_calls(registry, calls("a", "broken", "unknown", "a"))
    assert [each.status for each in results] == ["completed", "error", "error", "completed"]
    assert [each.call_id for each in results] == ["c1", "c2", "c3", "c4"]


async def test_a_cancelled_group_cancels_its_tools_and_waits_until_they_end():
    tools, cleaned = GatedTools("a"), []

    async def careful(arguments):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            cleaned.append("careful")

    tools.registry.register(Tool("careful", "", None, careful))
    batch = asyncio.create_task(execute_tool_calls(tools.registry, calls("a", "careful")))
    await tools.settle()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert (cleaned, tools.running) == (["careful"], set())
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_after_a_stop_every_call_has_a_result_and_only_started_writes_have_an_unknown_effect():
    tools = GatedTools(*"abc", effect="write")
    batch = Group(
        tools.registry,
        [*calls(*"abc"), ToolCall("c4", "unknown", "{}")],
        max_parallel=2,
    )
    running = asyncio.create_task(batch.run())
    await tools.settle()
    tools.gates["b"].set()
    await tools.settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    results = await batch.stop()
    assert [(each.call_id, each.status) for each in results] == [
        ("c1", "unknown_effect"),
        ("c2", "completed"),
        ("c3", "unknown_effect"),
        ("c4", "error"),
    ]


async def test_a_call_that_waits_for_a_free_slot_counts_as_not_started():
    tools = GatedTools(*"ab", effect="write")
    batch = Group(tools.registry, calls("a", "b"), max_parallel=1)
    running = asyncio.create_task(batch.run())
    await tools.settle()
    running.cancel()
    results = await batch.stop()
    assert [(each.status, each.attempts) for each in results] == [
        ("unknown_effect", 1),
        ("interrupted", 0),
    ]
    assert tools.log == ["+a", "-a"]
    await asyncio.wait({running})


async def test_a_second_cancellation_does_not_lose_the_results():
    ending = asyncio.Event()

    async def slow_to_end(arguments):
        try:
            await asyncio.Event().wait()
        finally:
            await ending.wait()

    batch = Group(ToolRegistry(Tool("f", "", None, slow_to_end)), calls("f", "f"))
    running = asyncio.create_task(batch.run())
    for _ in range(5):
        await asyncio.sleep(0)
    running.cancel()
    results = []

    async def stop():
        results.extend(await batch.stop())
        await asyncio.sleep(0)

    stopping = asyncio.create_task(stop())
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.sleep(0)
    ending.set()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert [each.status for each in results] == ["unknown_effect"] * 2
    await asyncio.wait({running})


async def test_a_stopped_group_does_not_expose_results_that_were_not_approved():
    tools = GatedTools("a")
    tools.gates["a"].set()

    async def thinking(request):
        await asyncio.Event().wait()

    batch = Group(tools.registry, calls("a"), ExecutionSettings(approve_result=thinking))
    running = asyncio.create_task(batch.run())
    await tools.settle()
    running.cancel()
    [result] = await batch.stop()
    assert result.status == "interrupted"
    assert "before its result was approved" in result.output
    await asyncio.wait({running})


async def test_calls_with_missing_or_repeated_ids_all_get_results():
    same = [ToolCall("", "a", "{}"), ToolCall("x", "a", "{}"), ToolCall("x", "a", "{}")]
    results = await execute_tool_calls(ToolRegistry(Recorder("a").tool), same)
    assert [(each.call_id, each.status) for each in results] == [
        ("", "completed"),
        ("x", "completed"),
        ("x", "completed"),
    ]


async def test_a_tool_that_cancels_its_own_task_does_not_affect_the_others():
    async def cancel(arguments):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    async def work(arguments):
        await asyncio.sleep(0)
        return "result"

    registry = ToolRegistry(Tool("pay", "", None, cancel), Tool("work", "", None, work))
    first, second = await execute_tool_calls(
        registry, [ToolCall("a", "pay", "{}"), ToolCall("b", "work", "{}")]
    )
    assert (first.status, second.status, second.output) == ("unknown_effect", "completed", "result")


@for_each("most", [0, -1])
async def test_max_parallel_below_1_raises_a_value_error(most):
    tool = Tool("pay", "", None, lambda arguments: 1)
    with pytest.raises(ValueError, match="max_parallel"):
        await execute_tool_calls(ToolRegistry(tool), calls("pay"), max_parallel=most)


async def test_a_tool_that_mutates_its_arguments_is_retried_with_the_original_arguments():
    seen = []

    async def look(arguments):
        seen.append({**arguments})
        if arguments.pop("x") and len(seen) < 2:
            raise ConnectionError
        return "ok"

    tool = Tool("pay", "", None, look, effect="read")
    await execute_tool_calls(ToolRegistry(tool), [ToolCall("c", "pay", '{"x": 1}')])
    assert seen == [{"x": 1}, {"x": 1}]
