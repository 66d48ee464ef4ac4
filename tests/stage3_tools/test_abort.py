"""An abort prevents every further request and tool call, for every trigger and entry point."""

import asyncio
import json
import threading

import pytest

from stage0_gateway import ChatResponse, Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    Abort,
    NativeDialect,
    PromptDialect,
    RunLimits,
    RunnerParams,
    Tool,
    ToolChainOptions,
    ToolError,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    ToolRunner,
    execute_tool_chain,
    run_tool_loop,
)
from tests.stage3_tools.clock import without_waiting
from tests.tables import for_each

ENTRY_POINTS = ["loop", "resume", "runner", "steps", "chain"]
CALLBACKS = [
    "before_send",
    "turn_start",
    "decision",
    "tool_call",
    "approve",
    "tool",
    "failing tool",
    "thread",
    "approve_result",
    "tool_result",
    "turn_end",
]


class AbortedRun:
    """A chat function that always requests two calls, and a record of what runs after the abort."""

    def __init__(self, abort, trigger, dialect):
        self.abort, self.trigger, self.dialect = abort, trigger, dialect
        self.after: list[str] = []  # requests and tool calls since the abort was set
        self.turns = 0
        self.tool = Tool("f", "", {"type": "object"}, self.run_tool, effect="read", retry=3)
        self.registry = ToolRegistry(self.tool)

    def reached(self, where):
        if where == self.trigger and self.turns == 2:
            self.set_abort()

    def set_abort(self):
        self.abort.set()

    def note(self, what):
        if self.abort.is_set():
            self.after.append(what)

    async def chat(self, messages, **settings):
        self.note("request")
        self.turns += 1
        if isinstance(self.dialect, NativeDialect):
            return ChatResponse(self.reply(), "tool_calls")
        call = {"tool": "f", "arguments": {"turn": self.turns}}
        return ChatResponse(Message.assistant(json.dumps([call, call])), "stop")

    def reply(self):
        return Message.assistant(
            "", [ToolCall(f"{self.turns}{name}", "f", f'{{"turn": {self.turns}}}') for name in "ab"]
        )

    async def run_tool(self, arguments):
        self.note("tool")
        self.reached("tool")
        if self.trigger == "thread" and self.turns == 2:
            thread = threading.Thread(target=self.set_abort)
            thread.start()
            thread.join()
        if self.trigger == "failing tool" and self.turns == 2:
            self.set_abort()
            raise ToolError("network", "not now", retryable=True, retry_delay=0)
        return "ok"

    def send(self):
        self.note("before_send")
        self.reached("before_send")

    def ask(self, where):
        self.reached(where)
        return True

    def options(self):
        return {
            "abort": self.abort,
            "dialect": self.dialect,
            "max_parallel_tools": 1,
            "before_send": lambda messages, info: self.send(),
            "approve": lambda request: self.ask("approve"),
            "approve_all": True,
            "approve_result": lambda request: self.ask("approve_result"),
            "on_event": lambda event: self.reached(event.name),
        }

    async def run(self, entry_point):
        """Run one entry point to its end; returns the status, its reason, and the final history."""
        if entry_point == "chain":
            self.turns = 1
            options = ToolChainOptions(self.chat, max_rounds=9, **self.options())
            result = await execute_tool_chain(self.registry, self.reply(), options)
            return result.status, result.status_reason, result.messages.complete
        engine = ContextEngine()
        deps = ToolLoopDeps(self.chat, engine, OutputController(), self.registry)
        session = await engine.create_session()
        if entry_point in ("runner", "steps"):
            params = RunnerParams(
                messages=[Message.user("Go.")],
                session_id=session,
                max_tool_rounds=9,
                **self.options(),
            )
            runner = ToolRunner(deps, params)
            async for _ in runner:
                if entry_point == "steps":
                    await runner.generate_tool_response()
            result = runner.result
        else:
            options = ToolLoopOptions(max_tool_rounds=9, **self.options())
            if entry_point == "resume":
                await engine.add_message(session, Message.user("Go."))
                await engine.add_message(
                    session, Message.assistant("", [ToolCall("0a", "f"), ToolCall("0b", "f")])
                )
            question = None if entry_point == "resume" else "Go."
            result = await run_tool_loop(
                deps, session, question, options, resume=entry_point == "resume"
            )
        return result.status, result.status_reason, await engine.history(session)


@for_each("entry_point", ENTRY_POINTS)
@for_each("trigger", CALLBACKS)
@for_each(
    "dialect, kind", [(NativeDialect(), Abort), (PromptDialect(multiple=True), asyncio.Event)]
)
async def test_nothing_is_requested_and_no_tool_is_called_after_the_abort(
    trigger, entry_point, dialect, kind
):
    run = AbortedRun(kind(), trigger, dialect)
    status, reason, history = await run.run(entry_point)
    assert run.abort.is_set()
    assert (status, reason, run.after) == ("aborted", "The run was aborted.", [])
    calls = [call.id for message in history for call in message.tool_calls]
    results = [message.tool_call_id for message in history if message.role == "tool"]
    assert sorted(calls) == sorted(results)


@for_each("entry_point", ENTRY_POINTS)
async def test_the_reason_of_an_abort_is_the_reason_of_the_status(entry_point):
    run = AbortedRun(Abort(), "tool_result", NativeDialect())
    run.set_abort = lambda: run.abort.set("The user closed the window.")
    status, reason, _ = await run.run(entry_point)
    assert (status, reason) == ("aborted", "The run was aborted: The user closed the window.")


@for_each("entry_point", ENTRY_POINTS)
async def test_an_abort_that_is_set_before_the_run_prevents_every_request_and_call(entry_point):
    abort = Abort()
    abort.set("too late")
    run = AbortedRun(abort, "", NativeDialect())
    status, reason, _ = await run.run(entry_point)
    assert (status, reason, run.after) == ("aborted", "The run was aborted: too late", [])


async def test_an_abort_from_another_thread_stops_a_pending_request():
    abort, waiting = Abort(), asyncio.Event()

    async def chat(messages, **settings):
        waiting.set()
        await asyncio.Event().wait()

    run = AbortedRun(abort, "", NativeDialect())
    run.chat = chat
    running = asyncio.create_task(run.run("loop"))
    await waiting.wait()
    thread = threading.Thread(target=abort.set, args=("from a thread",))
    thread.start()
    assert (await running)[:2] == ("aborted", "The run was aborted: from a thread")
    thread.join()


async def test_a_retryable_failure_is_not_retried_after_its_tool_aborts():
    run, events = AbortedRun(Abort(), "failing tool", NativeDialect()), []
    options = run.options()
    run.options = lambda: options | {"on_event": events.append, "approve_result": None}
    await run.run("loop")
    failed = next(each.result for each in events if each.name == "tool_result" and each.turn == 2)
    assert (failed.error.message, failed.attempts) == ("not now", 1)
    assert "tool_retry" not in [each.name for each in events]


async def test_a_streamed_reply_is_not_requested_when_its_listener_aborts():
    abort = Abort()
    async with Gateway("openai:m", transport=ScriptedModel([]), max_retries=0) as gateway:
        engine = ContextEngine()
        deps = ToolLoopDeps(gateway, engine, OutputController(), ToolRegistry(), stream=True)
        options = ToolLoopOptions(
            abort=abort, on_event=lambda event: event.name == "reply_stream" and abort.set()
        )
        result = await run_tool_loop(deps, await engine.create_session(), "Go.", options)
    assert (result.status, result.reply) == ("aborted", None)


def test_one_abort_stops_runs_in_several_event_loops():
    abort, ready, ended = Abort(), threading.Barrier(3), []

    async def wait():
        waiting = asyncio.ensure_future(abort.wait())
        await asyncio.sleep(0)
        ready.wait()
        await waiting
        ended.append(abort.reason)

    threads = [threading.Thread(target=lambda: asyncio.run(wait())) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait()
    abort.set("first")
    abort.set("second")
    for thread in threads:
        thread.join(5)
    assert (ended, repr(abort)) == (["first"] * 2, "Abort(is_set=True, reason='first')")


async def test_waiting_for_an_abort_that_is_set_returns_at_once():
    abort = Abort()
    waiting = asyncio.create_task(abort.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    abort.set()
    await abort.wait()
    assert abort.is_set()


async def test_an_abort_may_be_shared_by_runs_with_a_time_limit():
    abort = Abort()
    runs = [AbortedRun(abort, "turn_end", NativeDialect()) for _ in range(3)]
    for run in runs:
        limited = run.options
        run.options = lambda limited=limited: {**limited(), "limits": RunLimits(seconds=60)}
    results = await asyncio.gather(*(run.run("loop") for run in runs))
    assert [(status, run.after) for (status, *_), run in zip(results, runs, strict=True)] == [
        ("aborted", [])
    ] * 3


@for_each("wrong", [threading.Event(), True, "now"])
def test_an_abort_of_another_type_raises_an_error_that_names_the_valid_types(wrong):
    with pytest.raises(
        TypeError, match=r"abort must be an Abort\(\) or an asyncio.Event\(\), or None, "
    ):
        ToolLoopOptions(abort=wrong)


@for_each("entry_point", ["loop", "runner", "chain"])
@for_each("where", ["chat", "before_send", "approve"])
@without_waiting
async def test_a_time_limit_holds_even_if_a_user_function_suppresses_the_cancellation(
    entry_point, where
):
    run = AbortedRun(Abort(), "", NativeDialect())

    async def suppress():
        if run.turns == 2:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                run.turns_when_stopped = run.turns

    chat, options = run.chat, run.options

    async def slow_chat(messages, **settings):
        response = await chat(messages, **settings)
        if where == "chat":
            await suppress()
        return response

    async def slow_approve(request):
        await suppress()
        return True

    async def slow_before_send(messages, info):
        await suppress()

    slow = {"before_send": slow_before_send, "approve": slow_approve}
    run.chat = slow_chat
    changed = {"limits": RunLimits(seconds=60)} | {
        name: slow[name] for name in slow if name == where
    }
    run.options = lambda: options() | changed
    status, reason, _ = await run.run(entry_point)
    assert (status, run.turns) == ("timeout", run.turns_when_stopped)
    assert reason == "The run took longer than its limit of 60 s."


@pytest.fixture
def paused_threads():
    """Pause new threads before they run; call the fixture to continue and join them."""
    proceed, threads = threading.Event(), []

    def pause(frame, event, argument):
        if not proceed.is_set():
            threads.append(threading.current_thread())
            proceed.wait(30)

    def finish():
        threading.setprofile(None)
        proceed.set()
        for thread in threads:
            thread.join(10)

    threading.setprofile(pause)
    yield finish
    finish()


async def test_a_plain_tool_whose_thread_has_not_begun_is_not_called_after_an_abort(paused_threads):
    abort, called = Abort(), []

    async def stop(arguments):
        abort.set()

    plain = Tool("plain", "", None, lambda arguments: called.append(arguments))
    engine, calls = ContextEngine(), [ToolCall("a", "plain"), ToolCall("b", "stop")]

    async def chat(messages, **settings):
        return ChatResponse(Message.assistant("", calls), "tool_calls")

    deps = ToolLoopDeps(
        chat, engine, OutputController(), ToolRegistry(plain, Tool("stop", "", None, stop))
    )
    session = await engine.create_session()
    options = ToolLoopOptions(abort=abort, dialect=NativeDialect())
    result = await run_tool_loop(deps, session, "Go.", options)
    history = await engine.history(session)
    paused_threads()
    assert (called, history.check_history()) == ([], [])
    assert [each.result.status for each in result.history][:1] == ["interrupted"]
