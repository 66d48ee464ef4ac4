"""Random replies and random tools in 500 runs: each run ends with a valid history.

The runs are the same each time. MONKEY_LOOPS=5000 plays more runs of each kind, MONKEY_SEED=17
plays only the run with this seed.
"""

import asyncio
import gc
import importlib.util
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
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

pytestmark = pytest.mark.long

_spec = importlib.util.spec_from_file_location(
    "monkey_world", Path(__file__).with_name("monkey_world.py")
)
monkey_world = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(monkey_world)

LOOPS = {"prompt": 100, "several": 100, "native": 120, "runner": 120, "chain": 60}
World, DIALECTS = monkey_world.World, monkey_world.DIALECTS


async def has_valid_history(world, session="s"):
    """Check the history of a session; return False if calls wait for approval, none of which has
    started."""
    waiting = await world.engine.transcript(session).open_calls()
    if waiting is not None:
        assert waiting.pending
        assert not waiting.started
    else:
        assert (await world.engine.history(session)).check_history() == []
    return waiting is None


async def all_of(asked):
    """Wait for all awaitables; return their values, or raise the first exception."""
    done = await asyncio.gather(*asked, return_exceptions=True)
    if failed := [each for each in done if isinstance(each, BaseException)]:
        raise failed[0]
    return done


async def play_loop(world):
    """Ask questions in one session, then approve and resume all open calls."""
    await world.engine.create_session("s", world.rng.choice([None, "Be kind."]))
    world.zoo.inward = lambda: run_tool_loop(world.deps, "s", "And?")
    for question in world.rng.sample(
        ["Go.", "[Feedback]\nGo.", "$VAR_REF{{var_1}}"], world.rng.randint(1, 2)
    ):
        world.events.clear()
        if world.rng.random() < 0.2:
            world.dialect = world.rng.choice([*DIALECTS])
        options = ToolLoopOptions(**world.loop_options())
        resume = world.rng.random() < 0.3
        asked = [run_tool_loop(world.deps, "s", question, options, resume=resume)]
        if world.rng.random() < 0.1:  # a second run starts at the same time and waits
            asked += [run_tool_loop(world.deps, "s", "And?", options)]
        done = await world.outcome_of(all_of(asked))
        if len(asked) > 1:
            await has_valid_history(world)
            continue
        result = done and done[0]
        if await has_valid_history(world) and result is not None:
            world.check(result, await world.engine.history("s"))
            world.check_events()
            assert (
                resume
                or options.max_tool_rounds is None
                or result.tool_rounds <= options.max_tool_rounds
            )
    world.monkey.fails = world.raises = False
    while not await has_valid_history(world):
        options = ToolLoopOptions(**world.approving_options())
        result = await world.outcome_of(run_tool_loop(world.deps, "s", None, options, resume=True))
        assert result is None or result.status != "awaiting_approval"
    assert world.zoo.wrong == []


async def play_runner(world):
    """Use a runner at random: look, push, edit and leave."""
    rng = world.rng
    session = rng.choice([None, "s"])
    if session:
        await world.engine.create_session("s")
    messages = [Message.system("Be kind."), {"role": "user", "content": "Go."}]
    params = RunnerParams(messages=messages, session_id=session, **world.loop_options())
    world.most, world.pushes, world.inside = rng.choice([0, 1, 4, 12, 30, None]), 3, False
    runner = ToolRunner(
        world.deps,
        params,
        max_iterations=world.most,
        on_iteration=rng.choice([None, lambda number, response: world.maybe_raise()]),
        on_tool_call=rng.choice([None, lambda call: world.maybe_raise()]),
        on_tool_result=rng.choice([None, lambda result: world.maybe_raise()]),
    )
    world.zoo.inward = rng.choice(
        [runner.generate_tool_response, runner.done, runner.run_until_done]
    )
    for _ in range(4):
        await world.outcome_of(use(world, runner))
        if world.inside or runner.result is not None:
            break
    await settle()
    history = await world.engine.history("s") if session else MessageHistory(runner.params.messages)
    if runner.result is not None and not world.waiting:
        world.check(runner.result, history)
    elif not session or not await has_valid_history(world):
        await resume_with(world, session, history)
    assert world.zoo.wrong == []


async def use(world, runner):
    """Use a runner once, in a random way."""
    if world.rng.random() < 0.1:
        await runner.generate_tool_response()
    if world.rng.random() < 0.2:
        with suppress(RuntimeError):
            return await runner
        assert runner.result is not None, (
            "the runner raised that nothing ran, but the run is not over"
        )
        return None
    async for item in runner:
        world.inside = True
        if isinstance(item, MessageStream):
            async for _ in item:
                if world.rng.random() < 0.1:
                    break
        if await leaves(world, runner, world.rng.random()):
            return None
        world.inside = False
    return None


async def leaves(world, runner, drawn):
    """Do a random action between two replies; return whether to leave the iteration."""
    if drawn < 0.2 and world.pushes:
        world.pushes -= 1
        runner.push_messages({"role": "user", "content": "Also this."}, Message.user("And that."))
    elif drawn < 0.3:
        await asyncio.gather(runner.generate_tool_response(), runner.generate_tool_response())
    elif drawn < 0.4:
        other = DIALECTS[world.rng.choice([*DIALECTS])]
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


async def resume_with(world, session, history):
    """Continue with another runner that approves every call."""
    world.monkey.fails = world.raises = False
    messages = () if session else history.messages
    options = RunnerParams(messages=messages, session_id=session, **world.approving_options())
    runner = ToolRunner(world.deps, options, max_iterations=3)
    world.zoo.inward = runner.done
    await world.outcome_of(runner.run_until_done())
    if session:
        assert await has_valid_history(world)
    elif runner.result is not None:
        world.check(runner.result, MessageHistory(runner.params.messages))


async def play_chain(world):
    """Run a chain that begins with a reply of the monkey."""
    rng, options = world.rng, world.options()
    world.monkey.fails = False
    context = rng.choice([(), ({"role": "user", "content": "Go."},)])
    registry = world.zoo.registry
    prompt = Message.system(options["dialect"].describe(registry))
    first = world.monkey.reply([prompt], registry.names)
    world.monkey.fails = True
    made = ToolChainOptions(
        world.chat,
        context,
        max_rounds=rng.choice([0, 1, 3, 8]),
        system_prompt=rng.choice([None, "Be kind."]),
        check_tool_results=options["approve"] is not None and rng.random() < 0.5,
        on_tool_call_start=lambda name, arguments, id: world.maybe_raise(),
        on_tool_call_complete=lambda result, id: world.maybe_raise(),
        on_llm_response_update=rng.choice([None, lambda text: world.maybe_raise()]),
        stream=world.stream,
        **options,
    )
    world.zoo.inward = lambda: chain_inside(made)
    result = await world.outcome_of(execute_tool_chain(registry, first, made))
    assert world.zoo.wrong == []
    if result is not None:
        world.check(result, result.messages.complete, get_args(ChainStatus))
        assert result.as_message().text.endswith(result.response_content)
        assert isinstance(result.error, GatewayError | None)
        result.error or world.check_events()


async def chain_inside(made):
    """Run an inner chain, which is allowed, and raise its status as an error like the other inner
    runs."""
    inner = replace(made, abort=None, limits=None, on_event=None)
    done = await execute_tool_chain(ToolRegistry(), Message.assistant("done"), inner)
    raise RuntimeError(done.status)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


PLAYS = {"runner": play_runner, "chain": play_chain}


def play(entry_point, seed, new_world=World):
    """Run one random run, and check that no task is left."""
    reported = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: reported.append(context)
        )
        world = new_world(entry_point, seed)
        await PLAYS.get(entry_point, play_loop)(world)
        await world.engine.aclose()
        if world.gateway is not None:
            await world.gateway.aclose()
        await settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return world

    world = asyncio.run(main())
    assert reported == []
    return world


@pytest.mark.parametrize("entry_point", LOOPS)
def test_random_replies_and_tools_always_leave_a_finished_run_and_a_valid_history(entry_point):
    only, loops = (
        os.environ.get("MONKEY_SEED"),
        int(os.environ.get("MONKEY_LOOPS") or LOOPS[entry_point]),
    )
    for seed in [int(only)] if only else range(loops):
        try:
            play(entry_point, seed)
        except BaseException as error:
            raise AssertionError(
                f"MONKEY_SEED={seed} pytest -k 'monkey and {entry_point}': {error!r:.500}"
            ) from error
    gc.collect(1)
