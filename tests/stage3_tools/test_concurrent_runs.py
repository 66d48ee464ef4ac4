"""Tests of several processes that use one session, simulated by engines on the same file."""

import asyncio
import random
from collections import Counter

import pytest

from stage0_gateway import ChatResponse, Message, ToolCall
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

OPTIONS = ToolLoopOptions(dialect=NativeDialect())


def engine_of(path, chat, *tools):
    return ToolLoopDeps(
        chat, ContextEngine(store=SqliteStore(path)), OutputController(), ToolRegistry(*tools)
    )


def reply(text="done", *calls):
    made = [ToolCall(each, each, "{}") for each in calls]
    return ChatResponse(Message.assistant(text, made), "tool_calls" if calls else "stop")


async def test_of_two_concurrent_runs_the_slower_one_raises_a_session_conflict(tmp_path):
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slow(messages, **settings):
        asked.set()
        await answered.wait()
        return reply("too late")

    async def quick(messages, **settings):
        return reply("done")

    slow, quick = engine_of(tmp_path / "s.db", slow), engine_of(tmp_path / "s.db", quick)
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

    async def calls(messages, **settings):
        return reply("", "wait") if len(messages) == 1 else reply()

    tool = Tool("wait", "", None, wait, effect="read")
    first, second = (engine_of(tmp_path / "s.db", calls, tool) for _ in range(2))
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
    chance, ran = random.Random(seed), Counter()
    names = "abcd"[: chance.randint(1, 4)]
    effects = {name: chance.choice(["write", "write", "read", "idempotent"]) for name in names}

    def tool(name, steps):
        async def run(arguments):
            ran[name] += 1
            for _ in range(steps):
                await asyncio.sleep(0)

        return Tool(name, "", None, run, effect=effects[name])

    tools = [tool(name, chance.choice([0, 3, 30])) for name in names]

    async def chat(messages, **settings):
        return reply() if any(each.role == "tool" for each in messages) else reply("", *names)

    all_deps = [engine_of(path, chat, *tools) for _ in range(3)]
    await all_deps[0].context_engine.create_session("s")
    running = [asyncio.create_task(run_tool_loop(all_deps[0], "s", "Go.", OPTIONS))]
    for deps in all_deps[1:]:
        for _ in range(chance.randint(3, 60)):
            await asyncio.sleep(0)
        running.append(asyncio.create_task(run_tool_loop(deps, "s", None, OPTIONS, resume=True)))
    ended = await asyncio.gather(*running, return_exceptions=True)
    assert all(isinstance(each, SessionConflict) or each.status == "completed" for each in ended)
    # A run with a conflict has given up, so one more run resumes the session.
    last = await run_tool_loop(all_deps[0], "s", None, OPTIONS, resume=True)
    assert last.status == "completed"
    assert (await all_deps[0].context_engine.history("s")).check_history() == []
    assert all(count == 1 for name, count in ran.items() if effects[name] == "write")
    for deps in all_deps:
        await deps.context_engine.aclose()


async def test_concurrent_resumes_leave_a_valid_history_and_run_no_write_twice(tmp_path):
    for seed in range(40):
        await resume_concurrently(tmp_path / f"{seed}.db", seed)


async def test_a_message_added_while_a_tool_runs_is_placed_after_its_result(tmp_path):
    begun, proceed = asyncio.Event(), asyncio.Event()

    async def wait(arguments):
        begun.set()
        await proceed.wait()

    async def chat(messages, **settings):
        roles = [each.role for each in messages]
        return reply("", "wait") if roles == ["user"] else reply(" ".join(roles))

    deps = engine_of(tmp_path / "s.db", chat, Tool("wait", "", None, wait, effect="read"))
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
        return reply() if any(each.role == "tool" for each in messages) else reply("", "pay")

    pay = Tool("pay", "", None, lambda arguments: ran.append(1), needs_approval=True)
    deps = engine_of(tmp_path / "s.db", chat, pay)
    await deps.context_engine.create_session("s")
    assert (await run_tool_loop(deps, "s", "Go.", OPTIONS)).status == "awaiting_approval"
    await deps.context_engine.add_message("s", Message.user("Well?"))
    consents = ToolLoopOptions(dialect=NativeDialect(), approve=lambda request: True)
    assert (await run_tool_loop(deps, "s", None, consents, resume=True)).status == "completed"
    assert (ran, (await deps.context_engine.history("s")).check_history()) == ([1], [])
    await deps.context_engine.aclose()
