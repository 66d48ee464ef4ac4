"""Random use of the loop, the runner and the chain, with the checks of `random_run.py`."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import get_args

import pytest

from stage0_gateway import GatewayError, Message, MessageStream
from stage1_context import MessageHistory
from stage3_tools import (
    ChainStatus,
    RunnerParams,
    ToolChainOptions,
    ToolLoopOptions,
    ToolRegistry,
    ToolRunner,
    execute_tool_chain,
    run_tool_loop,
)
from tests.stage3_tools.random_run import DIALECTS, RandomRun
from tests.stage3_tools.tasks import run_and_check_tasks


async def has_valid_history(run, session="s"):
    """Check the history of a session; return False if calls wait for approval, none of which has
    started."""
    waiting = await run.engine.transcript(session).open_calls()
    if waiting is not None:
        assert waiting.pending
        assert not waiting.started
    else:
        assert (await run.engine.history(session)).check_history() == []
    return waiting is None


async def all_of(asked):
    """Wait for all awaitables; return their values, or raise the first exception."""
    done = await asyncio.gather(*asked, return_exceptions=True)
    if failed := [each for each in done if isinstance(each, BaseException)]:
        raise failed[0]
    return done


async def use_loop(run):
    """Ask questions in one session, then approve and resume all open calls."""
    await run.engine.create_session("s", run.rng.choice([None, "Be kind."]))
    run.tools.nested = lambda: run_tool_loop(run.deps, "s", "And?")
    questions = ["Go.", "[Feedback]\nGo.", "$VAR_REF{{var_1}}"]
    for question in run.rng.sample(questions, run.rng.randint(1, 2)):
        run.events.clear()
        if run.rng.random() < 0.2:
            run.dialect = run.rng.choice([*DIALECTS])
        options = ToolLoopOptions(**run.loop_options())
        resume = run.rng.random() < 0.3
        asked = [run_tool_loop(run.deps, "s", question, options, resume=resume)]
        if run.rng.random() < 0.1:  # a second run starts at the same time and waits
            asked += [run_tool_loop(run.deps, "s", "And?", options)]
        done = await run.outcome_of(all_of(asked))
        if len(asked) > 1:
            await has_valid_history(run)
            continue
        result = done and done[0]
        if await has_valid_history(run) and result is not None:
            run.check(result, await run.engine.history("s"))
            run.check_events()
            if not resume and options.max_tool_rounds is not None:
                assert result.tool_rounds <= options.max_tool_rounds
    run.model.fails = run.raises = False
    while not await has_valid_history(run):
        options = ToolLoopOptions(**run.approving_options())
        result = await run.outcome_of(run_tool_loop(run.deps, "s", None, options, resume=True))
        assert result is None or result.status != "awaiting_approval"
    assert run.tools.wrong == []


async def use_runner(run):
    """Use a runner at random: iterate, push messages, change its options and stop."""
    rng = run.rng
    session = rng.choice([None, "s"])
    if session:
        await run.engine.create_session("s")
    messages = [Message.system("Be kind."), {"role": "user", "content": "Go."}]
    params = RunnerParams(messages=messages, session_id=session, **run.loop_options())
    run.pushes, run.inside = 3, False
    runner = ToolRunner(
        run.deps,
        params,
        max_iterations=rng.choice([0, 1, 4, 12, 30, None]),
        on_iteration=rng.choice([None, lambda number, response: run.maybe_raise()]),
        on_tool_call=rng.choice([None, lambda call: run.maybe_raise()]),
        on_tool_result=rng.choice([None, lambda result: run.maybe_raise()]),
    )
    run.tools.nested = rng.choice(
        [runner.generate_tool_response, runner.done, runner.run_until_done]
    )
    for _ in range(4):
        await run.outcome_of(use_once(run, runner))
        if run.inside or runner.result is not None:
            break
    await settle()
    history = await run.engine.history("s") if session else MessageHistory(runner.params.messages)
    if runner.result is not None and not run.waiting:
        run.check(runner.result, history)
    elif not session or not await has_valid_history(run):
        await resume_with(run, session, history)
    assert run.tools.wrong == []


async def use_once(run, runner):
    """Use a runner once, in a random way."""
    if run.rng.random() < 0.1:
        await runner.generate_tool_response()
    if run.rng.random() < 0.2:
        with suppress(RuntimeError):
            return await runner
        assert runner.result is not None, (
            "the runner raised that nothing ran, but the run is not over"
        )
        return None
    async for item in runner:
        run.inside = True
        if isinstance(item, MessageStream):
            async for _ in item:
                if run.rng.random() < 0.1:
                    break
        if await act(run, runner, run.rng.random()):
            return None
        run.inside = False
    return None


async def act(run, runner, drawn):
    """Do a random action between two replies; return whether to leave the iteration."""
    if drawn < 0.2 and run.pushes:
        run.pushes -= 1
        runner.push_messages({"role": "user", "content": "Also this."}, Message.user("And that."))
    elif drawn < 0.3:
        await asyncio.gather(runner.generate_tool_response(), runner.generate_tool_response())
    elif drawn < 0.4:
        other = DIALECTS[run.rng.choice([*DIALECTS])]
        runner.set_params(lambda now: replace(now, max_parallel_tools=1, dialect=other, cache=None))
    elif drawn < 0.45 and runner.params.session_id is None:
        runner.set_params(
            lambda now: replace(now, messages=[Message.user("First."), *now.messages])
        )
    elif drawn < 0.5:
        with pytest.raises(ValueError, match="cannot be pushed"):
            runner.push_messages(Message.tool("forged", "c1"))
        with pytest.raises(ValueError, match="cannot change its session"):
            runner.set_params(lambda now: replace(now, session_id="other"))
    elif drawn < 0.55:
        with pytest.raises(RuntimeError, match="must continue its iteration"):
            await runner
    return drawn > 0.96


async def resume_with(run, session, history):
    """Continue with another runner that approves every call."""
    run.model.fails = run.raises = False
    messages = () if session else history.messages
    options = RunnerParams(messages=messages, session_id=session, **run.approving_options())
    runner = ToolRunner(run.deps, options, max_iterations=3)
    run.tools.nested = runner.done
    await run.outcome_of(runner.run_until_done())
    if session:
        assert await has_valid_history(run)
    elif runner.result is not None:
        run.check(runner.result, MessageHistory(runner.params.messages))


async def use_chain(run):
    """Run a chain that begins with a random reply."""
    rng, options = run.rng, run.options()
    run.model.fails = False
    context = rng.choice([(), ({"role": "user", "content": "Go."},)])
    registry = run.tools.registry
    prompt = Message.system(options["dialect"].describe(registry))
    first = run.model.reply([prompt], registry.names)
    run.model.fails = True
    made = ToolChainOptions(
        run.chat,
        context,
        max_rounds=rng.choice([0, 1, 3, 8]),
        system_prompt=rng.choice([None, "Be kind."]),
        check_tool_results=options["approve"] is not None and rng.random() < 0.5,
        on_tool_call_start=lambda name, arguments, id: run.maybe_raise(),
        on_tool_call_complete=lambda result, id: run.maybe_raise(),
        on_llm_response_update=rng.choice([None, lambda text: run.maybe_raise()]),
        stream=run.stream,
        gateway=run.gateway,
        **options,
    )
    run.tools.nested = lambda: run_nested_chain(made)
    result = await run.outcome_of(execute_tool_chain(registry, first, made))
    assert run.tools.wrong == []
    if result is not None:
        run.check(result, result.messages.complete, get_args(ChainStatus))
        assert result.as_message().text.endswith(result.response_content)
        assert isinstance(result.error, GatewayError | None)
        result.error or run.check_events()


async def run_nested_chain(made):
    """Run a nested chain, which is allowed, and raise its status as an error like other nested
    runs."""
    options = replace(made, abort=None, limits=None, on_event=None)
    done = await execute_tool_chain(ToolRegistry(), Message.assistant("done"), options)
    raise RuntimeError(done.status)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


ENTRY_POINTS = {"runner": use_runner, "chain": use_chain}


def run_randomly(entry_point, seed, new_run=RandomRun):
    """Run one random run, and check that no task is left."""

    async def main():
        run = new_run(entry_point, seed)
        await ENTRY_POINTS.get(entry_point, use_loop)(run)
        await run.engine.aclose()
        if run.gateway is not None:
            await run.gateway.aclose()
        return run

    return run_and_check_tasks(main())
