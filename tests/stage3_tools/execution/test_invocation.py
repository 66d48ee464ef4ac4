"""Time limits of tools that ignore, delay or convert their cancellation."""

import asyncio
import gc
import weakref
from contextlib import suppress
from functools import partial

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
from tests.stage3_tools.clock import now, without_waiting
from tests.stage3_tools.conversation import DONE, Recorder, call
from tests.tables import for_each

GRACE = 1.0  # seconds, as documented
CALL = ToolCall("c", "f", "{}")


class Uncancellable:
    """An async tool that ignores its first cancellation until it is released."""

    def __init__(self, late="late", **settings):
        self.begun, self.released, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.cancelled, self.was_cancelled = 0, asyncio.Event()
        self.late = late
        self.tool = Tool("f", "", None, self.run, **{"timeout": 60, **settings})

    async def run(self, arguments, context):
        self.begun.set()
        try:
            while not self.released.is_set():
                try:
                    await self.released.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    self.was_cancelled.set()
                    if self.cancelled == 2:  # the event loop is closed after a failure
                        raise
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


def run_by_a_call(blocking):
    return execute_tool_call(ToolRegistry(blocking.tool), CALL)


async def run_by_calls(blocking):
    [result] = await execute_tool_calls(ToolRegistry(blocking.tool), [CALL])
    return result


@without_waiting
async def test_a_tool_that_ignores_its_cancellation_is_abandoned_after_the_grace_period(
    new_conversation,
):
    by_call, by_calls, by_hand, by_text, by_native = tools = [Uncancellable() for _ in range(5)]
    text = new_conversation([call(), DONE], by_text.tool)
    native = new_conversation([Message.assistant("", [CALL]), "done"], by_native.tool)
    called, batched, executed, prompted, asked = await asyncio.gather(
        run_by_a_call(by_call),
        run_by_calls(by_calls),
        ToolRegistry(by_hand.tool).execute("f", {}),
        text.ask(dialect=PromptDialect()),
        native.ask(dialect=NativeDialect()),
        return_exceptions=True,
    )
    assert now() == 60 + GRACE
    assert (executed.kind, executed.message) == ("timeout", "f took longer than 60 s.")
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


@for_each(
    "late",
    [
        "value",
        ValueError("late"),
        SystemExit(3),
        ToolError("network", "late"),
        asyncio.CancelledError(),
    ],
)
@without_waiting
async def test_the_late_value_or_exception_of_an_abandoned_tool_is_dropped(late):
    blocking = Uncancellable(late)
    result = await run_by_a_call(blocking)
    assert (result.status, result.error.kind) == ("unknown_effect", "timeout")
    gc.collect()  # an unreferenced pending task would be destroyed here
    await blocking.release()
    gc.collect()  # an exception that was never read would be reported here


@for_each("ending", ["value", ValueError("no"), ToolError("network", "no"), SystemExit(3)])
@without_waiting
async def test_a_tool_that_converts_its_cancellation_counts_as_timed_out(ending):
    async def convert(arguments):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if isinstance(ending, BaseException):
                raise ending from None
        return ending

    registry = ToolRegistry(Tool("f", "", None, convert, timeout=60))
    result = await execute_tool_call(registry, CALL)
    assert (result.status, result.error.kind) == ("unknown_effect", "timeout")
    assert now() == 60


@without_waiting
async def test_a_cancellation_by_the_caller_ends_the_grace_period():
    blocking = Uncancellable()
    running = asyncio.create_task(run_by_calls(blocking))
    await blocking.was_cancelled.wait()  # the time limit is over, the grace period is not
    running.cancel()
    await asyncio.wait({running})
    assert (running.cancelled(), now()) == (True, 60)
    await blocking.release()


@without_waiting
async def test_a_stopped_run_does_not_wait_for_a_tool_that_ignores_its_cancellation(
    new_conversation,
):
    _, by_abort, by_cancel = tools = [Uncancellable(timeout=90) for _ in range(3)]
    clock, abort, cancel = (new_conversation([call()], each.tool) for each in tools)
    event = asyncio.Event()

    async def stop_when_begun(blocking, stop):
        await blocking.begun.wait()
        stop()

    cancelled = asyncio.create_task(cancel.ask())
    timed_out, aborted, ended, *_ = await asyncio.gather(
        clock.ask(limits=RunLimits(seconds=60)),
        abort.ask(abort=event),
        cancelled,
        stop_when_begun(by_abort, event.set),
        stop_when_begun(by_cancel, cancelled.cancel),
        return_exceptions=True,
    )
    assert now() <= 60 + GRACE
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


@without_waiting
async def test_an_abandoned_tool_frees_its_slot_and_is_not_retried():
    recorder, blocking = Recorder("g"), Uncancellable()
    again = Tool("f", "", None, blocking.run, effect="read", timeout=60, retry=Retry(3, 0.0))
    calls = [ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}")]
    results = await execute_tool_calls(ToolRegistry(again, recorder.tool), calls, max_parallel=1)
    assert [(each.status, each.attempts) for each in results] == [("error", 1), ("completed", 1)]
    await blocking.release()
    assert results[0].error.kind == "timeout"


@for_each("reason", ["timeout", "caller cancelled"])
@without_waiting
async def test_a_cancelled_tool_sees_aborted_in_its_context(reason):
    async def look(arguments, context):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            known.append(context.aborted)
            raise

    known, begun = [], asyncio.Event()
    registry = ToolRegistry(Tool("f", "", None, look, timeout=60))
    running = asyncio.create_task(execute_tool_call(registry, CALL))
    await begun.wait()
    if reason == "caller cancelled":
        running.cancel()
    await asyncio.wait({running})
    assert (known, running.cancelled()) == ([True], reason == "caller cancelled")
    assert now() == (60 if reason == "timeout" else 0)


@without_waiting
async def test_an_abandoned_tool_is_referenced_until_it_ends():
    async def wait(arguments):
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        was_cancelled.set()
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        ended.append(True)

    was_cancelled = asyncio.Event()
    ended, registry = [], ToolRegistry(Tool("f", "", None, wait, timeout=60))
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

    async def run_call():
        results.append(await execute_tool_call(registry, CALL))
        await asyncio.sleep(0)

    results, registry = [], ToolRegistry(Tool("f", "", None, run))
    running = asyncio.create_task(run_call())
    await asyncio.wait({running})
    assert running.cancelled()
    assert [each.output for each in results] == ["done"]


async def test_a_call_that_is_cancelled_before_its_tool_begins_does_not_run():
    recorder = Recorder()
    running = asyncio.create_task(execute_tool_call(ToolRegistry(recorder.tool), CALL))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    assert (running.cancelled(), recorder.seen) == (True, [])


async def test_no_tool_begins_after_another_tool_has_stopped_the_run():
    stopped, recorder = asyncio.Event(), Recorder("g", effect="write")

    async def stop(arguments):
        stopped.set()

    registry = ToolRegistry(Tool("f", "", None, stop), recorder.tool)
    calls = [ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}")]
    first, second = await execute_tool_calls(
        registry, calls, ExecutionSettings(stopped=stopped.is_set)
    )
    assert (first.status, second.status, second.attempts) == ("completed", "interrupted", 0)
    assert recorder.seen == []


@for_each("in_a_task", [False, True])
@for_each("ending", ["value", "exception", "exception with a cause"])
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
        running = execute_tool_call(registry, CALL)
        result = await (asyncio.create_task(running) if in_a_task else running)
        assert result.is_error is (ending != "value")
        del held, registry, running, result
        await asyncio.sleep(0)  # the callback that continues this test refers to the ended task
        assert gone() is None
    finally:
        gc.enable()
