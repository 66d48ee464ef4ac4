import asyncio
import threading

import pytest

from stage3_tools import Tool, ToolContext, ToolError, tool
from stage3_tools.execution.invocation import invoke


@pytest.fixture
async def context():
    """A context, and in `reported` what was told."""
    reported = []
    made = ToolContext("f", "c1", "s", "key", reported.append)
    made.reported = reported
    return made


async def test_a_plain_tool_reports_from_its_thread_and_in_order(context):
    @tool
    def count(to: int, context: ToolContext):
        for number in range(to):
            context.progress(number)
        return threading.current_thread() is threading.main_thread()

    assert await invoke(count, {"to": 3}, context) is False
    assert context.reported == [0, 1, 2]


async def test_whoever_watches_is_told_in_the_thread_of_the_event_loop():
    told = []
    context = ToolContext("f", on_progress=lambda value: told.append(threading.current_thread()))
    await invoke(
        Tool("f", "", None, lambda arguments, context: context.progress("half")), {}, context
    )
    assert told == [threading.main_thread()]


async def test_an_async_tool_reports_at_once(context):
    @tool
    async def count(context: ToolContext):
        context.progress("half")
        return list(context.reported)

    assert await invoke(count, {}, context) == ["half"]


async def test_what_is_reported_after_the_result_is_dropped(context):
    await invoke(Tool("f", "", None, lambda arguments, context: None), {}, context)
    context.progress("late")
    assert context.reported == []


async def test_nobody_need_watch():
    ToolContext("f").progress("unseen")


def test_to_report_to_a_loop_that_is_closed_does_no_harm():
    async def make():
        return ToolContext("f", on_progress=print)

    context = asyncio.run(make())
    thread = threading.Thread(target=context.progress, args=["late"])
    thread.start()
    thread.join()


async def test_a_call_that_ends_well_is_not_aborted(context):
    await invoke(Tool("f", "", None, lambda arguments, context: None), {}, context)
    assert context.aborted is False


async def test_a_plain_function_that_took_too_long_learns_that_nobody_waits(context):
    learned = threading.Event()

    def work(arguments, context):
        while not context.aborted:
            threading.Event().wait(0.001)
        learned.set()

    with pytest.raises(ToolError, match="took longer"):
        await invoke(Tool("f", "", None, work, timeout=0.01), {}, context)
    assert learned.wait(5)


async def test_an_async_function_can_wait_for_the_abort(context):
    @tool
    async def work(context: ToolContext):
        await context.abort.wait()
        return "stopped"

    running = asyncio.create_task(invoke(work, {}, context))
    await asyncio.sleep(0)
    context.abort.set()
    assert await running == "stopped"


async def test_the_next_try_has_the_same_call_and_key_and_nothing_of_the_abort(context):
    context.close(abort=True)
    again = context.next_attempt()
    assert (again.attempt, again.aborted, context.attempt) == (2, False, 1)
    assert (again.tool, again.call_id, again.session_id, again.idempotency_key) == (
        "f",
        "c1",
        "s",
        "key",
    )
    again.progress("second")
    assert context.reported == ["second"]


async def test_session_and_key_are_not_shown_when_a_context_is_printed(context):
    assert context.idempotency_key not in repr(context)
    assert "session" not in repr(context)
