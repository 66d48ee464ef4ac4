"""Time limits of tools that ignore, delay or convert their cancellation."""

import asyncio
import gc
import time
import weakref
from contextlib import suppress
from functools import partial

import pytest

from stage0_gateway import Message, ToolCall
from stage3_tools import (
    ExecutionSettings,
    NativeDialect,
    PromptDialect,
    Retry,
    RunLimits,
    Tool,
    ToolError,
    ToolRegistry,
    execute_tool_call,
    execute_tool_calls,
)

GRACE = 1.0  # seconds, as documented
SLACK = 5.0  # allowance for a busy machine
CALL = ToolCall("c", "f", "{}")
ASKS = '{"tool": "f", "arguments": {}}'
DONE = '{"tool": null, "reply": "done"}'


class Stubborn:
    """An async tool that ignores its cancellation until it is released."""

    def __init__(self, late="late", **settings):
        self.begun, self.released, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.cancelled, self.was_cancelled = 0, asyncio.Event()
        self.late = late
        self.tool = Tool("f", "", None, self.run, **{"timeout": 0.05, **settings})

    async def run(self, arguments, context):
        self.begun.set()
        try:
            while not self.released.is_set():
                try:
                    await self.released.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    self.was_cancelled.set()
            context.progress("late")
            if isinstance(self.late, BaseException):
                raise self.late
            return self.late
        finally:
            self.ended.set()

    async def release(self):
        self.released.set()
        await self.ended.wait()
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.fixture
async def reported():
    """Collect the errors that the event loop reports. None may remain at the end."""
    found = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context))
    yield found
    gc.collect()
    assert found == []


@pytest.fixture
def long_grace_period(monkeypatch):
    """A grace period that does not end; a test that waited for it would exceed its time limit."""
    monkeypatch.setattr("stage3_tools.execution.invocation.GRACE", 3600.0)


async def timed(awaitable):
    started = time.monotonic()
    value = await awaitable
    return time.monotonic() - started, value


def run_by_a_call(stubborn):
    return execute_tool_call(ToolRegistry(stubborn.tool), CALL)


async def run_by_calls(stubborn):
    [result] = await execute_tool_calls(ToolRegistry(stubborn.tool), [CALL])
    return result


async def test_a_tool_that_ignores_its_cancellation_is_abandoned_after_the_grace_period(
    new_conversation, reported
):
    by_call, by_calls, by_hand, by_text, by_native = tools = [Stubborn() for _ in range(5)]
    text = new_conversation([ASKS, DONE], by_text.tool)
    native = new_conversation([Message.assistant("", [CALL]), "done"], by_native.tool)
    took, (called, batched, executed, prompted, asked) = await timed(
        asyncio.gather(
            run_by_a_call(by_call),
            run_by_calls(by_calls),
            ToolRegistry(by_hand.tool).execute("f", {}),
            text.ask(dialect=PromptDialect()),
            native.ask(dialect=NativeDialect()),
            return_exceptions=True,
        )
    )
    assert GRACE <= took < GRACE + SLACK
    assert (executed.kind, executed.message) == ("timeout", "f took longer than 0.05 s.")
    assert [prompted.reply, asked.reply] == ["done", "done"]
    for result in (called, batched, prompted.history[0].result, asked.history[0].result):
        assert (result.status, result.error.kind, result.attempts) == (
            "unknown_effect",
            "timeout",
            1,
        )
        assert "may have happened" in result.output
    for each in tools:
        assert each.cancelled == 1
        await each.release()
    for conversation in (text, native):
        assert "tool_progress" not in [event.name for event in conversation.events]
        assert await conversation.problems() == []


@pytest.mark.parametrize(
    "late",
    [
        "value",
        ValueError("late"),
        SystemExit(3),
        ToolError("network", "late"),
        asyncio.CancelledError(),
    ],
)
async def test_the_late_value_or_exception_of_an_abandoned_tool_is_dropped(
    late, reported, long_grace_period
):
    stubborn = Stubborn(late)
    running = asyncio.create_task(run_by_a_call(stubborn))
    await stubborn.was_cancelled.wait()
    running.cancel()  # skips the rest of the grace period
    with pytest.raises(asyncio.CancelledError):
        await running
    gc.collect()  # an unreferenced pending task would be destroyed here
    await stubborn.release()


@pytest.mark.parametrize(
    "ending",
    ["value", ValueError("no"), ToolError("network", "no"), SystemExit(3)],
    ids=lambda each: type(each).__name__,
)
async def test_a_tool_that_converts_its_cancellation_counts_as_timed_out(ending, long_grace_period):
    async def convert(arguments):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if isinstance(ending, BaseException):
                raise ending from None
        return ending

    registry = ToolRegistry(Tool("f", "", None, convert, timeout=0.01))
    result = await execute_tool_call(registry, CALL)
    assert (result.status, result.error.kind) == ("unknown_effect", "timeout")


async def test_a_cancellation_by_the_caller_ends_the_grace_period(reported, long_grace_period):
    stubborn = Stubborn()
    running = asyncio.create_task(run_by_calls(stubborn))
    await stubborn.was_cancelled.wait()  # the time limit is over, the grace period is not
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    await stubborn.release()


async def test_a_stopped_run_does_not_wait_for_a_tool_that_ignores_its_cancellation(
    new_conversation, reported
):
    _, by_abort, by_cancel = tools = [Stubborn(timeout=30) for _ in range(3)]
    clock, abort, cancel = (new_conversation([ASKS], each.tool) for each in tools)
    event = asyncio.Event()

    async def stop_when_begun(stubborn, stop):
        await stubborn.begun.wait()
        stop()

    cancelled = asyncio.create_task(cancel.ask())
    took, (timed_out, aborted, ended, *_) = await timed(
        asyncio.gather(
            clock.ask(limits=RunLimits(seconds=0.5)),
            abort.ask(abort=event),
            cancelled,
            stop_when_begun(by_abort, event.set),
            stop_when_begun(by_cancel, cancelled.cancel),
            return_exceptions=True,
        )
    )
    assert took < GRACE + SLACK
    assert (timed_out.status, aborted.status, type(ended)) == (
        "timeout",
        "aborted",
        asyncio.CancelledError,
    )
    for each in tools:
        await each.release()
    for conversation in (clock, abort, cancel):
        assert [event.name for event in conversation.events].count("tool_progress") == 0
        assert [
            (each.role, "may have happened" in each.text)
            for each in (await conversation.history())[2:]
        ] == [("tool", True)]
        assert await conversation.problems() == []


async def test_an_abandoned_tool_frees_its_slot_and_is_not_retried(new_recorder, reported):
    recorder, stubborn = new_recorder("g"), Stubborn()
    again = Tool("f", "", None, stubborn.run, effect="read", timeout=0.05, retry=Retry(3, 0.0))
    calls = [ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}")]
    results = await execute_tool_calls(ToolRegistry(again, recorder.tool), calls, max_parallel=1)
    assert [(each.status, each.attempts) for each in results] == [("error", 1), ("completed", 1)]
    await stubborn.release()
    assert results[0].error.kind == "timeout"


@pytest.mark.parametrize("seconds", [0.01, 30], ids=["timeout", "caller cancelled"])
async def test_a_cancelled_tool_sees_aborted_in_its_context(seconds):
    async def look(arguments, context):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            known.append(context.aborted)
            raise

    known, begun = [], asyncio.Event()
    registry = ToolRegistry(Tool("f", "", None, look, timeout=seconds))
    running = asyncio.create_task(execute_tool_call(registry, CALL))
    await begun.wait()
    if seconds == 30:
        running.cancel()
    await asyncio.wait({running})
    assert known == [True]


async def test_an_abandoned_tool_is_referenced_until_it_ends(reported, long_grace_period):
    async def wait(arguments):
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        was_cancelled.set()
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        ended.append(True)

    was_cancelled = asyncio.Event()
    ended, registry = [], ToolRegistry(Tool("f", "", None, wait, timeout=0.01))
    running = asyncio.create_task(execute_tool_call(registry, CALL))
    await was_cancelled.wait()
    running.cancel()
    await asyncio.wait({running})
    del running  # its frames refer to the tool's task
    gc.collect()
    [abandoned] = asyncio.all_tasks() - {asyncio.current_task()}
    abandoned.cancel()
    await asyncio.wait({abandoned})
    assert ended == [True]


async def test_a_cancellation_right_after_the_tool_ends_loses_neither_result_nor_cancellation():
    async def run(arguments):
        asyncio.get_running_loop().call_soon(running.cancel)
        return "done"

    async def call():
        results.append(await execute_tool_call(registry, CALL))
        await asyncio.sleep(0)

    results, registry = [], ToolRegistry(Tool("f", "", None, run))
    running = asyncio.create_task(call())
    await asyncio.wait({running})
    assert running.cancelled()
    assert [each.output for each in results] == ["done"]


async def test_a_call_that_is_cancelled_before_its_tool_begins_does_not_run(new_recorder):
    recorder = new_recorder()
    running = asyncio.create_task(execute_tool_call(ToolRegistry(recorder.tool), CALL))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    assert (running.cancelled(), recorder.seen) == (True, [])


async def test_no_tool_begins_after_another_tool_has_stopped_the_run(new_recorder):
    stopped, recorder = asyncio.Event(), new_recorder("g", effect="write")

    async def stop(arguments):
        stopped.set()

    registry = ToolRegistry(Tool("f", "", None, stop), recorder.tool)
    calls = [ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}")]
    first, second = await execute_tool_calls(
        registry, calls, ExecutionSettings(stopped=stopped.is_set)
    )
    assert (first.status, second.status, second.attempts) == ("completed", "interrupted", 0)
    assert recorder.seen == []


@pytest.mark.parametrize("in_a_task", [False, True], ids=["awaited", "in a task"])
@pytest.mark.parametrize("ending", ["value", "exception", "exception with a cause"])
async def test_objects_of_a_finished_call_are_released(ending, in_a_task):
    class Held:
        """An object that a call refers to."""

    async def run(held, arguments):
        if ending == "exception":
            raise ValueError(held)
        if ending == "exception with a cause":
            try:
                raise KeyError(held)
            except KeyError as error:
                raise ValueError(held) from error
        return "ok"

    gc.disable()  # release must not depend on the collector: an argument may have 100 MB
    try:
        held = Held()
        gone = weakref.ref(held)
        registry = ToolRegistry(Tool("f", "", None, partial(run, held)))
        call = execute_tool_call(registry, CALL)
        result = await (asyncio.create_task(call) if in_a_task else call)
        assert result.is_error is (ending != "value")
        del held, registry, call, result
        await asyncio.sleep(0)  # the callback that continues this test refers to the ended task
        assert gone() is None
    finally:
        gc.enable()
