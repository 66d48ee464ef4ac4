"""Runs inside of tools: their parent, their limits, their abort and their events."""

import asyncio
from contextlib import suppress

import pytest

from stage0_gateway import ChatResponse, Message, ToolCall, Usage
from stage3_tools import (
    Abort,
    NativeDialect,
    RunLimits,
    RunnerParams,
    Tool,
    ToolChainOptions,
    ToolContext,
    ToolLoopDeps,
    ToolRegistry,
    ToolRunner,
    ask_sync,
    execute_tool_call,
    execute_tool_chain,
    run_tool_loop,
    tool,
)
from tests.stage3_tools.conversation import native_calls
from tests.tables import for_each

NATIVE = NativeDialect()
CALL = ToolCall("c1", "research", '{"topic": "cats"}')


def reply(text="done", usage=None, cost=None):
    return ChatResponse(Message.assistant(text), "stop", usage=usage, cost=cost)


def asks(*calls, usage=None, cost=None):
    return ChatResponse(Message.assistant("", calls), "tool_calls", usage=usage, cost=cost)


class Model:
    """A model that gives these replies; an exception is raised, and a function is awaited."""

    def __init__(self, *replies):
        self.left, self.requests = [*replies], []

    async def __call__(self, messages, **settings):
        self.requests.append(messages)
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return await answer() if callable(answer) else answer


class Nested:
    """An outer run with the tool `research`, which makes an inner run with another model."""

    def __init__(self, outer, inner, **inner_options):
        self.outer, self.inner = Model(*outer), Model(*inner)
        self.events, self.results = [], []
        self.inner_options = inner_options

    async def research(self, arguments, context):
        deps = ToolLoopDeps(self.inner, tool_registry=[Tool("look", execute=lambda arguments: "x")])
        session = await deps.context_engine.create_session("inner")
        given = {"dialect": NATIVE, **self.inner_options, **context.sub_run}
        result = await run_tool_loop(deps, session, arguments["topic"], **given)
        self.results.append(result)
        return f"{result.status}: {result.reply}"

    async def __call__(self, **options):
        deps = ToolLoopDeps(
            self.outer, tool_registry=[Tool("research", execute=self.research, effect="read")]
        )
        session = await deps.context_engine.create_session("outer")
        given = {"dialect": NATIVE, "on_event": self.events.append, **options}
        return await run_tool_loop(deps, session, "Go.", **given)

    def events_of(self, session_id):
        """Return the events of the run in a session."""
        starts = [event for event in self.events if event.name == "run_start"]
        [run_id] = [each.run_id for each in starts if each.session_id == session_id]
        return [event for event in self.events if event.run_id == run_id]


# ---- ids and events


async def test_the_events_of_an_inner_run_name_its_parent_and_reach_its_listeners():
    nested = Nested([asks(CALL), reply("Fine.")], [reply("Cats sleep.")])
    result = await nested()
    assert (result.reply, result.history[0].result.output) == ("Fine.", "completed: Cats sleep.")
    outer, inner = nested.events_of("outer"), nested.events_of("inner")
    assert {(event.parent_run_id, event.parent_call_id) for event in outer} == {(None, None)}
    assert {(event.parent_run_id, event.parent_call_id) for event in inner} == {
        (outer[0].run_id, "c1")
    }
    assert [event.name for event in inner] == [
        *("run_start", "turn_start", "request", "reply_text", "reply", "decision", "turn_end"),
        "loop_end",
    ]
    names = [(event.name, event in inner) for event in nested.events]
    call, answer = names.index(("tool_call", False)), names.index(("tool_result", False))
    assert {is_inner for _, is_inner in names[call + 1 : answer]} == {True}
    assert inner[0].question == Message.user("cats")
    assert inner[0].at == 0.0


async def test_a_listener_that_ignores_the_start_receives_inner_events_and_seconds_since_the_start():
    class Listener:
        ignores = frozenset({"run_start"})

        def __init__(self):
            self.events = []

        def __call__(self, event):
            self.events.append(event)

    listener = Listener()
    await Nested([asks(CALL), reply()], [reply()])(on_event=listener)
    inner = [event for event in listener.events if event.parent_run_id]
    assert [event.name for event in inner][:2] == ["turn_start", "request"]
    assert all(0 < event.at < 60 for event in listener.events)


@for_each("last", [reply(), ConnectionError("away")])
async def test_the_events_of_a_run_that_outlives_the_outer_run_are_dropped(last):
    events, left, is_over = [], [], asyncio.Event()

    async def research(arguments, context):
        async def ask_later(sub_run):
            await is_over.wait()
            deps = ToolLoopDeps(Model(reply()))
            session = await deps.context_engine.create_session()
            return await run_tool_loop(deps, session, "cats", dialect=NATIVE, **sub_run)

        left.append(asyncio.create_task(ask_later(context.sub_run)))
        return "started"

    deps = ToolLoopDeps(
        Model(asks(CALL), last), tool_registry=[Tool("research", "", None, research)]
    )
    session = await deps.context_engine.create_session()
    with suppress(ConnectionError):
        await run_tool_loop(deps, session, "Go.", dialect=NATIVE, on_event=events.append)
    is_over.set()
    assert (await left[0]).status == "completed"
    assert events[-1].name == "loop_end"
    assert {event.run_id for event in events} == {events[0].run_id}


async def test_the_listeners_of_an_inner_run_are_called_before_those_of_its_parent():
    order = []
    nested = Nested(
        [asks(CALL), reply()], [reply()], on_event=lambda event: order.append(("inner", event.name))
    )
    await nested(on_event=lambda event: order.append(("outer", event.name)))
    start = order.index(("inner", "run_start"))
    assert order[start : start + 4] == [
        *(("inner", "run_start"), ("outer", "run_start")),
        *(("inner", "turn_start"), ("outer", "turn_start")),
    ]


async def test_an_async_listener_of_the_parent_is_awaited_by_the_inner_run():
    order = []

    async def listen(event):
        for _ in range(3):
            await asyncio.sleep(0)
        order.append((event.name, event.parent_run_id is not None))

    async def answer():
        order.append(("the inner model", True))
        return reply()

    await Nested([asks(CALL), reply()], [answer])(on_event=listen)
    place = order.index(("the inner model", True))
    assert order[place - 1] == ("request", True)
    assert order[place + 1] == ("reply_text", True)


async def test_a_run_inside_of_an_inner_run_names_its_own_parent():
    events, models = [], Model(asks(ToolCall("c1", "deeper")), *[reply()] * 2)
    deepest = Model(asks(ToolCall("c2", "deepest")), reply())
    last = Model(reply("bottom"))

    async def ask(model, context, *tools):
        deps = ToolLoopDeps(model, tool_registry=tools)
        session = await deps.context_engine.create_session()
        rest = {} if context is None else context.sub_run
        given = {"on_event": events.append} if context is None else {}
        return (await run_tool_loop(deps, session, "Go.", dialect=NATIVE, **given, **rest)).reply

    bottom = Tool("deepest", execute=lambda arguments, context: ask(last, context), effect="read")

    async def deeper(arguments, context):
        return await ask(deepest, context, bottom)

    await ask(models, None, Tool("deeper", execute=deeper, effect="read"))
    first, second, third = [event for event in events if event.name == "run_start"]
    assert (second.parent_run_id, second.parent_call_id) == (first.run_id, "c1")
    assert (third.parent_run_id, third.parent_call_id) == (second.run_id, "c2")
    ends = [event.run_id for event in events if event.name == "loop_end"]
    assert ends == [third.run_id, second.run_id, first.run_id]


@for_each("entry", ["runner", "chain"])
async def test_runners_and_chains_may_be_outer_runs(entry):
    nested, events = Nested([reply("Fine.")], [reply("Cats sleep.", Usage(5, 5))]), []
    registry = ToolRegistry(Tool("research", execute=nested.research, effect="read"))
    if entry == "runner":
        nested.outer.left.insert(0, asks(CALL))
        deps = ToolLoopDeps(nested.outer, tool_registry=registry)
        params = RunnerParams(messages="Go.", dialect=NATIVE, on_event=events.append)
        runner = ToolRunner(deps, params)
        await runner
        usage = runner.result.usage
    else:
        options = ToolChainOptions(nested.outer, on_event=events.append)
        usage = (await execute_tool_chain(registry, asks(CALL), options)).usage
    starts = [event for event in events if event.name == "run_start"]
    assert [each.entry for each in starts] == [entry, "loop"]
    assert (starts[1].parent_run_id, starts[1].parent_call_id) == (starts[0].run_id, "c1")
    assert usage == Usage(5, 5)


async def test_runners_and_chains_may_be_inner_runs():
    events = []

    async def research(arguments, context):
        params = RunnerParams(messages="Go.", dialect=NATIVE, **context.sub_run)
        runner = ToolRunner(ToolLoopDeps(Model(reply("one", Usage(1, 0)))), params)
        options = ToolChainOptions(Model(reply("two", Usage(2, 0))), **context.sub_run)
        chained = await execute_tool_chain(
            ToolRegistry(Tool("look", execute=lambda arguments: "x", effect="read")),
            native_calls(("look", {})),
            options,
        )
        return f"{(await runner).content} {chained.reply}"

    deps = ToolLoopDeps(
        Model(asks(CALL), reply()),
        tool_registry=[Tool("research", execute=research, effect="read")],
    )
    session = await deps.context_engine.create_session()
    result = await run_tool_loop(deps, session, "Go.", dialect=NATIVE, on_event=events.append)
    assert (result.history[0].result.output, result.usage) == ("one two", Usage(3, 0))
    starts = [event for event in events if event.name == "run_start"]
    assert [each.entry for each in starts] == ["loop", "chain", "runner"]
    assert {each.parent_run_id for each in starts[1:]} == {starts[0].run_id}


# ---- tokens, cost and limits


async def test_the_tokens_and_the_cost_of_an_inner_run_count_in_the_totals_of_its_parent():
    outer = [asks(CALL, usage=Usage(10, 1), cost=0.5), reply(usage=Usage(20, 2), cost=0.25)]
    nested = Nested(outer, [reply(usage=Usage(100, 10), cost=1.0)])
    result = await nested()
    assert (nested.results[0].usage, nested.results[0].cost) == (Usage(100, 10), 1.0)
    assert (result.usage, result.cost) == (Usage(130, 13), 1.75)
    end = nested.events_of("outer")[-1]
    assert (end.usage, end.cost, end.tool_rounds) == (Usage(130, 13), 1.75, 1)


@for_each("limits", [RunLimits(tokens=100), RunLimits(cost=0.5)])
async def test_a_limit_of_the_parent_ends_the_inner_run_and_the_parent(limits):
    inner = [asks(ToolCall("x", "look"), usage=Usage(90, 10), cost=0.5), reply()]
    nested = Nested([asks(CALL, usage=Usage(1, 1), cost=0.0), reply()], inner)
    result = await nested(limits=limits)
    assert nested.results[0].status == "limit"
    assert result.status == "limit"
    assert (len(nested.inner.requests), len(nested.outer.requests)) == (1, 1)
    assert result.history[0].result.status == "completed"


async def test_the_limit_of_an_inner_run_ends_only_the_inner_run():
    inner = [asks(ToolCall("x", "look"), usage=Usage(90, 10)), reply()]
    nested = Nested([asks(CALL), reply("Fine.")], inner, limits=RunLimits(tokens=50))
    result = await nested()
    assert (nested.results[0].status, result.status, result.reply) == (
        *("limit", "completed", "Fine."),
    )


# ---- stops


async def test_an_abort_of_the_parent_ends_the_inner_run():
    abort = Abort()

    async def forever():
        abort.set("enough")
        await asyncio.Event().wait()

    nested = Nested([asks(CALL)], [forever])
    result = await nested(abort=abort, on_event=nested.events.append)
    assert (result.status, result.status_reason) == ("aborted", "The run was aborted: enough")
    inner, outer = nested.events_of("inner"), nested.events_of("outer")
    assert inner[-1].name == outer[-1].name == "loop_end"
    assert inner[-1].status in ("aborted", "cancelled")
    assert (len(nested.inner.requests), len(nested.outer.requests)) == (1, 1)


async def test_an_abort_of_an_inner_run_leaves_its_parent_running():
    abort = Abort()

    async def stop():
        abort.set("enough")
        return asks(ToolCall("x", "look"))

    nested = Nested([asks(CALL), reply("Fine.")], [stop], abort=abort)
    result = await nested()
    assert [each.status for each in nested.results] == ["aborted"]
    assert (result.status, result.reply) == ("completed", "Fine.")


async def test_a_time_limit_of_the_tool_ends_the_inner_run():
    async def forever():
        await asyncio.Event().wait()

    nested = Nested([], [forever])
    deps = ToolLoopDeps(
        Model(asks(CALL), reply("Fine.")),
        tool_registry=[
            Tool("research", execute=nested.research, effect="write", timeout=0.02),
        ],
    )
    session = await deps.context_engine.create_session("outer")
    result = await run_tool_loop(
        deps, session, "Go.", dialect=NATIVE, on_event=nested.events.append
    )
    assert (result.reply, result.history[0].result.error.kind) == ("Fine.", "timeout")
    ended = [event for event in nested.events if event.name == "loop_end"]
    assert [event.parent_call_id for event in ended] == ["c1", None]


@for_each("name", ["request", "tool_call", "loop_end"])
async def test_a_listener_of_the_parent_that_raises_ends_both_runs(name):
    others = []

    def listen(event):
        if event.parent_run_id is not None and event.name == name:
            raise LookupError("broken")

    inner = [asks(ToolCall("x", "look")), reply()]
    nested = Nested([asks(CALL), reply()], inner)
    with pytest.raises(LookupError, match="broken"):
        await nested(on_event=[listen, others.append])
    nested.events = others
    inner, outer = nested.events_of("inner"), nested.events_of("outer")
    assert (inner[-1].name, outer[-1].name, outer[-1].status) == ("loop_end", "loop_end", "error")
    assert str(outer[-1].error) == "broken"
    assert len(nested.outer.requests) == 1


async def test_a_failing_inner_run_is_a_failure_of_its_tool():
    nested = Nested([asks(CALL), reply("Sorry.")], [LookupError("away")])
    result = await nested()
    assert (result.reply, result.history[0].result.error.kind) == ("Sorry.", "execution")
    assert nested.events_of("inner")[-1].status == "error"


# ---- threads


class Known:
    """A function as a model that is known."""

    model, secrets = "test:m", ()
    supports_schema = supports_schema_with_tools = accepts_cache_key = has_prices = False

    def __init__(self, chat):
        self.chat = chat

    def stream(self, messages, **options):
        raise NotImplementedError


async def test_a_plain_tool_may_ask_in_its_thread():
    inner = Model(reply("Cats sleep.", Usage(5, 5)))
    events = []

    @tool(effect="read")
    def research(topic: str, context: ToolContext) -> str:
        """Research."""
        return ask_sync(topic, model=Known(inner), dialect=NATIVE, **context.sub_run).reply

    async def slow(event):
        await asyncio.sleep(0)
        events.append(event)

    deps = ToolLoopDeps(Model(asks(CALL), reply("Fine.")), tool_registry=[research])
    session = await deps.context_engine.create_session()
    result = await run_tool_loop(deps, session, "Go.", dialect=NATIVE, on_event=slow)
    assert (result.reply, result.usage) == ("Fine.", Usage(5, 5))
    assert result.history[0].result.output == "Cats sleep."
    inner_events = [event for event in events if event.parent_run_id is not None]
    assert [event.name for event in inner_events] == [
        *("run_start", "turn_start", "request", "reply_text", "reply", "decision", "turn_end"),
        "loop_end",
    ]
    names = [event.name for event in events]
    assert names.index("tool_call") < names.index("run_start", 1) < names.index("tool_result")


async def test_an_abort_of_the_parent_ends_a_run_in_a_thread():
    abort, events = Abort(), []

    async def forever(messages, **options):
        abort.set("enough")
        await asyncio.Event().wait()

    results = []

    @tool(effect="read")
    def research(topic: str, context: ToolContext) -> str:
        """Research."""
        results.append(ask_sync(topic, model=Known(forever), **context.sub_run))
        return "never used"

    deps = ToolLoopDeps(Model(asks(CALL)), tool_registry=[research])
    session = await deps.context_engine.create_session()
    result = await run_tool_loop(
        deps, session, "Go.", dialect=NATIVE, abort=abort, on_event=events.append
    )
    assert (result.status, result.status_reason) == ("aborted", "The run was aborted: enough")
    while not results:  # noqa: ASYNC110 (the thread ends by itself)
        await asyncio.sleep(0)
    assert [each.status for each in results] == ["aborted"]


# ---- without a run


async def test_a_tool_that_is_executed_without_a_run_has_no_keywords():
    seen = []

    def look(arguments, context):
        seen.append(context.sub_run)
        return "ok"

    await execute_tool_call(ToolRegistry(Tool("f", execute=look)), ToolCall("c", "f", "{}"))
    assert (seen, ToolContext("f").sub_run) == ([{}], {})


@for_each("parent", [1, "run", {}])
def test_a_parent_that_is_not_of_a_tool_raises_a_type_error(parent):
    with pytest.raises(
        TypeError, match=r"parent must be that of a tool: write \*\*context\.sub_run"
    ):
        RunnerParams(parent=parent)
