import asyncio
import threading

import pytest

from stage3_tools import Tool, ToolContext, ToolError, tool
from stage3_tools.execution.invocation import invoke
from tests.stage3_tools.clock import jump_after, without_waiting


@pytest.fixture
async def context():
    """Return a context; `reported` has the values of its progress reports."""
    reported = []
    made = ToolContext("f", "c1", "s", "key", reported.append)
    made.reported = reported
    return made


async def test_progress_of_a_plain_tool_is_reported_in_order(context):
    @tool
    def count(to: int, context: ToolContext):
        for number in range(to):
            context.progress(number)
        return threading.current_thread() is threading.main_thread()

    assert await invoke(count, {"to": 3}, context) is False
    assert context.reported == [0, 1, 2]


async def test_the_progress_callback_runs_in_the_thread_of_the_event_loop():
    threads = []
    context = ToolContext("f", on_progress=lambda value: threads.append(threading.current_thread()))
    await invoke(
        Tool("f", "", None, lambda arguments, context: context.progress("half")), {}, context
    )
    assert threads == [threading.main_thread()]


async def test_progress_of_an_async_tool_is_reported_immediately(context):
    @tool
    async def count(context: ToolContext):
        context.progress("half")
        return list(context.reported)

    assert await invoke(count, {}, context) == ["half"]


async def test_progress_after_the_result_is_dropped(context):
    await invoke(Tool("f", "", None, lambda arguments, context: None), {}, context)
    context.progress("late")
    assert context.reported == []


async def test_progress_works_without_a_callback():
    ToolContext("f").progress("unseen")


def test_progress_after_the_event_loop_is_closed_does_not_raise():
    async def make():
        return ToolContext("f", on_progress=print)

    context = asyncio.run(make())
    thread = threading.Thread(target=context.progress, args=["late"])
    thread.start()
    thread.join()


async def test_a_successful_call_is_not_aborted(context):
    await invoke(Tool("f", "", None, lambda arguments, context: None), {}, context)
    assert context.aborted is False


@without_waiting
async def test_a_plain_function_sees_aborted_after_its_time_limit(context):
    begun, learned = threading.Event(), threading.Event()

    def work(arguments, context):
        begun.set()
        while not context.aborted:
            threading.Event().wait(0.001)
        learned.set()

    jump_after(begun)
    with pytest.raises(ToolError, match="took longer"):
        await invoke(Tool("f", "", None, work, timeout=60), {}, context)
    assert learned.wait(30)


async def test_an_async_function_can_wait_for_the_abort(context):
    @tool
    async def work(context: ToolContext):
        await context.abort.wait()
        return "stopped"

    running = asyncio.create_task(invoke(work, {}, context))
    await asyncio.sleep(0)
    context.abort.set()
    assert await running == "stopped"


async def test_the_next_attempt_has_the_same_call_and_key_and_is_not_aborted(context):
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


async def test_the_repr_of_a_context_omits_session_and_key(context):
    assert context.idempotency_key not in repr(context)
    assert "session" not in repr(context)
