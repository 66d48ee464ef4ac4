"""Each run ends with `loop_end`, in whichever way it ends."""

import asyncio

import pytest

from stage0_gateway import Gateway, ScriptedModel, ServerFailed, ToolCall, Usage
from stage1_context import SessionNotFound
from stage3_tools import (
    Abort,
    Later,
    LoopEnded,
    NativeDialect,
    RunLimits,
    RunnerParams,
    Tool,
    ToolChainOptions,
    ToolLoopDeps,
    ToolRegistry,
    ToolRunner,
    execute_tool_chain,
    run_events,
    run_tool_loop,
)
from tests.stage3_tools.clock import without_waiting
from tests.stage3_tools.conversation import (
    DONE,
    Recorder,
    call,
    deps_of,
    native_calls,
    native_response,
    unused_chat,
)
from tests.tables import for_each

CALLS = native_response(ToolCall("c", "f", "{}"))


def ended(events):
    """Return the one `loop_end`, which is the last event."""
    ends = [event for event in events if event.name == "loop_end"]
    assert len(ends) == 1
    assert events[-1] is ends[0]
    return ends[0]


# ---- runs with a result


@for_each(
    "replies, options, status",
    [
        ([call(), DONE], {}, "completed"),
        ([call(), DONE], {"max_tool_rounds": 1}, "max_rounds"),
        (["?"], {"max_parse_retries": 0}, "parse_failed"),
        ([call()], {"approve": lambda request: Later(), "approve_all": True}, "awaiting_approval"),
        ([call()], {"limits": RunLimits(tokens=1)}, "limit"),
    ],
)
async def test_the_end_of_a_run_has_its_result_and_its_totals(
    new_conversation, replies, options, status
):
    conversation = new_conversation(replies, Recorder().tool)
    result = await conversation.ask(**options)
    end = ended(conversation.events)
    expected = LoopEnded(
        turn=len(replies), status=status, reply=result.reply, result=result, error=None
    )
    assert end == expected
    assert end.result is result
    assert (end.usage, end.cost, end.tool_rounds) == (
        *(result.usage, result.cost, result.tool_rounds),
    )
    assert end.usage == Usage(10 * len(replies), 5 * len(replies))


async def test_an_aborted_run_has_a_result(new_conversation):
    abort = Abort()
    tool = Tool("f", execute=lambda arguments: abort.set("enough"), effect="read")
    conversation = new_conversation([call()], tool)
    result = await conversation.ask(abort=abort)
    end = ended(conversation.events)
    assert (end.status, end.result, end.error) == ("aborted", result, None)
    assert result.status_reason == "The run was aborted: enough"


async def test_a_run_that_was_aborted_before_it_started_begins_and_ends(new_conversation):
    abort = Abort()
    abort.set()
    conversation = new_conversation([])
    result = await conversation.ask(abort=abort)
    assert [event.name for event in conversation.events] == ["run_start", "loop_end"]
    end = ended(conversation.events)
    assert (end.turn, end.status, end.result) == (0, "aborted", result)


@without_waiting
async def test_a_run_that_takes_too_long_has_a_result():
    events = []

    async def chat(messages, **settings):
        await asyncio.sleep(100)

    deps = ToolLoopDeps(chat)
    session = await deps.context_engine.create_session()
    limits = RunLimits(seconds=60)
    result = await run_tool_loop(deps, session, "Hi.", limits=limits, on_event=events.append)
    assert (ended(events).status, ended(events).result) == ("timeout", result)


# ---- runs that raise


async def test_a_run_that_raises_ends_with_the_exception(new_conversation):
    conversation = new_conversation([call(), 500], Recorder().tool)
    with pytest.raises(ServerFailed) as raised:
        await conversation.ask()
    end = ended(conversation.events)
    assert (end.status, end.reply, end.result, end.error) == ("error", None, None, raised.value)
    assert (end.usage, end.tool_rounds, end.turn) == (Usage(10, 5), 1, 2)


async def test_a_run_in_an_unknown_session_begins_and_ends():
    events = []
    with pytest.raises(SessionNotFound) as raised:
        await run_tool_loop(ToolLoopDeps(unused_chat), "x", "Hi.", on_event=events.append)
    assert [event.name for event in events] == ["run_start", "loop_end"]
    assert ended(events).error is raised.value


async def test_a_cancelled_run_ends_with_the_cancellation(new_conversation):
    started = asyncio.Event()

    async def forever(arguments):
        started.set()
        await asyncio.Event().wait()

    conversation = new_conversation([call()], Tool("f", execute=forever, effect="read"))
    running = asyncio.create_task(conversation.ask())
    await started.wait()
    running.cancel()
    await asyncio.wait({running})
    end = ended(conversation.events)
    assert (end.status, end.result, type(end.error)) == ("cancelled", None, asyncio.CancelledError)
    assert [event.name for event in conversation.events][-3:] == [
        *("tool_call", "tool_result", "loop_end")
    ]


EVENTS = [
    *("run_start", "turn_start", "request", "reply", "decision", "tool_call", "tool_result"),
    *("turn_end", "reply_text"),
]


@for_each("name", EVENTS)
async def test_a_listener_that_raises_receives_nothing_more_and_the_others_the_end(name):
    received, others = [], []

    def listen(event):
        received.append(event.name)
        if event.name == name:
            raise LookupError("broken")

    deps = deps_of([Recorder().tool], native_response(ToolCall("c", "f")))
    options = {"dialect": NativeDialect(), "on_event": [listen, others.append]}
    with pytest.raises(LookupError, match="broken") as raised:
        await run_tool_loop(deps, "s", "Go.", **options)
    assert (received.count(name), received[-1]) == (1, name)
    end = ended(others)
    assert (end.status, end.error, end.result) == ("error", raised.value, None)
    assert (await deps.context_engine.history("s")).check_history() == []


async def test_a_listener_that_raises_at_the_end_ends_the_run_with_its_exception(new_conversation):
    others = []

    def listen(event):
        if event.name == "loop_end":
            raise LookupError("broken")

    conversation = new_conversation([DONE])
    with pytest.raises(LookupError, match="broken"):
        await conversation.ask(on_event=[listen, others.append])
    assert ended(others).status == "completed"


# ---- other entries


async def test_an_iterator_of_events_yields_the_end_and_then_raises(new_conversation):
    conversation = new_conversation([500])
    await conversation.begin()
    events = run_events(conversation.deps, "s", "Hi.")
    seen = [await anext(events) for _ in range(5)]
    assert (ended(seen).status, type(ended(seen).error)) == ("error", ServerFailed)
    with pytest.raises(ServerFailed):
        await anext(events)


async def test_a_closed_iterator_ends_the_run_for_the_other_listeners(new_conversation):
    conversation = new_conversation([call()], Recorder().tool)
    await conversation.begin()
    events = run_events(conversation.deps, "s", "Hi.", on_event=conversation.events.append)
    async for event in events:
        if event.name == "tool_call":
            break
    await events.aclose()
    assert ended(conversation.events).status == "cancelled"


@pytest.fixture
def runner():
    """Create a runner with these replies of its model; `events` are those of the last one."""

    def make(*replies):
        left, make.events = [*replies], []

        async def chat(messages, **settings):
            if isinstance(reply := left.pop(0), Exception):
                raise reply
            return reply

        deps = ToolLoopDeps(chat, tool_registry=[Recorder(effect="write").tool])
        given = {"dialect": NativeDialect(), "on_event": make.events.append}
        return ToolRunner(deps, RunnerParams(messages="Go.", **given))

    return make


async def test_a_runner_ends_once(runner):
    running = runner(CALLS, "done")
    await running
    end = ended(runner.events)
    assert (end.status, end.reply, end.result) == ("completed", "done", running.result)
    assert runner.events[0].name == "run_start"
    assert runner.events[0].entry == "runner"


async def test_a_runner_that_is_left_early_is_cancelled(runner):
    running = runner(CALLS, "done")
    iteration = aiter(running)
    await anext(iteration)
    await iteration.aclose()
    end = ended(runner.events)
    assert (end.status, end.result, end.turn) == ("cancelled", None, 1)
    assert "stopped before the run was over" in str(end.error)


async def test_a_runner_that_was_never_iterated_has_no_events(runner):
    await aiter(runner("done")).aclose()
    assert runner.events == []


async def test_a_runner_that_continues_after_an_error_ends_again(runner):
    running = runner(ServerFailed("away"), CALLS, "done")
    with pytest.raises(ServerFailed):
        await running
    failed = ended(runner.events)
    assert (failed.status, type(failed.error)) == ("error", ServerFailed)
    await running
    names = [event.name for event in runner.events]
    assert (names.count("run_start"), names.count("loop_end")) == (1, 2)
    assert names[:6] == [
        *("run_start", "turn_start", "request", "request_failed", "loop_end", "turn_start")
    ]
    assert (runner.events[-1].status, runner.events[-1].result) == ("completed", running.result)


async def test_a_chain_that_fails_ends_with_the_error_of_its_gateway():
    events = []
    async with Gateway("openai:m", transport=ScriptedModel([500]), max_retries=0) as gateway:
        result = await execute_tool_chain(
            ToolRegistry(Recorder().tool),
            native_calls(("f", {})),
            ToolChainOptions(gateway, on_event=events.append),
        )
    end = ended(events)
    assert (result.status, end.status, end.error) == ("error", "error", result.error)
    assert end.tool_rounds == 1
