"""Tests of runs that are stopped by an abort, a time limit or a cancelled task."""

import asyncio
import threading

import pytest

from stage0_gateway import ChatResponse, Message, ToolCall
from stage3_tools import RunLimits, Tool
from tests.stage3_tools.clock import without_waiting
from tests.stage3_tools.conversation import DONE, Native, Recorder, call
from tests.tables import for_each


class Blocking:
    """A tool or model that blocks, and records that it was cancelled."""

    def __init__(self):
        self.begun, self.ended = asyncio.Event(), []

    async def wait(self, *_, **__):
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise


async def stopped_when(blocking, conversation, abort, **options):
    running = asyncio.create_task(conversation.ask(abort=abort, **options))
    await blocking.begun.wait()
    abort.set()
    return await running


@for_each("effect, status", [("read", "interrupted"), ("write", "unknown_effect")])
async def test_an_abort_cancels_the_running_tool_and_the_run_ends_with_a_status(
    new_conversation, effect, status
):
    blocking, abort = Blocking(), asyncio.Event()
    conversation = new_conversation([call()], Tool("f", "", None, blocking.wait, effect=effect))
    result = await stopped_when(blocking, conversation, abort)
    assert (result.status, result.reply) == ("aborted", None)
    assert result.status_reason == "The run was aborted."
    assert blocking.ended == ["cancelled"]
    assert [each.result.status for each in result.history] == [status]
    assert [event.name for event in conversation.events][-2:] == ["tool_result", "loop_end"]
    assert await conversation.problems() == []


async def test_an_abort_cancels_the_pending_request(new_conversation):
    blocking, abort = Blocking(), asyncio.Event()
    conversation = new_conversation(chat=blocking.wait)
    result = await stopped_when(blocking, conversation, abort)
    assert (result.status, blocking.ended) == ("aborted", ["cancelled"])
    assert await conversation.history() == [Message.user("Go.")]


async def test_an_abort_cancels_the_approver(new_conversation):
    blocking, abort = Blocking(), asyncio.Event()
    conversation = new_conversation([call()], Tool("f", "", None, lambda arguments: "ok"))
    result = await stopped_when(blocking, conversation, abort, approve=blocking.wait)
    assert [each.result.status for each in result.history] == ["interrupted"]
    assert await conversation.problems() == []


async def test_a_run_that_is_aborted_before_it_begins_sends_and_stores_nothing(new_conversation):
    abort = asyncio.Event()
    abort.set()
    conversation = new_conversation()
    result = await conversation.ask(abort=abort)
    assert (result.status, result.stats.turns) == ("aborted", 0)
    assert await conversation.history() == []


async def test_an_unused_abort_event_changes_nothing_and_leaves_no_task(new_conversation):
    conversation = new_conversation([call(), DONE], Recorder().tool)
    assert (
        await conversation.ask(abort=asyncio.Event(), limits=RunLimits(seconds=20))
    ).reply == "done"
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@for_each("where", ["tool", "model"])
@without_waiting
async def test_the_time_limit_ends_the_run_with_a_status_instead_of_an_exception(
    new_conversation, where
):
    blocking = Blocking()
    tool = Tool("f", "", None, blocking.wait, effect="read")
    conversation = new_conversation(
        [call()] if where == "tool" else (), tool, chat=None if where == "tool" else blocking.wait
    )
    result = await conversation.ask(limits=RunLimits(seconds=20))
    assert (result.status, result.reply, blocking.ended) == ("timeout", None, ["cancelled"])
    assert result.status_reason == "The run took longer than its limit of 20 s."
    assert await conversation.problems() == []


async def test_a_stopped_run_can_be_resumed(new_conversation):
    blocking, abort = Blocking(), asyncio.Event()
    conversation = new_conversation(
        [call(), DONE], Tool("f", "", None, blocking.wait, effect="read")
    )
    await stopped_when(blocking, conversation, abort)
    assert (await conversation.ask(None, resume=True)).reply == "done"
    assert (await conversation.history())[2].text.startswith("Error (interrupted)")


async def test_a_plain_tool_sees_in_its_context_that_the_run_was_aborted(new_conversation):
    abort, begun, noticed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(arguments, context):
        loop.call_soon_threadsafe(begun.set)
        while not context.aborted:
            threading.Event().wait(0.001)
        loop.call_soon_threadsafe(noticed.set)

    conversation = new_conversation([call()], Tool("f", "", None, work))
    running = asyncio.create_task(conversation.ask(abort=abort))
    await begun.wait()
    abort.set()
    assert (await running).history[0].result.status == "unknown_effect"
    await noticed.wait()


async def test_cancelling_the_task_leaves_a_valid_history_and_the_next_question_works(
    new_conversation,
):
    blocking = Blocking()
    conversation = new_conversation([call(), DONE], Tool("f", "", None, blocking.wait))
    running = asyncio.create_task(
        conversation.ask(abort=asyncio.Event(), limits=RunLimits(seconds=20))
    )
    await blocking.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert blocking.ended == ["cancelled"]
    assert await conversation.problems() == []
    assert (await conversation.ask("And now?")).reply == "done"


async def test_a_reply_that_arrives_together_with_an_abort_gives_a_consistent_status(
    new_conversation,
):
    abort = asyncio.Event()

    async def chat(messages, **settings):
        abort.set()
        return ChatResponse(Message.assistant(DONE), "stop")

    result = await new_conversation(chat=chat).ask(abort=abort)
    assert result.status in ("completed", "aborted")
    assert (result.reply == "done") == (result.status == "completed")


async def test_a_stopped_run_counts_its_rounds_and_drops_late_progress(
    new_conversation,
):
    blocking, abort, contexts = Blocking(), asyncio.Event(), []

    async def work(arguments, context):
        contexts.append(context)
        await blocking.wait()

    conversation = new_conversation([call()], Tool("f", "", None, work))
    result = await stopped_when(blocking, conversation, abort)
    contexts[0].progress("still here")
    assert (result.tool_rounds, conversation.events[-1].name) == (1, "loop_end")


async def test_a_call_that_was_not_announced_has_no_result_event(new_conversation):
    abort = asyncio.Event()
    calls = [ToolCall("a", "f"), ToolCall("b", "f")]

    async def thinking(request):
        abort.set()
        await asyncio.Event().wait()

    replies = iter([ChatResponse(Message.assistant("", calls), "tool_calls")])

    async def answer(messages, **settings):
        return next(replies)

    conversation = new_conversation((), Tool("f", "", None, lambda arguments: "ok"), chat=answer)
    await conversation.ask(abort=abort, approve=thinking, dialect=Native())
    assert [event.name for event in conversation.events] == [
        *("run_start", "turn_start", "request", "reply", "decision"),
        *("tool_call", "tool_result", "loop_end"),
    ]
    assert await conversation.problems() == []


@for_each("count", [1, 2])
async def test_a_tool_that_returns_despite_its_cancellation_does_not_hide_the_cancellation(
    new_conversation, count
):
    started = asyncio.Event()

    async def return_partial(arguments):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "partial"

    calls = [ToolCall(f"c{number}", "f", "{}") for number in range(count)]
    conversation = new_conversation(
        [Message.assistant("", calls)], Tool("f", "", None, return_partial)
    )
    running = asyncio.create_task(conversation.ask(dialect=Native()))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    results = [each.text for each in await conversation.history() if each.role == "tool"]
    assert results == ["partial"] * count
    assert await conversation.problems() == []
