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
from tests.stage3_tools.conversation import Native

SEND = Message.assistant("", [ToolCall("a", "look", "{}"), ToolCall("b", "send", '{"to": "Ann"}')])


class SharedSession:
    """A session in a store, which several processes use, and tools that record their calls."""

    def __init__(self, store):
        self.store, self.ran, self.keys = store, [], []
        self.registry = ToolRegistry(
            Tool("look", "", None, self._execute("look"), effect="read"),
            Tool("send", "", None, self._execute("send"), needs_approval=True),
            Tool("put", "", None, self._execute("put"), effect="idempotent"),
        )

    def _execute(self, name):
        def execute(arguments, context):
            self.ran.append(name)
            self.keys.append((context.call_id, context.idempotency_key))
            return f"{name} done"

        return execute

    async def run(self, *replies, question=None, resume=False, **options):
        """Run the loop in a new process: with a new gateway and a new engine."""
        model = ScriptedModel(replies)
        async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
            engine = ContextEngine(store=self.store)
            deps = ToolLoopDeps(gateway, engine, OutputController(), self.registry)
            given = ToolLoopOptions(dialect=Native(), **options)
            result = await run_tool_loop(deps, "s", question, given, resume=resume)
            model.assert_finished()
        return result

    async def crash_after(self, message, *started):
        """Create the session of a process that ended after this reply, with these calls started."""
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


@pytest.fixture
async def session(tmp_path):
    store = SqliteStore(tmp_path / "sessions.db")
    yield SharedSession(store)
    await store.aclose()


async def waiting(session, **options):
    await ContextEngine(store=session.store).create_session("s")
    return await session.run(SEND, question="Write to Ann.", **options)


@pytest.mark.parametrize(
    "approve", [None, lambda request: request.tool == "look" or Later()], ids=["none", "later"]
)
async def test_a_call_that_waits_for_approval_ends_the_run_before_any_call_of_its_turn_runs(
    session, approve
):
    events = []
    result = await waiting(session, approve=approve, on_event=events.append)
    assert (result.status, result.reply, session.ran) == ("awaiting_approval", None, [])
    assert [call.id for call in result.pending_approvals] == ["b"]
    assert result.status_reason.startswith("Waiting for approval: send.")
    assert [event.name for event in events if event.name != "approval"] == [
        *("run_start", "turn_start", "request", "reply", "decision"),
        *("tool_call", "tool_call", "approval_pending", "turn_end", "loop_end"),
    ]
    verdicts = [event.verdict for event in events if event.name == "approval"]
    assert verdicts == ([] if approve is None else [Later()])
    kinds = [record.kind for _, record in await session.store.read("s")]
    assert kinds == ["message", "call", "approval_pending"]


async def test_a_waiting_call_runs_after_approval_in_another_process(session):
    await waiting(session)
    result = await session.run("Sent.", resume=True, approve=lambda request: True)
    assert (result.status, result.reply, result.tool_rounds) == ("completed", "Sent.", 1)
    assert sorted(session.ran) == ["look", "send"]
    assert await session.results() == [("a", "look done"), ("b", "send done")]
    assert await session.problems() == []


async def test_a_waiting_call_that_is_rejected_does_not_run(session):
    await waiting(session)
    await session.run(
        "Then not.", resume=True, approve=lambda request: request.tool == "look" or Reject("No.")
    )
    assert session.ran == ["look"]
    assert await session.results() == [
        ("a", "look done"),
        ("b", '{"status": "rejected", "message": "No."}'),
    ]


async def test_a_waiting_call_may_be_deferred_again_and_still_runs_once(session):
    await waiting(session)
    again = await session.run(resume=True)
    assert (again.status, again.stats.turns, session.ran) == ("awaiting_approval", 0, [])
    await session.run("Sent.", resume=True, approve=lambda request: Approve())
    assert sorted(session.ran) == ["look", "send"]


async def test_a_new_question_cancels_a_waiting_call_and_the_model_sees_the_reason(session):
    await waiting(session)
    result = await session.run("Fine.", question="Never mind.")
    assert (result.reply, session.ran) == ("Fine.", [])
    why = "The conversation continued before this call was approved. It was not run."
    error = f"Error (interrupted): {why}"
    assert await session.results() == [("a", error), ("b", error)]
    assert await session.problems() == []


async def test_a_resumed_run_may_add_a_question(session):
    await waiting(session)
    await session.run("Both.", question="And say hello.", resume=True, approve=lambda request: True)
    assert [each.role for each in await session.history()] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
    ]


async def test_an_idempotency_key_is_the_same_in_every_process_and_different_for_each_call(
    tmp_path,
):
    crashed = SharedSession(SqliteStore(tmp_path / "sessions.db"))
    await crashed.crash_after(
        Message.assistant("", [ToolCall("p", "put"), ToolCall("q", "put")]), "p", "q"
    )
    await crashed.store.aclose()
    shutil.copy(tmp_path / "sessions.db", tmp_path / "copy.db")
    keys = []
    for name in ("sessions.db", "copy.db"):
        session = SharedSession(SqliteStore(tmp_path / name))
        await session.run("So.", resume=True)
        await session.store.aclose()
        keys.append(sorted(session.keys))
    assert keys[0] == keys[1]
    assert len({key for _, key in keys[0]}) == 2


async def test_after_a_crash_only_started_calls_without_side_effects_run_again(session):
    message = Message.assistant(
        "",
        [ToolCall("a", "look"), ToolCall("b", "send"), ToolCall("c", "put"), ToolCall("d", "send")],
    )
    await session.crash_after(message, "a", "b", "c")
    result = await session.run("So.", resume=True, approve=lambda request: True)
    assert result.reply == "So."
    assert sorted(session.ran) == ["look", "put", "send"]  # the second send was not started
    assert await session.results() == [
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
    assert await session.problems() == []


@pytest.mark.parametrize("resume", [True, False])
async def test_details_of_a_call_that_finished_before_a_crash_are_restored(session, resume):
    ended = CallFinishedRecord("b", "completed", Message.tool("sent", "b"), {"log": "x"})
    await session.crash_after(SEND, "b")
    await ContextEngine(store=session.store).transcript("s").append(ended)
    result = await session.run("Sent.", question=None if resume else "And?", resume=resume)
    assert (await session.results())[1] == ("b", "sent")
    assert await ContextEngine(store=session.store).details("s") == {"b": {"log": "x"}}
    if resume:
        [look, send] = result.history
        assert (look.result.details, send.result.details) == (None, {"log": "x"})
        assert send.result.value is None


async def test_a_started_call_of_a_removed_tool_has_an_unknown_effect(session):
    await session.crash_after(Message.assistant("", [ToolCall("x", "gone")]), "x")
    result = await session.run("So.", resume=True)
    assert [each.result.status for each in result.history] == ["unknown_effect"]


async def test_a_run_that_crashed_during_a_request_resumes_from_the_stored_results(session):
    await session.crash_after(Message.assistant("", [ToolCall("a", "look")]))
    engine = ContextEngine(store=session.store)
    await engine.transcript("s").append(Message.tool("look done", "a"))
    result = await session.run("So.", resume=True)
    assert (result.reply, session.ran, result.tool_rounds) == ("So.", [], 0)


async def test_a_finished_run_resumes_with_its_last_reply_and_without_a_request(
    session,
):
    engine = ContextEngine(store=session.store)
    await engine.create_session("s")
    await engine.transcript("s").append(Message.user("Go."), Message.assistant("Done."))
    result = await session.run(resume=True)
    assert (result.status, result.reply, result.stats.turns) == ("completed", "Done.", 0)


async def test_the_current_question_stays_in_the_window_of_a_resumed_run(session):
    await session.crash_after(Message.assistant("", [ToolCall("a", "look")]))
    engine = ContextEngine(store=session.store)
    await engine.transcript("s").append(
        Message.tool("look done", "a"),
        Message.assistant("hm"),
        Message("user", "[Feedback]\nNo JSON was found.", name="feedback"),
    )
    result = await session.run("So.", resume=True)
    assert result.messages[0] == Message.user("Go.")


async def test_a_run_without_a_question_requires_resume(session):
    await ContextEngine(store=session.store).create_session("s")
    with pytest.raises(
        ValueError, match=r"The question is missing\. To continue without one, pass resume=True"
    ):
        await session.run()


async def test_a_resumed_run_does_not_repeat_the_question(session):
    await waiting(session)
    await session.run("Sent.", resume=True, approve=lambda request: True)
    assert [each.text for each in await session.history() if each.role == "user"] == [
        "Write to Ann."
    ]


async def test_a_question_that_cannot_be_asked_yet_is_reported_in_the_status_reason(session):
    await waiting(session)
    result = await session.run(question="And say hello.", resume=True)
    assert result.status_reason.endswith("The question was not asked.")
    assert [each.text for each in await session.history() if each.role == "user"] == [
        "Write to Ann."
    ]


async def test_two_processes_that_resume_the_same_calls_run_each_tool_once(session):
    """The first process is still running when the second resumes its calls."""
    await session.crash_after(Message.assistant("", [ToolCall("a", "put"), ToolCall("b", "put")]))
    asked = asyncio.Event()

    async def slow(request):
        asked.set()
        await done.wait()
        return True

    done = asyncio.Event()
    first = asyncio.create_task(session.run(resume=True, approve=slow, approve_all=True))
    await asked.wait()
    second = await session.run("So.", resume=True, approve=lambda request: True)
    done.set()
    with pytest.raises(SessionConflict, match="Another writer continued the session"):
        await first
    assert (second.reply, sorted(session.ran)) == ("So.", ["put", "put"])
    assert await session.problems() == []


async def test_a_variable_that_is_stored_during_an_approval_causes_no_conflict(session):
    await waiting(session)
    engine = ContextEngine(store=session.store)

    async def approve(request):
        await engine.variables.put("s", "a note")
        return True

    assert (await session.run("Sent.", resume=True, approve=approve)).reply == "Sent."
    assert sorted(session.ran) == ["look", "send"]


class RacingStore(MemoryStore):
    """A store in which another process starts a call just before its error is stored."""

    async def append(self, session_id, *records, expected=None):
        if any("It was not run" in str(record) for record in records):
            await super().append(session_id, CallStartedRecord("b", "send"))
        return await super().append(session_id, *records, expected=expected)


async def test_a_call_that_another_process_has_started_is_not_reported_as_not_run():
    session = SharedSession(RacingStore())
    await waiting(session)
    with pytest.raises(SessionConflict):
        await session.run(question="Never mind.")
    assert await session.results() == []


@pytest.mark.parametrize("resume", [True, False])
async def test_a_second_call_with_the_same_id_gets_its_own_result(session, resume):
    engine = ContextEngine(store=session.store)
    await engine.create_session("s")
    twice = Message.assistant("", [ToolCall("a", "look"), ToolCall("a", "look")])
    await engine.transcript("s").append(Message.user("Go."), twice, Message.tool("ok", "a"))
    result = await session.run("So.", question="And now?", resume=resume)
    assert (result.reply, session.ran) == ("So.", [])
    assert await session.problems() == []
