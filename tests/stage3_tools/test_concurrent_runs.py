"""Tests of several processes that use one session, simulated by engines on the same file."""

import asyncio
import random
from collections import Counter

import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import ContextEngine, SessionConflict, SqliteStore
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    RunState,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
    run_turn,
)
from tests.stage3_tools.conversation import native_response

OPTIONS = ToolLoopOptions(dialect=NativeDialect())


def deps_of(path, chat, *tools):
    return ToolLoopDeps(
        chat, ContextEngine(store=SqliteStore(path)), OutputController(), ToolRegistry(*tools)
    )


async def test_of_two_concurrent_runs_the_slower_one_raises_a_session_conflict(tmp_path):
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slow(messages, **settings):
        asked.set()
        await answered.wait()
        return native_response(text="too late")

    async def quick(messages, **settings):
        return native_response()

    slow, quick = deps_of(tmp_path / "s.db", slow), deps_of(tmp_path / "s.db", quick)
    await quick.context_engine.create_session("s")
    first = asyncio.create_task(run_tool_loop(slow, "s", "One?", OPTIONS))
    await asked.wait()
    assert (await run_tool_loop(quick, "s", "Two?", OPTIONS)).reply == "done"
    answered.set()
    with pytest.raises(SessionConflict, match="continued the session"):
        await first
    texts = [each.text for each in await quick.context_engine.history("s")]
    assert texts == ["One?", "Two?", "done"]
    for deps in (slow, quick):
        await deps.context_engine.aclose()


async def test_a_second_process_cannot_send_a_request_while_the_first_runs_calls(tmp_path):
    begun, proceed = asyncio.Event(), asyncio.Event()

    async def wait(arguments):
        begun.set()
        await proceed.wait()

    async def chat(messages, **settings):
        calls = [ToolCall("wait", "wait")] if len(messages) == 1 else []
        return native_response(*calls)

    tool = Tool("wait", "", None, wait, effect="read")
    first, second = (deps_of(tmp_path / "s.db", chat, tool) for _ in range(2))
    await first.context_engine.create_session("s")
    running = asyncio.create_task(run_tool_loop(first, "s", "Go.", OPTIONS))
    await begun.wait()
    runner = second.context_engine.transcript("s")
    with pytest.raises(SessionConflict, match="have no results yet"):
        await run_turn(RunState(second, runner, OPTIONS))
    proceed.set()
    assert (await running).reply == "done"
    for deps in (first, second):
        await deps.context_engine.aclose()


async def resume_concurrently(path, seed):
    """Run three processes that resume the same calls at random times, and check how often each tool
    ran."""
    rng, ran = random.Random(seed), Counter()
    names = "abcd"[: rng.randint(1, 4)]
    effects = {name: rng.choice(["write", "write", "read", "idempotent"]) for name in names}

    def tool(name, steps):
        async def run(arguments):
            ran[name] += 1
            for _ in range(steps):
                await asyncio.sleep(0)

        return Tool(name, "", None, run, effect=effects[name])

    tools = [tool(name, rng.choice([0, 3, 30])) for name in names]

    async def chat(messages, **settings):
        if any(each.role == "tool" for each in messages):
            return native_response()
        return native_response(*(ToolCall(name, name) for name in names))

    processes = [deps_of(path, chat, *tools) for _ in range(3)]
    await processes[0].context_engine.create_session("s")
    running = [asyncio.create_task(run_tool_loop(processes[0], "s", "Go.", OPTIONS))]
    for deps in processes[1:]:
        for _ in range(rng.randint(3, 60)):
            await asyncio.sleep(0)
        running.append(asyncio.create_task(run_tool_loop(deps, "s", None, OPTIONS, resume=True)))
    ended = await asyncio.gather(*running, return_exceptions=True)
    assert all(isinstance(each, SessionConflict) or each.status == "completed" for each in ended)
    # A run with a conflict has given up, so one more run resumes the session.
    last = await run_tool_loop(processes[0], "s", None, OPTIONS, resume=True)
    assert last.status == "completed"
    assert (await processes[0].context_engine.history("s")).check_history() == []
    assert all(count == 1 for name, count in ran.items() if effects[name] == "write")
    for deps in processes:
        await deps.context_engine.aclose()


@pytest.mark.parametrize("runs", [10, pytest.param(100, marks=pytest.mark.long)])
async def test_concurrent_resumes_leave_a_valid_history_and_run_no_write_twice(tmp_path, runs):
    for seed in range(runs):
        await resume_concurrently(tmp_path / f"{seed}.db", seed)


async def test_a_message_added_while_a_tool_runs_is_placed_after_its_result(tmp_path):
    begun, proceed = asyncio.Event(), asyncio.Event()

    async def wait(arguments):
        begun.set()
        await proceed.wait()

    async def chat(messages, **settings):
        roles = [each.role for each in messages]
        if roles == ["user"]:
            return native_response(ToolCall("wait", "wait"))
        return native_response(text=" ".join(roles))

    deps = deps_of(tmp_path / "s.db", chat, Tool("wait", "", None, wait, effect="read"))
    await deps.context_engine.create_session("s")
    running = asyncio.create_task(run_tool_loop(deps, "s", "Go.", OPTIONS))
    await begun.wait()
    await deps.context_engine.add_message("s", Message.user("Hurry."))
    proceed.set()
    assert (await running).reply == "user assistant tool user"
    assert (await deps.context_engine.history("s")).check_history() == []
    await deps.context_engine.aclose()


async def test_a_message_added_while_a_call_waits_does_not_hide_the_call(tmp_path):
    ran = []

    async def chat(messages, **settings):
        if any(each.role == "tool" for each in messages):
            return native_response()
        return native_response(ToolCall("pay", "pay"))

    pay = Tool("pay", "", None, lambda arguments: ran.append(1), needs_approval=True)
    deps = deps_of(tmp_path / "s.db", chat, pay)
    await deps.context_engine.create_session("s")
    assert (await run_tool_loop(deps, "s", "Go.", OPTIONS)).status == "awaiting_approval"
    await deps.context_engine.add_message("s", Message.user("Well?"))
    consents = ToolLoopOptions(dialect=NativeDialect(), approve=lambda request: True)
    assert (await run_tool_loop(deps, "s", None, consents, resume=True)).status == "completed"
    assert (ran, (await deps.context_engine.history("s")).check_history()) == ([1], [])
    await deps.context_engine.aclose()
