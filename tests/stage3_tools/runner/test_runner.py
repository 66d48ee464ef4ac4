"""Tests of the runner in both dialects, with messages or a session, with whole replies or streams."""

import asyncio
import inspect
import json
import re
from collections import Counter
from dataclasses import FrozenInstanceError, replace

import pytest

from stage0_gateway import (
    ChatResponse,
    Gateway,
    Message,
    Price,
    PriceTable,
    ScriptedModel,
    ServerFailed,
    ToolCall,
)
from stage1_context import ContextEngine, KeepSystemAndRecent, MessageHistory
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    RunLimits,
    RunnerParams,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    ToolRunner,
)
from tests.stage3_tools.clock import without_waiting
from tests.stage3_tools.conversation import DONE, chat_of, native_response, unused_chat
from tests.tables import for_each

GO = Message.user("Go.")


class Conversation:
    """A conversation with one tool `f`, in one dialect and mode, whole or streamed."""

    def __init__(self, kind):
        self.dialect, self.mode, *rest = kind.split()
        self.streams = bool(rest)
        self.ran, self.ids = Counter(), 0
        self.tools = [Tool("f", "", None, self.f, effect="read")]
        self.model = self.gateway = self.engine = self.last = None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        if self.gateway is not None:
            await self.gateway.aclose()

    async def f(self, arguments):
        self.ran[arguments["x"]] += 1
        return f"r{arguments['x']}"

    def calls(self, *xs, tool="f", content=""):
        """Return a reply with these calls; ids are call_1, call_2, … in the whole conversation."""
        asked = [(tool, json.dumps({"x": x})) for x in xs]
        if self.dialect == "prompt":
            return json.dumps(
                [{"tool": name, "arguments": json.loads(text)} for name, text in asked]
            )
        made = []
        for name, text in asked:
            self.ids += 1
            made.append(ToolCall(f"call_{self.ids}", name, text))
        return Message.assistant(content, made)

    def answer(self, text="done"):
        return json.dumps({"tool": None, "reply": text}) if self.dialect == "prompt" else text

    def params(self, *own_messages, messages=(GO,), **rest):
        dialect = PromptDialect(multiple=True) if self.dialect == "prompt" else NativeDialect()
        session_id = "s" if self.mode == "session" else None
        given = {"dialect": dialect, "session_id": session_id, **rest}
        return RunnerParams(messages=own_messages or messages, **given)

    async def runner(self, *replies, params=None, window=None, on_iteration=None, **rest):
        known = {
            name: rest.pop(name)
            for name in ("max_iterations", "on_tool_call", "on_tool_result")
            if name in rest
        }
        self.model = ScriptedModel(replies)
        self.gateway = Gateway("openai:m", transport=self.model, max_retries=0)
        self.engine = ContextEngine(window=window)
        if self.mode == "session":
            await self.engine.create_session("s")
        self.deps = ToolLoopDeps(
            self.gateway,
            self.engine,
            OutputController(),
            ToolRegistry(*self.tools),
            stream=self.streams,
        )
        params = params or self.params(**rest)
        self.last = ToolRunner(self.deps, params, on_iteration=on_iteration, **known)
        return self.last

    async def history(self):
        """Return role and text of all messages, after a check that the history is valid."""
        stored = (
            await self.engine.history("s") if self.mode == "session" else self.last.params.messages
        )
        assert MessageHistory(stored).check_history() == []
        return [(each.role, each.text) for each in stored]

    @property
    def asked(self):
        """Return the texts of user and tool messages of each request."""
        return [
            [each.text for each in one.messages if each.role in ("user", "tool")]
            for one in self.model.requests
        ]


MODES = [
    f"{dialect} {mode}" for dialect in ("native", "prompt") for mode in ("messages", "session")
]
STREAMS = ["native messages stream", "prompt session stream"]


def held(arguments):
    return asyncio.Event().wait()


KINDS = [*MODES[::3], *STREAMS]


def for_each_kind(test):
    """Run a test with a conversation of each kind, as `for_each("kind", KINDS)`."""

    async def run(kind, **others):
        async with Conversation(kind) as conversation:
            await test(conversation=conversation, **others)

    names = [name for name in inspect.signature(test).parameters if name != "conversation"]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("kind", *names)
    ]
    run.__signature__ = inspect.Signature(parameters)
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return for_each("kind", KINDS)(run)


@pytest.fixture
async def simple():
    """One dialect and mode, for tests of behavior that does not depend on them."""
    async with Conversation("native messages") as conversation:
        yield conversation


@pytest.fixture
async def streamed():
    async with Conversation("native messages stream") as conversation:
        yield conversation


QUESTION = ("user", "Go.")
CALLED = [QUESTION, ("assistant", ""), ("tool", "r1")]


# ---- iterating


@for_each_kind
async def test_each_reply_is_an_item_of_the_iteration_including_the_last(conversation):
    runner, seen = (
        await conversation.runner(
            conversation.calls(1, 2), conversation.calls(3), conversation.answer()
        ),
        [],
    )
    async for item in runner:
        assert isinstance(item, ChatResponse)
        if item.tool_calls:
            assert [call.id for call in item.tool_calls] == [["call_1", "call_2"], ["call_3"]][
                len(seen)
            ]
        seen.append(len(item.tool_calls))
        assert runner.iteration_count == len(seen)
    assert seen == [2, 1, 0]
    assert conversation.ran == {1: 1, 2: 1, 3: 1}
    results = [("tool", "r1"), ("tool", "r2"), ("assistant", ""), ("tool", "r3")]
    assert await conversation.history() == [*CALLED[:2], *results, ("assistant", "done")]
    assert (runner.result.status, runner.result.reply, runner.result.tool_rounds) == (
        "completed",
        "done",
        2,
    )


@for_each_kind
async def test_awaiting_a_runner_returns_the_last_parsed_reply(conversation):
    runner = await conversation.runner(conversation.calls(1), conversation.answer())
    response = await runner
    assert (response.content, response.tool_calls) == ("done", ())
    assert response is await runner is await runner.run_until_done() is await runner.done()
    assert await conversation.history() == [*CALLED, ("assistant", "done")]


async def test_items_have_the_same_content_and_calls_in_both_dialects(simple):
    for dialect in ("native", "prompt"):
        simple.dialect = dialect
        simple.ids = 0
        items = [item async for item in await simple.runner(simple.calls(1), simple.answer())]
        assert [(item.content, item.tool_calls) for item in items] == [
            ("", (ToolCall("call_1", "f", '{"x": 1}'),)),
            ("done", ()),
        ]


@for_each_kind
async def test_a_second_iteration_raises_a_runtime_error(conversation):
    runner = await conversation.runner(conversation.answer())
    async for _ in runner:
        with pytest.raises(RuntimeError, match="can be iterated only once"):
            aiter(runner)
    with pytest.raises(RuntimeError, match="can be iterated only once"):
        aiter(runner)


async def test_an_invalid_reply_is_an_item_and_gets_feedback(simple):
    simple.dialect = "prompt"
    items = [item async for item in await simple.runner("what?", simple.answer())]
    assert [item.content for item in items] == ["what?", "done"]
    assert [role for role, _ in await simple.history()] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]


# ---- max_iterations


async def test_without_a_limit_the_model_may_call_thirty_times(simple):
    runner = await simple.runner(*[simple.calls(x) for x in range(30)], simple.answer())
    assert (await runner).content == "done"
    assert (runner.iteration_count, sum(simple.ran.values())) == (31, 30)
    assert runner.result.tool_rounds == 30


@for_each_kind
async def test_max_iterations_0_makes_no_request_and_awaiting_raises(conversation):
    runner = await conversation.runner(max_iterations=0)
    with pytest.raises(RuntimeError, match="No request was made, because max_iterations is 0"):
        await runner
    assert [item async for item in await conversation.runner(max_iterations=0)] == []
    assert (
        conversation.model.requests,
        conversation.last.result.status,
        conversation.last.iteration_count,
    ) == (
        [],
        "limit",
        0,
    )


@for_each_kind
async def test_calls_of_the_last_iteration_get_error_results_and_do_not_run(conversation):
    runner = await conversation.runner(
        conversation.calls(1), conversation.calls(2, 3), max_iterations=2
    )
    assert [call.id for call in (await runner).tool_calls] == ["call_2", "call_3"]
    assert conversation.ran == {1: 1}
    refused = "Error (interrupted): The limit of 2 requests was reached. This call was not run."
    assert await conversation.history() == [
        *CALLED,
        ("assistant", ""),
        ("tool", refused),
        ("tool", refused),
    ]
    assert runner.result.status == "limit"


@for_each_kind
async def test_calls_of_the_last_iteration_run_if_their_results_are_requested(conversation):
    runner = await conversation.runner(conversation.calls(1), max_iterations=1)
    async for _ in runner:
        await runner.generate_tool_response()
    assert (conversation.ran, await conversation.history()) == ({1: 1}, CALLED)


@for_each_kind
async def test_a_message_pushed_after_the_last_iteration_is_stored_but_not_sent(conversation):
    runner = await conversation.runner(conversation.answer(), max_iterations=1)
    async for _ in runner:
        runner.push_messages(Message.user("more"))
    assert await conversation.history() == [
        ("user", "Go."),
        ("assistant", "done"),
        ("user", "more"),
    ]


async def test_negative_max_iterations_raise_a_value_error(simple):
    with pytest.raises(ValueError, match="max_iterations is -1; it must be at least 0"):
        await simple.runner(max_iterations=-1)


# ---- edits


@for_each_kind
async def test_pushed_messages_follow_the_results_and_come_before_the_next_request(conversation):
    runner = await conversation.runner(conversation.calls(1), conversation.answer())
    async for _ in runner:
        if runner.iteration_count == 1:
            runner.push_messages(Message.user("a"), {"role": "user", "content": "b"})
            runner.push_messages(Message.user("c"))
            assert [each.text for each in runner.params.messages][-3:] == ["a", "b", "c"]
    pushed = [("user", "a"), ("user", "b"), ("user", "c")]
    assert await conversation.history() == [*CALLED, *pushed, ("assistant", "done")]
    assert [text.split("\n")[-1] for text in conversation.asked[1]] == ["Go.", "r1", "a", "b", "c"]


@for_each_kind
async def test_a_message_pushed_after_the_last_reply_continues_the_run(conversation):
    runner = await conversation.runner(
        conversation.answer("one"), conversation.answer("two"), conversation.answer("three")
    )
    async for _ in runner:
        if runner.iteration_count < 3:
            runner.push_messages(Message.user(f"after {runner.iteration_count}"))
    texts = ["Go.", "one", "after 1", "two", "after 2", "three"]
    assert [text for _, text in await conversation.history()] == texts
    assert runner.result.reply == "three"


@for_each_kind
async def test_a_message_pushed_before_the_first_step_is_part_of_the_first_request(conversation):
    runner = await conversation.runner(conversation.answer())
    runner.push_messages(Message.user("and this"))
    await runner
    assert await conversation.history() == [
        ("user", "Go."),
        ("user", "and this"),
        ("assistant", "done"),
    ]


@for_each_kind
async def test_after_the_end_pushing_messages_or_setting_params_raises(conversation):
    runner = await conversation.runner(conversation.answer())
    await runner
    for edit in (
        lambda: runner.push_messages(GO),
        lambda: runner.set_params(conversation.params(GO, GO)),
    ):
        with pytest.raises(RuntimeError, match="The run is over"):
            edit()
    assert len(await conversation.history()) == 2


async def test_a_listener_of_loop_end_cannot_push_messages(simple):
    late = []

    def listen(event):
        if event.name == "loop_end":
            with pytest.raises(RuntimeError, match="The run is over"):
                simple.last.push_messages(Message.user("more"))
            late.append(simple.last.result.status)

    await (await simple.runner(simple.answer(), on_event=listen))
    assert (late, await simple.history()) == (["completed"], [QUESTION, ("assistant", "done")])


async def test_calls_and_results_cannot_be_pushed(simple):
    runner = await simple.runner(simple.answer())
    for message in (simple.calls(1), Message.tool("r", "c")):
        with pytest.raises(ValueError, match="Calls and results cannot be pushed"):
            runner.push_messages(Message.user("not this either"), message)
    await runner
    assert await simple.history() == [("user", "Go."), ("assistant", "done")]


@for_each_kind
async def test_new_parameters_apply_from_the_next_request_on(conversation):
    events, approved = [], []
    runner = await conversation.runner(
        conversation.calls(1), conversation.calls(2), conversation.answer()
    )

    def approve(request):
        approved.append(request.arguments["x"])
        return True

    new = {"temperature": 0.5, "max_tokens": 99, "reasoning": "low"}
    new |= {"approve": approve, "approve_all": True}
    async for _ in runner:
        if runner.iteration_count == 1:
            runner.set_params(
                lambda now: replace(now, **new, on_event=lambda event: events.append(event.name))
            )
            assert (runner.params.temperature, runner.params.max_tokens) == (0.5, 99)
    requests = conversation.model.requests
    assert [(each.temperature, each.max_tokens, each.reasoning) for each in requests] == [
        (None, None, None),
        *[(0.5, 99, "low")] * 2,
    ]
    assert approved == [2]  # the approver was not asked about the calls of the current turn
    assert events[0] == "turn_start"
    assert events[-1] == "loop_end"


async def test_the_dialect_may_change_between_two_turns(simple):
    runner = await simple.runner(simple.calls(1), DONE)
    async for _ in runner:
        runner.set_params(replace(runner.params, dialect=PromptDialect()))
    assert runner.result.reply == "done"
    assert ([bool(each.tools) for each in simple.model.requests], simple.asked[1][1]) == (
        [True, False],
        "[Tool result for f]\nr1",
    )


def named_tools(request):
    """Return the tools of a request in either dialect."""
    described = request.messages[0].text if not request.tools else ""
    in_prompt = [json.loads(line) for line in described.splitlines() if line.startswith('{"name"')]
    return [each["name"] for each in in_prompt] + [each.name for each in request.tools]


@for_each_kind
async def test_tools_and_model_may_change_between_two_turns(conversation):
    runner = await conversation.runner(
        conversation.calls(1),
        conversation.calls(2, tool="g"),
        conversation.calls(3),
        conversation.answer(),
    )

    async def g(x: int) -> str:
        """Return a text."""
        return f"g{x}"

    async for _ in runner:
        if runner.iteration_count == 1:  # the call runs the tool that was offered with its request
            runner.set_params(lambda now: replace(now, tools=[g], model="openai:other"))
            assert runner.params.tools.names == ("g",)
        elif runner.iteration_count == 2:
            runner.set_params(lambda now: replace(now, tools=None, model=None))
    assert [named_tools(each) for each in conversation.model.requests] == [
        ["f"],
        ["g"],
        ["f"],
        ["f"],
    ]
    assert [each.model for each in conversation.model.requests] == ["m", "other", "m", "m"]
    results = [text for role, text in await conversation.history() if role == "tool"]
    assert (results, conversation.ran) == (["r1", "g2", "r3"], {1: 1, 3: 1})


@for_each_kind
async def test_another_gateway_is_asked_from_the_next_turn_on(conversation):
    runner = await conversation.runner(conversation.calls(1))
    model = ScriptedModel([conversation.calls(2), conversation.answer()])
    async with Gateway("anthropic:other", transport=model, max_retries=0) as other:
        async for _ in runner:
            runner.set_params(lambda now: replace(now, gateway=other))
    first = conversation.model.bodies
    assert ([len(first), len(model.bodies)], conversation.ran) == ([1, 2], {1: 1, 2: 1})
    streams = [bool(body.get("stream")) for body in (*first, *model.bodies)]
    assert streams == [conversation.streams] * 3
    assert (await conversation.history())[-1] == ("assistant", "done")


@for_each_kind
async def test_the_first_request_is_sent_to_the_gateway_of_the_parameters(conversation):
    model = ScriptedModel([conversation.answer()])
    async with Gateway("anthropic:other", transport=model, max_retries=0) as other:
        await (await conversation.runner(gateway=other))
    assert (len(conversation.model.requests), len(model.requests)) == (0, 1)


async def test_a_run_starts_with_the_model_and_the_tools_of_its_parameters(simple):
    events, tool = [], Tool("g", execute=lambda arguments: "ok")
    model = ScriptedModel([simple.answer()])
    async with Gateway("anthropic:other", transport=model, max_retries=0) as other:
        await (await simple.runner(gateway=other, tools=[tool], on_event=events.append))
    assert (events[0].name, events[0].model, events[0].gateway) == (
        *("run_start", "anthropic:other", other),
    )
    assert events[0].tools == (tool,)
    sent = next(event for event in events if event.name == "request")
    assert (sent.gateway, sent.tools) == (other, (tool,))


async def test_the_model_of_the_parameters_is_known_although_the_parts_have_a_function(recwarn):
    model = ScriptedModel(['{"n": 1}'])
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with Gateway("openai:m", transport=model) as gateway:
        given = {"dialect": NativeDialect(), "output_type": schema, "gateway": gateway}
        params = RunnerParams(messages="Go.", **given)
        runner = ToolRunner(ToolLoopDeps(unused_chat), params)
        await runner
    assert runner.result.output == {"n": 1}
    assert model.requests[0].response_schema is not None
    assert [str(each.message) for each in recwarn] == []


async def test_a_limit_of_the_cost_needs_the_prices_of_the_gateway_of_the_parameters(simple):
    model, prices = ScriptedModel([simple.answer()]), PriceTable({"openai:m": Price(1, 1)})
    async with Gateway("openai:m", transport=model, prices=prices) as gateway:
        runner = await simple.runner(gateway=gateway, limits=RunLimits(cost=5.0))
        await runner
    assert runner.result.status == "completed"


async def test_without_a_gateway_in_new_parameters_the_first_model_is_asked_again(simple):
    runner = await simple.runner(simple.calls(1), simple.answer())
    model = ScriptedModel([simple.calls(2)])
    async with Gateway("anthropic:other", transport=model, max_retries=0) as other:
        async for _ in runner:
            gateway = other if runner.iteration_count == 1 else None
            runner.set_params(lambda now, gateway=gateway: replace(now, gateway=gateway))
    assert (len(simple.model.requests), len(model.requests)) == (2, 1)


async def test_the_callbacks_of_a_runner_do_not_receive_the_calls_of_a_run_inside_of_a_tool():
    received = []

    async def research(arguments, context):
        inner = ToolLoopDeps(
            chat_of(native_response(ToolCall("x", "look", "{}")), native_response()),
            tool_registry=[Tool("look", execute=lambda arguments: "x", effect="read")],
        )
        params = RunnerParams(messages="Cats?", dialect=NativeDialect(), **context.sub_run)
        return (await ToolRunner(inner, params)).content

    deps = ToolLoopDeps(
        chat_of(native_response(ToolCall("c", "research", "{}")), native_response()),
        tool_registry=[Tool("research", execute=research, effect="read")],
    )
    await ToolRunner(
        deps,
        RunnerParams(messages="Go.", dialect=NativeDialect()),
        on_tool_call=lambda call: received.append(call.name),
        on_tool_result=lambda result: received.append(result.name),
    )
    assert received == ["research", "research"]


@for_each_kind
async def test_a_call_of_a_tool_that_was_removed_after_its_request_still_runs(conversation):
    runner = await conversation.runner(
        conversation.calls(1), conversation.calls(2), conversation.answer()
    )
    async for _ in runner:
        runner.set_params(lambda now: replace(now, tools=ToolRegistry()))
    results = [text for role, text in await conversation.history() if role == "tool"]
    assert (results, conversation.ran) == (["r1"], {1: 1})


async def test_the_first_request_uses_the_tools_of_the_parameters(simple):
    async def g(x: int) -> str:
        return f"g{x}"

    runner = await simple.runner(simple.calls(1, tool="g"), simple.answer(), tools=[g])
    await runner
    assert [named_tools(each) for each in simple.model.requests] == [["g"], ["g"]]
    assert await simple.history() == [
        QUESTION,
        ("assistant", ""),
        ("tool", "g1"),
        ("assistant", "done"),
    ]


async def test_tools_set_before_the_first_step_run_open_calls(simple):
    async def g(x: int) -> str:
        return f"g{x}"

    messages = [GO, simple.calls(1, tool="g")]
    runner = await simple.runner(simple.answer(), messages=messages)
    runner.set_params(lambda now: replace(now, tools=[g]))
    await runner
    assert (await simple.history())[2] == ("tool", "g1")


@for_each_kind
async def test_parameters_are_frozen_and_a_function_that_raises_changes_nothing(conversation):
    runner = await conversation.runner(conversation.calls(1), conversation.answer())

    def wrong(now):
        raise LookupError("no")

    async for _ in runner:
        before = runner.params
        with pytest.raises(FrozenInstanceError):
            before.temperature = 1
        with pytest.raises(LookupError):
            runner.set_params(wrong)
        assert runner.params == before


@for_each(
    "change, error, words",
    [
        (lambda now: {"temperature": 1}, TypeError, "set_params accepts RunnerParams"),
        (lambda now: None, TypeError, "set_params accepts RunnerParams"),
        (lambda now: replace(now, session_id="other"), ValueError, "cannot change its session"),
        (lambda now: replace(now, max_tool_rounds=-1), ValueError, "max_tool_rounds is -1"),
    ],
)
@for_each("kind", MODES[:2])
async def test_invalid_parameters_raise_an_error_and_change_nothing(kind, change, error, words):
    conversation = Conversation(kind)
    runner = await conversation.runner(conversation.answer())
    before = runner.params
    with pytest.raises(error, match=words):
        runner.set_params(change)
    with pytest.raises(error, match=words):
        runner.set_params(change(before))
    assert runner.params == before
    await runner
    await conversation.gateway.aclose()


async def test_messages_of_a_session_cannot_be_replaced():
    conversation = Conversation("native session")
    runner = await conversation.runner(conversation.answer())
    with pytest.raises(ValueError, match="cannot be replaced"):
        runner.set_params(lambda now: replace(now, messages=[]))
    runner.set_params(lambda now: replace(now, messages=[*now.messages, Message.user("more")]))
    await runner
    assert await conversation.history() == [
        ("user", "Go."),
        ("user", "more"),
        ("assistant", "done"),
    ]
    await conversation.gateway.aclose()


async def test_replaced_messages_keep_the_reply_and_its_results(simple):
    runner = await simple.runner(simple.calls(1), simple.answer())
    async for _ in runner:
        if runner.iteration_count == 1:
            runner.push_messages(Message.user("gone"))
            runner.set_params(lambda now: replace(now, messages=[Message.user("anew")]))
            runner.push_messages(Message.user("kept"))
            assert [each.text for each in runner.params.messages] == ["anew", "kept"]
    assert simple.asked == [["Go."], ["anew", "r1", "kept"]]
    assert await simple.history() == [
        ("user", "anew"),
        ("assistant", ""),
        ("tool", "r1"),
        ("user", "kept"),
        ("assistant", "done"),
    ]


async def test_replaced_messages_with_an_unpaired_result_are_repaired(simple):
    runner = await simple.runner(simple.calls(1), simple.calls(2), simple.answer())
    async for _ in runner:
        if runner.iteration_count == 2:  # removes a call but not its result
            runner.set_params(lambda now: replace(now, messages=[GO, *now.messages[2:]]))
    assert await simple.history() == [
        QUESTION,
        ("assistant", ""),
        ("tool", "r2"),
        ("assistant", "done"),
    ]


async def test_messages_replaced_before_the_first_step_are_the_initial_messages(simple):
    runner = await simple.runner(
        simple.answer(), messages=[GO, simple.calls(1), Message.user("gone")]
    )
    runner.set_params(lambda now: replace(now, messages=[GO, simple.calls(7)]))
    assert [each.text for each in await runner.generate_tool_response()] == ["r7"]
    await runner
    assert await simple.history() == [
        QUESTION,
        ("assistant", ""),
        ("tool", "r7"),
        ("assistant", "done"),
    ]


# ---- generate_tool_response


@for_each_kind
async def test_requesting_results_runs_the_calls_early_and_only_once(conversation):
    runner = await conversation.runner(conversation.calls(1, 2), conversation.answer())
    async for _ in runner:
        first = await runner.generate_tool_response()
        assert await runner.generate_tool_response() == first
        if runner.iteration_count == 1:
            assert [(each.tool_call_id, each.text) for each in first] == [
                ("call_1", "r1"),
                ("call_2", "r2"),
            ]
            assert [text for _, text in await conversation.history()] == ["Go.", "", "r1", "r2"]
        else:
            assert first is None
    assert await runner.generate_tool_response() is None
    assert conversation.ran == {1: 1, 2: 1}
    assert [text for _, text in await conversation.history()] == ["Go.", "", "r1", "r2", "done"]


@for_each_kind
async def test_open_calls_of_the_initial_messages_can_run_before_the_first_step(conversation):
    conversation.dialect = "native"
    runner = await conversation.runner(conversation.answer())
    if conversation.mode == "session":
        for message in (GO, conversation.calls(1, 2)):
            await conversation.engine.add_message("s", message)
        runner = ToolRunner(conversation.deps, conversation.params(session_id="s", messages=()))
    else:
        runner = conversation.last = ToolRunner(
            conversation.deps, conversation.params(GO, conversation.calls(1, 2))
        )
    first, second = await asyncio.gather(
        runner.generate_tool_response(), runner.generate_tool_response()
    )
    assert first == second
    assert [each.tool_call_id for each in first] == ["call_1", "call_2"]
    await runner
    assert conversation.ran == {1: 1, 2: 1}
    assert [text for _, text in await conversation.history()][-4:] == ["", "r1", "r2", "done"]


async def test_the_first_step_runs_open_calls_of_the_initial_messages(simple):
    runner = await simple.runner(simple.answer(), messages=[GO, simple.calls(1)])
    assert (await runner).content == "done"
    assert (simple.ran, await simple.history()) == ({1: 1}, [*CALLED, ("assistant", "done")])


@for_each_kind
async def test_two_tasks_may_request_the_results_concurrently(conversation):
    runner = await conversation.runner(conversation.calls(1), conversation.answer())
    async for _ in runner:
        both = await asyncio.gather(
            runner.generate_tool_response(), runner.generate_tool_response()
        )
        assert both[0] == both[1]
    assert conversation.ran == {1: 1}


async def test_results_requested_during_the_next_step_belong_to_the_previous_reply(
    simple,
):
    gate = asyncio.Event()

    async def wait(arguments):
        await gate.wait()
        return "late"

    simple.tools.append(Tool("g", "", None, wait))
    runner = await simple.runner(simple.calls(1, tool="g"), simple.calls(2), simple.answer())
    steps = aiter(runner)
    await anext(steps)
    step = asyncio.create_task(anext(steps))
    await asyncio.sleep(0)
    asked = asyncio.create_task(runner.generate_tool_response())
    await asyncio.sleep(0)
    gate.set()
    await step
    assert [each.text for each in await asked] == ["late"]
    assert simple.ran == {}  # the calls of the newest reply have not run
    assert [item.content async for item in steps] == ["done"]


@for_each_kind
async def test_after_a_cancelled_request_for_results_the_completed_results_are_available(
    conversation,
):
    begun = asyncio.Event()

    async def wait(arguments):
        begun.set()
        await asyncio.Event().wait()

    conversation.tools.append(Tool("g", "", None, wait))
    runner = await conversation.runner(conversation.calls(1, tool="g"), conversation.answer())
    async for _ in runner:
        if runner.iteration_count == 1:
            asking = asyncio.create_task(runner.generate_tool_response())
            await begun.wait()
            asking.cancel()
            await asyncio.wait({asking})
            assert asking.cancelled()
            assert [row[0] for row in await conversation.history()] == ["user", "assistant", "tool"]
            (message,) = await runner.generate_tool_response()
            assert (message.tool_call_id, message.is_error) == ("call_1", True)
    assert (await conversation.history())[-1] == ("assistant", "done")


async def test_after_a_cancelled_request_before_the_first_step_the_results_are_available(simple):
    begun = asyncio.Event()

    async def wait(arguments):
        begun.set()
        await asyncio.Event().wait()

    simple.tools.append(Tool("g", "", None, wait))
    runner = await simple.runner(simple.answer(), messages=[GO, simple.calls(1, tool="g")])
    asking = asyncio.create_task(runner.generate_tool_response())
    await begun.wait()
    asking.cancel()
    await asyncio.wait({asking})
    assert [each.is_error for each in await runner.generate_tool_response()] == [True]
    await runner
    assert len(await simple.history()) == 4


# ---- callbacks


@for_each_kind
async def test_callbacks_are_called_in_order(conversation):
    received = []
    runner = await conversation.runner(
        conversation.calls(1, 2),
        conversation.answer(),
        on_iteration=lambda number, response: received.append((number, len(response.tool_calls))),
        on_tool_call=lambda call: received.append(call.id),
        on_tool_result=lambda result: received.append((result.call_id, result.output)),
        on_event=lambda event: received.append(event.name) if event.name == "loop_end" else None,
    )
    await runner
    assert received == [
        (1, 2),
        "call_1",
        "call_2",
        ("call_1", "r1"),
        ("call_2", "r2"),
        (2, 0),
        "loop_end",
    ]


@for_each("name", ["on_iteration", "on_tool_call", "on_tool_result", "turn_end", "loop_end"])
@for_each_kind
async def test_after_a_callback_raises_the_runner_can_continue(conversation, name):
    failing = [LookupError(name)]

    def fail(*_):
        if failing:
            raise failing.pop()

    given = {name: fail}
    if not name.startswith("on_"):
        given = {"on_event": lambda event: fail() if event.name == name else None}
    runner = await conversation.runner(conversation.calls(1, 2), conversation.answer(), **given)
    with pytest.raises(LookupError):
        await runner
    await conversation.history()
    assert (await runner).content == "done"
    assert all(count == 1 for count in conversation.ran.values())
    assert [role for role, _ in await conversation.history()] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert conversation.model.requests[2:] == []  # no further request was sent
    assert runner.iteration_count == 2


@for_each_kind
async def test_after_a_listener_raises_at_the_last_decision_the_reply_is_stored_once(conversation):
    failing = [LookupError("decision")]

    def fail(event):
        if event.name == "decision" and event.reply and failing:
            raise failing.pop()

    runner = await conversation.runner(conversation.answer(), on_event=fail)
    with pytest.raises(LookupError):
        await runner
    assert (await runner).content == "done"
    assert await conversation.history() == [QUESTION, ("assistant", "done")]


async def test_a_reply_whose_callback_raised_is_delivered_by_the_next_iteration(simple):
    failing = [LookupError()]

    def fail(number, response):
        if failing:
            raise failing.pop()

    runner = await simple.runner(simple.calls(1), simple.answer(), on_iteration=fail)
    with pytest.raises(LookupError):
        await anext(aiter(runner))
    assert [len(item.tool_calls) async for item in runner] == [1, 0]


async def test_callbacks_may_be_async_and_are_awaited_in_order(simple):
    received = []

    def listen(name):
        async def listen(*_):
            await asyncio.sleep(0)
            received.append(name)

        return listen

    names = ("on_iteration", "on_tool_call", "on_tool_result")
    listeners = {name: listen(name) for name in names}
    await (await simple.runner(simple.calls(1), simple.answer(), **listeners))
    assert received == ["on_iteration", "on_tool_call", "on_tool_result", "on_iteration"]


# ---- failed requests


@for_each_kind
async def test_after_a_failed_request_the_runner_continues_without_losing_or_repeating_anything(
    conversation,
):
    runner = await conversation.runner(500, conversation.calls(1), 503, conversation.answer())
    failures, items = 0, 0
    for _ in range(3):
        try:
            async for _ in runner:
                items += 1
        except ServerFailed:
            failures += 1
    assert (failures, items, runner.iteration_count) == (2, 2, 2)
    assert (conversation.ran, runner.result.status) == ({1: 1}, "completed")
    assert await conversation.history() == [*CALLED, ("assistant", "done")]
    with pytest.raises(RuntimeError, match="can be iterated only once"):
        aiter(runner)


@for_each_kind
async def test_edits_after_a_failed_request_apply_to_the_next_request(conversation):
    runner = await conversation.runner(conversation.calls(1), 500, conversation.answer())
    with pytest.raises(ServerFailed):
        await runner
    runner.push_messages(Message.user("again"))
    runner.set_params(lambda now: replace(now, temperature=0.5))
    await runner
    assert await conversation.history() == [*CALLED, ("user", "again"), ("assistant", "done")]
    assert [each.temperature for each in conversation.model.requests] == [None, None, 0.5]


async def test_a_message_pushed_before_a_callback_raises_is_part_of_the_next_request(simple):
    failing = [LookupError()]

    def fail(result):
        if failing:
            raise failing.pop()

    runner = await simple.runner(simple.calls(1), simple.answer(), on_tool_result=fail)

    async def iterate():
        async for _ in runner:
            runner.push_messages(Message.user("more"))

    with pytest.raises(LookupError):
        await iterate()
    await runner
    assert simple.asked[1] == ["Go.", "r1", "more"]


# ---- done


@for_each_kind
async def test_done_waits_for_a_running_iteration(conversation):
    runner = await conversation.runner(conversation.calls(1), conversation.answer())
    waiting = asyncio.create_task(runner.done())
    async for _ in runner:
        await asyncio.sleep(0)
        assert not waiting.done()
    assert (await waiting).content == "done"


@for_each_kind
async def test_done_raises_the_error_of_the_iteration_it_waited_for(conversation):
    runner = await conversation.runner(500, conversation.answer())
    waiting = asyncio.create_task(runner.done())
    await asyncio.sleep(0)
    with pytest.raises(ServerFailed):
        await runner
    await runner
    with pytest.raises(ServerFailed):
        await waiting
    assert (await runner.done()).content == "done"


@for_each("wait", ["done", "run_until_done"])
@for_each_kind
async def test_waiting_for_an_abandoned_iteration_raises_a_runtime_error(conversation, wait):
    runner = await conversation.runner(conversation.calls(1))
    async for _ in runner:
        break
    with pytest.raises(RuntimeError, match="must continue its iteration"):
        await getattr(runner, wait)()
    waiting = asyncio.create_task(runner.done())
    with pytest.raises(RuntimeError, match="was stopped before the run was over"):
        await waiting


async def test_awaiting_a_runner_inside_its_own_iteration_raises_a_runtime_error(simple):
    runner = await simple.runner(simple.answer())
    async for _ in runner:
        with pytest.raises(RuntimeError, match="must continue its iteration"):
            await runner
    assert runner.result.status == "completed"


@for_each_kind
async def test_a_cancelled_iteration_can_be_continued(conversation):
    begun = asyncio.Event()

    async def wait(arguments):
        begun.set()
        await asyncio.Event().wait()

    conversation.tools.append(Tool("g", "", None, wait))
    runner = await conversation.runner(conversation.calls(1, tool="g"), conversation.answer())
    running = asyncio.create_task(runner.run_until_done())
    await begun.wait()
    running.cancel()
    await asyncio.wait({running})
    with pytest.raises(RuntimeError, match="was cancelled"):
        await runner.done()
    assert [role for role, _ in await conversation.history()] == ["user", "assistant", "tool"]
    assert (await runner).content == "done"
    assert len(await conversation.history()) == 4


# ---- leaving the iteration


@for_each_kind
async def test_leaving_the_iteration_leaves_a_valid_history_at_once(conversation):
    runner = await conversation.runner(conversation.calls(1), conversation.calls(2))
    async for _ in runner:
        if runner.iteration_count == 2:
            break
    now = runner.params.messages if conversation.mode == "messages" else ()
    assert MessageHistory(now).check_history() == []
    assert await conversation.history() == CALLED
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the generator is now closed
    assert (await conversation.history(), conversation.ran) == (CALLED, {1: 1})
    with pytest.raises(RuntimeError, match="can be iterated only once"):
        aiter(runner)


@for_each_kind
async def test_an_exception_in_the_loop_body_leaves_a_valid_history(conversation):
    runner = await conversation.runner(conversation.calls(1))

    async def iterate():
        async for _ in runner:
            await runner.generate_tool_response()
            raise KeyError

    with pytest.raises(KeyError):
        await iterate()
    assert await conversation.history() == CALLED
    assert runner.result is None


async def test_the_last_reply_is_stored_even_if_the_consumer_leaves_after_it(simple):
    async for _ in await simple.runner(simple.answer()):
        break
    assert await simple.history() == [QUESTION, ("assistant", "done")]


# ---- streams


async def test_listeners_receive_the_stream_before_the_reply_is_an_item(streamed):
    received = []

    def listen(event):
        if event.name == "reply_stream":
            event.stream.on("text", lambda piece: received.append(piece.delta))

    runner = await streamed.runner(
        streamed.calls(1), streamed.answer("done and dusted"), on_event=listen
    )
    async for reply in runner:
        assert "".join(received) == reply.content
    assert await streamed.history() == [*CALLED, ("assistant", "done and dusted")]


async def test_a_failed_stream_ends_the_iteration_and_it_can_be_continued(streamed):
    runner = await streamed.runner(streamed.calls(1), 500, streamed.answer())
    with pytest.raises(ServerFailed):
        await runner
    assert (await runner).content == "done"
    assert (streamed.ran, runner.iteration_count) == ({1: 1}, 2)
    assert await streamed.history() == [*CALLED, ("assistant", "done")]


# ---- aborts and limits


@for_each_kind
async def test_an_abort_before_the_first_step_prevents_every_request(conversation):
    abort = asyncio.Event()
    abort.set()
    runner = await conversation.runner(abort=abort)
    with pytest.raises(RuntimeError, match="The run was aborted"):
        await runner
    assert (conversation.model.requests, runner.result.status) == ([], "aborted")


@for_each("early", [False, True])
@for_each_kind
async def test_an_abort_stops_a_tool_run_by_the_iteration_or_on_request(conversation, early):
    abort = asyncio.Event()

    async def wait(arguments):
        abort.set()
        await asyncio.Event().wait()

    conversation.tools.append(Tool("g", "", None, wait))
    runner = await conversation.runner(conversation.calls(1, tool="g"), abort=abort)
    async for _ in runner:
        if early:
            assert [each.is_error for each in await runner.generate_tool_response()] == [True]
    assert runner.result.status == "aborted"
    assert [role for role, _ in await conversation.history()] == ["user", "assistant", "tool"]


@for_each_kind
async def test_an_abort_between_two_steps_keeps_the_reply_and_runs_nothing(conversation):
    abort = asyncio.Event()
    runner = await conversation.runner(conversation.calls(1), abort=abort)
    async for _ in runner:
        abort.set()
    assert (runner.result.status, conversation.ran) == ("aborted", {})
    refused = "Error (interrupted): The run was stopped before this call was run."
    assert await conversation.history() == [*CALLED[:2], ("tool", refused)]


@for_each("early", [False, True])
@without_waiting
async def test_a_time_limit_stops_a_tool_run_by_the_iteration_or_on_request(early):
    async with Conversation("native messages") as simple:
        simple.tools.append(Tool("g", "", None, held))
        runner = await simple.runner(simple.calls(1, tool="g"), limits=RunLimits(seconds=20))
        async for _ in runner:
            if early:
                assert [each.is_error for each in await runner.generate_tool_response()] == [True]
        assert runner.result.status == "timeout"
        assert [role for role, _ in await simple.history()] == ["user", "assistant", "tool"]


@for_each_kind
async def test_a_token_limit_ends_the_run_before_the_next_tool(conversation):
    runner = await conversation.runner(conversation.calls(1), limits=RunLimits(tokens=5))
    async for _ in runner:
        runner.push_messages(Message.user("more"))  # a pushed message does not extend the limit
    assert (runner.result.status, conversation.ran) == ("limit", {})
    assert [role for role, _ in await conversation.history()] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]


# ---- approvals


@for_each_kind
async def test_calls_that_wait_for_approval_end_the_iteration_and_another_runner_continues(
    conversation,
):
    conversation.tools = [Tool("f", "", None, conversation.f, needs_approval=True)]
    runner = await conversation.runner(conversation.calls(1))
    async for _ in runner:
        assert await runner.generate_tool_response() is None
    assert (runner.result.status, conversation.ran) == ("awaiting_approval", {})
    assert [call.id for call in runner.result.pending_approvals] == ["call_1"]
    first = conversation.engine, runner.params.messages
    runner = await conversation.runner(conversation.answer())
    if conversation.mode == "session":
        conversation.engine = first[0]
        deps = replace(conversation.deps, context_engine=conversation.engine)
        params = conversation.params(session_id="s", messages=(), approve=lambda request: True)
    else:
        deps, params = (
            conversation.deps,
            conversation.params(*first[1], approve=lambda request: True),
        )
    conversation.last = ToolRunner(deps, params)
    assert (await conversation.last).content == "done"
    assert await conversation.history() == [*CALLED, ("assistant", "done")]


@for_each_kind
async def test_pushed_messages_do_not_separate_a_waiting_call_from_its_result(conversation):
    conversation.tools = [Tool("f", "", None, conversation.f, needs_approval=True)]
    runner = await conversation.runner(conversation.calls(1))
    async for _ in runner:
        runner.push_messages(Message.user("hurry"))
    assert runner.result.status == "awaiting_approval"
    stored = (
        await conversation.engine.history("s")
        if conversation.mode == "session"
        else runner.params.messages[:-1]
    )
    assert [each.role for each in stored] == ["user", "assistant"]
    assert runner.params.messages[-1].text == "hurry"  # available to the next runner


@for_each_kind
async def test_an_aborted_run_lists_its_pending_approvals(conversation):
    conversation.tools = [Tool("f", "", None, conversation.f, needs_approval=True)]
    abort = asyncio.Event()
    runner = await conversation.runner(conversation.calls(1), abort=abort)
    async for _ in runner:
        assert await runner.generate_tool_response() is None
        abort.set()
    assert runner.result.status == "aborted"
    assert [call.id for call in runner.result.pending_approvals] == ["call_1"]


# ---- variables, windows, sessions and misuse


@for_each_kind
async def test_a_long_result_becomes_a_readable_variable(conversation):
    async def long(arguments):
        return "word " * 2000

    conversation.tools.append(Tool("g", "", None, long))
    await (
        await conversation.runner(
            conversation.calls(1, tool="g"), conversation.answer(), variables_over=200
        )
    )
    [shown] = [text for role, text in await conversation.history() if role == "tool"]
    [id] = re.findall(r"var_\w+", shown)  # identical conversations have identical ids
    read = {"id": id, "start": 9990, "length": 10}
    asked = Message.assistant("", [ToolCall("call_2", "read_variable", json.dumps(read))])
    if conversation.dialect == "prompt":
        asked = json.dumps({"tool": "read_variable", "arguments": read})
    await (
        await conversation.runner(
            conversation.calls(1, tool="g"), asked, conversation.answer(), variables_over=200
        )
    )
    results = [text for role, text in await conversation.history() if role == "tool"]
    assert f"[10000 characters in $VAR_REF{{{{{id}}}}}" in results[0]
    assert results[1].startswith("word word \n[characters 9990 to 10000")


@for_each_kind
async def test_the_question_stays_in_the_smallest_window(conversation):
    runner = await conversation.runner(
        *[conversation.calls(x) for x in range(3)],
        conversation.answer(),
        window=KeepSystemAndRecent(max_messages=2),
    )
    runner.push_messages(Message.assistant("Well?"))
    await runner
    assert [texts[0] for texts in conversation.asked] == ["Go."] * 4


@for_each("new", [Message.user("new"), Message.assistant("new")])
async def test_a_replaced_question_is_not_sent_again(simple, new):
    runner = await simple.runner(simple.calls(1), simple.calls(2), simple.answer())
    runner.push_messages(Message.user("old"))
    async for _ in runner:
        if runner.iteration_count == 1:
            runner.set_params(lambda now: replace(now, messages=[new]))
    shown = [[each.text for each in request.messages] for request in simple.model.requests]
    assert shown[1:] == [["new", "", "r1"], ["new", "", "r1", "", "r2"]]


@for_each("kind", ["native session", "prompt session", "prompt session stream"])
async def test_a_second_runner_continues_the_session_of_the_first(kind):
    conversation = Conversation(kind)
    first = await conversation.runner(
        conversation.calls(1),
        conversation.answer(),
        conversation.calls(2),
        conversation.answer("bye"),
    )
    second = ToolRunner(conversation.deps, conversation.params(Message.user("And?")))
    assert ((await first).content, (await second).content) == ("done", "bye")
    again = [("user", "And?"), ("assistant", ""), ("tool", "r2"), ("assistant", "bye")]
    assert (conversation.ran, await conversation.history()) == (
        {1: 1, 2: 1},
        [*CALLED, ("assistant", "done"), *again],
    )
    await conversation.gateway.aclose()


@for_each("early", [False, True])
@for_each("kind", ["native session", "prompt session", "prompt session stream"])
async def test_two_concurrent_runners_of_one_session_take_turns(kind, early):
    conversation = Conversation(kind)
    first = await conversation.runner(
        conversation.calls(1),
        conversation.calls(2),
        conversation.answer("one"),
        conversation.answer("two"),
    )
    second = ToolRunner(conversation.deps, conversation.params(Message.user("And I?")))

    async def iterate(runner):
        async for _ in runner:
            if early:
                await runner.generate_tool_response()

    await asyncio.gather(iterate(first), iterate(second))
    history = await conversation.history()
    assert conversation.ran == {1: 1, 2: 1}
    assert sorted(text for _, text in history) == [
        "",
        "",
        "And I?",
        "Go.",
        "one",
        "r1",
        "r2",
        "two",
    ]
    await conversation.gateway.aclose()


@for_each(
    "use",
    [
        lambda runner: runner.generate_tool_response(),
        lambda runner: runner.done(),
        lambda runner: runner.run_until_done(),
        lambda runner: anext(aiter(runner)),
    ],
)
@for_each_kind
async def test_a_tool_that_uses_its_own_runner_gets_an_error_instead_of_blocking(conversation, use):
    async def ask(arguments):
        try:
            await use(conversation.last)
        except RuntimeError as error:
            return f"refused: {'already' in str(error)}"

    conversation.tools.append(Tool("g", "", None, ask))
    runner = await conversation.runner(conversation.calls(1, tool="g"), conversation.answer())
    async with asyncio.timeout(5):
        await runner
    assert (await conversation.history())[2:] == [("tool", "refused: True"), ("assistant", "done")]


@for_each_kind
async def test_parameters_without_messages_do_not_change_the_conversation(conversation):
    runner = await conversation.runner(conversation.calls(1), conversation.answer())
    async for _ in runner:
        if runner.iteration_count == 1:
            runner.set_params(replace(runner.params, messages=(), temperature=0.5))
            assert (runner.params.temperature, len(runner.params.messages) > 0) == (0.5, True)
    assert await conversation.history() == [*CALLED, ("assistant", "done")]


@for_each_kind
async def test_wrong_types_of_deps_and_params_raise_an_error_that_names_them(conversation):
    await conversation.runner()
    with pytest.raises(TypeError, match="deps must be of type ToolLoopDeps, not ToolRegistry"):
        ToolRunner(conversation.deps.tool_registry, RunnerParams())
    with pytest.raises(TypeError, match="params must be of type RunnerParams, not ToolLoopOptions"):
        ToolRunner(conversation.deps, ToolLoopOptions())
