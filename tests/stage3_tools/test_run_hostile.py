"""Tests of aborts at the worst time, nested runs, values that cannot be stored, and concurrent
processes."""

import asyncio

import pytest

from stage0_gateway import JsonPart, TextPart, ToolCall
from stage1_context import ContextEngine, MemoryStore, SessionConflict
from stage3_tools import Tool, ToolLoopOptions, run_tool_loop
from tests.stage3_tools.conversation import Native, deps_of, native_response
from tests.tables import for_each

CALL = ToolCall("c", "pay", "{}")


async def problems(made):
    return (await made.context_engine.history("s")).check_history()


class SignallingStore(MemoryStore):
    """A slow store that sets an event when it writes a final reply or a pending approval."""

    def __init__(self):
        super().__init__({"s": ()})
        self.writing = asyncio.Event()

    async def append(self, session_id, *records, expected=None):
        if any(each.kind == "approval_pending" or "done" in str(each) for each in records):
            self.writing.set()
            for _ in range(10):
                await asyncio.sleep(0)
        return await super().append(session_id, *records, expected=expected)


async def test_an_abort_while_the_final_reply_is_stored_has_no_effect():
    store = SignallingStore()
    result = await run_tool_loop(
        deps_of([], store=store), "s", "Go.", ToolLoopOptions(dialect=Native(), abort=store.writing)
    )
    assert (result.status, result.reply) == ("completed", "done")
    await asyncio.sleep(0)  # an await that must not be cancelled


async def test_a_run_in_its_own_task_that_is_aborted_too_late_returns_its_result():
    store = SignallingStore()
    running = asyncio.create_task(
        run_tool_loop(
            deps_of([], store=store),
            "s",
            "Go.",
            ToolLoopOptions(dialect=Native(), abort=store.writing),
        )
    )
    await asyncio.wait({running})
    assert running.result().reply == "done"


async def test_a_timeout_of_the_caller_cancels_only_the_run():
    store = SignallingStore()
    made = deps_of([], store=store)
    running = asyncio.create_task(store.writing.wait())

    async def caller():
        async with asyncio.timeout(60) as clock:
            running.add_done_callback(lambda _: clock.reschedule(0))
            await run_tool_loop(made, "s", "Go.", ToolLoopOptions(dialect=Native()))

    with pytest.raises(TimeoutError):
        await caller()
    await asyncio.sleep(0)
    assert await problems(made) == []


async def test_a_plain_tool_that_uses_its_own_session_gets_an_error():
    def ask(arguments):
        return asyncio.run(
            run_tool_loop(made, "s", "And?", ToolLoopOptions(dialect=Native()))
        ).reply

    made = deps_of([Tool("pay", "", None, ask)], native_response(CALL))
    result = await run_tool_loop(made, "s", "Go.", ToolLoopOptions(dialect=Native()))
    assert "is running already" in result.history[0].result.output
    assert await problems(made) == []


@for_each(
    "value",
    [JsonPart(object()), JsonPart(float("nan")), TextPart(5), [TextPart("a"), JsonPart({1})]],
)
async def test_parts_that_cannot_be_stored_fail_only_their_own_call(value):
    async def parts(arguments):
        return value

    async def work(arguments):
        return "result"

    made = deps_of(
        [Tool("pay", "", None, parts), Tool("work", "", None, work)],
        native_response(CALL, ToolCall("b", "work", "{}")),
    )
    result = await run_tool_loop(made, "s", "Go.", ToolLoopOptions(dialect=Native()))
    assert [each.result.status for each in result.history] == ["error", "completed"]
    assert await problems(made) == []


async def test_a_write_that_two_processes_resume_at_once_runs_once():
    store, acted, asked, both = MemoryStore({"s": ()}), [], [], asyncio.Event()

    async def act(arguments):
        acted.append(1)

    pay = Tool("pay", "", None, act, needs_approval=True)
    await run_tool_loop(
        deps_of([pay], native_response(CALL), store=store),
        "s",
        "Go.",
        ToolLoopOptions(dialect=Native()),
    )

    async def approve(request):
        asked.append(request)
        if len(asked) == 2:
            both.set()
        return await both.wait()

    runs = [
        run_tool_loop(
            deps_of([pay], store=store),
            "s",
            None,
            ToolLoopOptions(dialect=Native(), approve=approve),
            resume=True,
        )
        for _ in range(2)
    ]
    first, second = await asyncio.gather(*runs, return_exceptions=True)
    assert acted == [1]
    assert {type(first), type(second)} > {SessionConflict}
    assert (await ContextEngine(store=store).history("s")).check_history() == []
