"""Tests of runs that are resumed after an approval or after a crash."""

import asyncio
import shutil

import pytest

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage1_context import (
    CallFinishedRecord,
    CallStartedRecord,
    ContextEngine,
    MemoryStore,
    SessionConflict,
    SqliteStore,
)
from stage2_output import OutputController
from stage3_tools import (
    Approve,
    Later,
    Reject,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)

SEND = Message.assistant("", [ToolCall("a", "look", "{}"), ToolCall("b", "send", '{"to": "Ann"}')])


class World:
    """Tools that record their calls, and processes that use one session of a store."""

    def __init__(self, store, native):
        self.store, self.native, self.ran, self.keys = store, native, [], []
        self.registry = ToolRegistry(
            Tool("look", "", None, self._doing("look"), effect="read"),
            Tool("send", "", None, self._doing("send"), needs_approval=True),
            Tool("put", "", None, self._doing("put"), effect="idempotent"),
        )

    def _doing(self, name):
        def do(arguments, context):
            self.ran.append(name)
            self.keys.append((context.call_id, context.idempotency_key))
            return f"{name} done"

        return do

    async def run(self, *replies, question=None, resume=False, **options):
        """Run the loop in a new process: with a new gateway and a new engine."""
        model = ScriptedModel(replies)
        async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
            engine = ContextEngine(store=self.store)
            deps = ToolLoopDeps(gateway.chat, engine, OutputController(), self.registry)
            given = ToolLoopOptions(dialect=self.native, **options)
            result = await run_tool_loop(deps, "s", question, given, resume=resume)
            model.assert_finished()
        return result

    async def left_by_a_dead_process(self, message, *started):
        """Create a session that ends with this reply and with these calls started."""
        engine = ContextEngine(store=self.store)
        await engine.create_session("s")
        transcript = engine.transcript("s")
        await transcript.append(Message.user("Go."), message)
        calls = {call.id: call.name for call in message.tool_calls}
        await transcript.append(*(CallStartedRecord(each, calls[each]) for each in started))

    async def history(self):
        return list(await ContextEngine(store=self.store).history("s"))

    async def results(self):
        return [
            (each.tool_call_id, each.text.split("\n")[0])
            for each in await self.history()
            if each.role == "tool"
        ]

    async def problems(self):
        return (await ContextEngine(store=self.store).history("s")).check_history()


@pytest.fixture(params=["memory", "file"])
async def world(request, tmp_path, native):
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "sessions.db")
    made = World(store, native)
    yield made
    await store.aclose()


async def waiting(world, **options):
    await ContextEngine(store=world.store).create_session("s")
    return await world.run(SEND, question="Write to Ann.", **options)


@pytest.mark.parametrize(
    "approve", [None, lambda request: request.tool == "look" or Later()], ids=["none", "later"]
)
async def test_a_call_that_waits_for_approval_ends_the_run_before_any_call_of_its_turn_runs(
    world, approve
):
    events = []
    result = await waiting(world, approve=approve, on_event=events.append)
    assert (result.status, result.reply, world.ran) == ("awaiting_approval", None, [])
    assert [call.id for call in result.pending_approvals] == ["b"]
    assert result.status_reason.startswith("Waiting for approval: send.")
    assert [event.name for event in events] == [
        "turn_start",
        "decision",
        "tool_call",
        "tool_call",
        "approval_pending",
        "turn_end",
        "loop_end",
    ]
    kinds = [record.kind for _, record in await world.store.read("s")]
    assert kinds == ["message", "call", "approval_pending"]


async def test_a_waiting_call_runs_after_approval_in_another_process(world):
    await waiting(world)
    result = await world.run("Sent.", resume=True, approve=lambda request: True)
    assert (result.status, result.reply, result.tool_rounds) == ("completed", "Sent.", 1)
    assert sorted(world.ran) == ["look", "send"]
    assert await world.results() == [("a", "look done"), ("b", "send done")]
    assert await world.problems() == []


async def test_a_waiting_call_that_is_rejected_does_not_run(world):
    await waiting(world)
    await world.run(
        "Then not.", resume=True, approve=lambda request: request.tool == "look" or Reject("No.")
    )
    assert world.ran == ["look"]
    assert await world.results() == [
        ("a", "look done"),
        ("b", '{"status": "rejected", "message": "No."}'),
    ]


async def test_a_waiting_call_may_be_deferred_again_and_still_runs_once(world):
    await waiting(world)
    again = await world.run(resume=True)
    assert (again.status, again.stats.turns, world.ran) == ("awaiting_approval", 0, [])
    await world.run("Sent.", resume=True, approve=lambda request: Approve())
    assert sorted(world.ran) == ["look", "send"]


async def test_a_new_question_cancels_a_waiting_call_and_the_model_sees_the_reason(world):
    await waiting(world)
    result = await world.run("Fine.", question="Never mind.")
    assert (result.reply, world.ran) == ("Fine.", [])
    why = "The conversation continued before this call was approved. It was not run."
    error = f"Error (interrupted): {why}"
    assert await world.results() == [("a", error), ("b", error)]
    assert await world.problems() == []


async def test_a_resumed_run_may_add_a_question(world):
    await waiting(world)
    await world.run("Both.", question="And say hello.", resume=True, approve=lambda request: True)
    assert [each.role for each in await world.history()] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
    ]


async def test_an_idempotency_key_is_the_same_in_every_process_and_different_for_each_call(
    tmp_path, native
):
    dying = World(SqliteStore(tmp_path / "sessions.db"), native)
    await dying.left_by_a_dead_process(
        Message.assistant("", [ToolCall("p", "put"), ToolCall("q", "put")]), "p", "q"
    )
    await dying.store.aclose()
    shutil.copy(tmp_path / "sessions.db", tmp_path / "copy.db")
    keys = []
    for name in ("sessions.db", "copy.db"):
        world = World(SqliteStore(tmp_path / name), native)
        await world.run("So.", resume=True)
        await world.store.aclose()
        keys.append(sorted(world.keys))
    assert keys[0] == keys[1]
    assert len({key for _, key in keys[0]}) == 2


async def test_after_a_crash_only_started_calls_without_side_effects_run_again(world):
    message = Message.assistant(
        "",
        [ToolCall("a", "look"), ToolCall("b", "send"), ToolCall("c", "put"), ToolCall("d", "send")],
    )
    await world.left_by_a_dead_process(message, "a", "b", "c")
    result = await world.run("So.", resume=True, approve=lambda request: True)
    assert result.reply == "So."
    assert sorted(world.ran) == ["look", "put", "send"]  # the second send was not started
    assert await world.results() == [
        ("a", "look done"),
        ("b", "Error (interrupted): The program ended before this call had a result."),
        ("c", "put done"),
        ("d", "send done"),
    ]
    assert [each.result.status for each in result.history] == [
        "completed",
        "unknown_effect",
        "completed",
        "completed",
    ]
    assert await world.problems() == []


@pytest.mark.parametrize("resume", [True, False])
async def test_details_of_a_call_that_finished_before_a_crash_are_restored(world, resume):
    ended = CallFinishedRecord("b", "completed", Message.tool("sent", "b"), {"log": "x"})
    await world.left_by_a_dead_process(SEND, "b")
    await ContextEngine(store=world.store).transcript("s").append(ended)
    result = await world.run("Sent.", question=None if resume else "And?", resume=resume)
    assert (await world.results())[1] == ("b", "sent")
    assert await ContextEngine(store=world.store).details("s") == {"b": {"log": "x"}}
    if resume:
        [look, send] = result.history
        assert (look.result.details, send.result.details) == (None, {"log": "x"})
        assert send.result.value is None


async def test_a_started_call_of_a_removed_tool_has_an_unknown_effect(world):
    await world.left_by_a_dead_process(Message.assistant("", [ToolCall("x", "gone")]), "x")
    result = await world.run("So.", resume=True)
    assert [each.result.status for each in result.history] == ["unknown_effect"]


async def test_a_run_that_crashed_during_a_request_resumes_from_the_stored_results(world):
    await world.left_by_a_dead_process(Message.assistant("", [ToolCall("a", "look")]))
    engine = ContextEngine(store=world.store)
    await engine.transcript("s").append(Message.tool("look done", "a"))
    result = await world.run("So.", resume=True)
    assert (result.reply, world.ran, result.tool_rounds) == ("So.", [], 0)


async def test_a_finished_run_resumes_with_its_last_reply_and_without_a_request(
    world,
):
    engine = ContextEngine(store=world.store)
    await engine.create_session("s")
    await engine.transcript("s").append(Message.user("Go."), Message.assistant("Done."))
    result = await world.run(resume=True)
    assert (result.status, result.reply, result.stats.turns) == ("completed", "Done.", 0)


async def test_the_current_question_stays_in_the_window_of_a_resumed_run(world):
    await world.left_by_a_dead_process(Message.assistant("", [ToolCall("a", "look")]))
    engine = ContextEngine(store=world.store)
    await engine.transcript("s").append(
        Message.tool("look done", "a"),
        Message.assistant("hm"),
        Message("user", "[Feedback]\nNo JSON was found.", name="feedback"),
    )
    result = await world.run("So.", resume=True)
    assert result.messages[0] == Message.user("Go.")


async def test_a_run_without_a_question_requires_resume(world):
    await ContextEngine(store=world.store).create_session("s")
    with pytest.raises(
        ValueError, match=r"The question is missing\. To continue without one, pass resume=True"
    ):
        await world.run()


async def test_a_resumed_run_does_not_repeat_the_question(world):
    await waiting(world)
    await world.run("Sent.", resume=True, approve=lambda request: True)
    assert [each.text for each in await world.history() if each.role == "user"] == ["Write to Ann."]


async def test_a_question_that_cannot_be_asked_yet_is_reported_in_the_status_reason(world):
    await waiting(world)
    result = await world.run(question="And say hello.", resume=True)
    assert result.status_reason.endswith("The question was not asked.")
    assert [each.text for each in await world.history() if each.role == "user"] == ["Write to Ann."]


async def test_two_processes_that_resume_the_same_calls_run_each_tool_once(world):
    """The first process is still running when the second resumes its calls."""
    await world.left_by_a_dead_process(
        Message.assistant("", [ToolCall("a", "put"), ToolCall("b", "put")])
    )
    asked = asyncio.Event()

    async def slow(request):
        asked.set()
        await done.wait()
        return True

    done = asyncio.Event()
    first = asyncio.create_task(world.run(resume=True, approve=slow, approve_all=True))
    await asked.wait()
    second = await world.run("So.", resume=True, approve=lambda request: True)
    done.set()
    with pytest.raises(SessionConflict, match="Another writer continued the session"):
        await first
    assert (second.reply, sorted(world.ran)) == ("So.", ["put", "put"])
    assert await world.problems() == []


async def test_a_variable_that_is_stored_during_an_approval_causes_no_conflict(world):
    await waiting(world)
    engine = ContextEngine(store=world.store)

    async def approve(request):
        await engine.variables.put("s", "a note")
        return True

    assert (await world.run("Sent.", resume=True, approve=approve)).reply == "Sent."
    assert sorted(world.ran) == ["look", "send"]


class Racing(MemoryStore):
    """A store in which another process starts a call just before its error is stored."""

    async def append(self, session_id, *records, expected=None):
        if any("It was not run" in str(record) for record in records):
            await super().append(session_id, CallStartedRecord("b", "send"))
        return await super().append(session_id, *records, expected=expected)


async def test_a_call_that_another_process_has_started_is_not_reported_as_not_run(native):
    world = World(Racing(), native)
    await waiting(world)
    with pytest.raises(SessionConflict):
        await world.run(question="Never mind.")
    assert await world.results() == []


@pytest.mark.parametrize("resume", [True, False])
async def test_a_second_call_with_the_same_id_gets_its_own_result(world, resume):
    engine = ContextEngine(store=world.store)
    await engine.create_session("s")
    twice = Message.assistant("", [ToolCall("a", "look"), ToolCall("a", "look")])
    await engine.transcript("s").append(Message.user("Go."), twice, Message.tool("ok", "a"))
    result = await world.run("So.", question="And now?", resume=resume)
    assert (result.reply, world.ran) == ("So.", [])
    assert await world.problems() == []
