import pytest

from llm_stages import RunFile, read_run
from stage0_gateway import (
    ChatResponse,
    ConfigurationError,
    Gateway,
    Message,
    ScriptedModel,
    Usage,
)
from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    RunLimits,
    ToolChainOptions,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    ask,
    execute_tool_chain,
    run_tool_loop,
)
from tests.stage3_tools.conversation import DONE, Recorder, call, chat_of, native_calls, unused_chat
from tests.tables import for_each


@for_each(
    "name, value, least",
    [
        ("max_tool_rounds", -1, 0),
        ("max_parse_retries", -1, 0),
        ("max_parallel_tools", 0, 1),
    ],
)
def test_a_number_below_its_minimum_raises_a_value_error(name, value, least):
    with pytest.raises(ValueError, match=f"{name} is {value}; it must be at least {least}."):
        ToolLoopOptions(**{name: value})


def test_zero_rounds_and_no_round_limit_are_valid():
    assert ToolLoopOptions(max_tool_rounds=0).max_tool_rounds == 0
    assert ToolLoopOptions(max_tool_rounds=None).max_tool_rounds is None


def test_an_unknown_option_raises_a_type_error():
    with pytest.raises(TypeError, match="max_rounds"):
        ToolLoopOptions(max_rounds=3)


@for_each(
    "place, message",
    [
        (0, "chat must be a Gateway, or an async function that returns .*, not 'a'"),
        (1, "context_engine must be of type ContextEngine, not str"),
        (2, "output_controller must be of type OutputController, not str"),
        (3, r"tool_registry must be a list such as tool_registry=\[get_weather\], or a .*, not 7"),
    ],
)
def test_deps_of_a_wrong_type_raise_an_error_that_names_them(place, message):
    async def chat(messages, **settings):
        return None

    pieces = [chat, ContextEngine(), OutputController(), ToolRegistry()]
    pieces[place] = 7 if place == 3 else "a"
    with pytest.raises(TypeError, match=message):
        ToolLoopDeps(*pieces)


@for_each("dialect", [PromptDialect, "native", 1])
def test_a_dialect_must_be_an_instance(dialect):
    with pytest.raises(
        TypeError, match=r"dialect must be PromptDialect\(\), NativeDialect\(\) or an object"
    ):
        ToolLoopOptions(dialect=dialect)


# ---- the model

KEY, OTHER_KEY = "sk-live-0123456789abcdefghij", "ak-test-9876543210zyxwvutsrq"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def logged(gateway):
    """Return a function of a program around a gateway."""

    async def chat(messages, **options):
        return await gateway.chat(messages, **options)

    return chat


@pytest.fixture
def asked(tmp_path):
    """Ask for a number with these parts; return the body of the request, and the recorded run. The
    question contains the key of the gateway, and the key of another gateway of the program."""

    async def run(deps_of):
        other, model = Gateway("openai:other", api_key=OTHER_KEY), ScriptedModel(['{"n": 1}'])
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        options = {"dialect": NativeDialect(), "output_type": NUMBER, "trace": RunFile(path)}
        async with other, Gateway("openai:m", api_key=KEY, transport=model) as gateway:
            deps = deps_of(gateway)
            await deps.context_engine.create_session("s")
            result = await run_tool_loop(deps, "s", f"{KEY} {OTHER_KEY}", **options)
        assert (result.status, result.output) == ("completed", {"n": 1})
        return model.bodies[0], read_run(path)

    return run


def test_the_parts_contain_the_gateway_and_its_functions():
    gateway = Gateway("offline:teacher")
    deps = ToolLoopDeps(gateway)
    assert (deps.chat, deps.stream, deps.gateway) == (gateway.chat, None, gateway)
    deps = ToolLoopDeps(gateway, stream=True)
    assert (deps.chat, deps.stream, deps.gateway) == (gateway.chat, gateway.stream, gateway)
    deps = ToolLoopDeps(unused_chat, stream=True, gateway=gateway)
    assert (deps.chat, deps.stream, deps.gateway) == (unused_chat, gateway.stream, gateway)


def test_the_parts_of_a_function_contain_no_gateway():
    for chat in (unused_chat, Gateway("offline:teacher").chat):
        deps = ToolLoopDeps(chat, stream=False)
        assert (deps.chat, deps.stream, deps.gateway) == (chat, None, None)


async def test_a_function_that_names_its_gateway_is_sent_a_schema_and_a_cache_key(asked):
    direct, _ = await asked(ToolLoopDeps)
    body, run = await asked(lambda gateway: ToolLoopDeps(logged(gateway), gateway=gateway))
    assert body == direct
    assert (body["prompt_cache_key"], "response_format" in body) == ("s", True)
    assert run.model == "openai:m"
    assert run.turns[0].request.messages[-1].text == f"[hidden] {OTHER_KEY}"


@for_each("function", [logged, lambda gateway: gateway.chat])
async def test_a_function_without_its_gateway_is_sent_neither_and_all_keys_are_hidden(
    asked, function
):
    with pytest.warns(UserWarning, match="The model of this run is unknown"):
        body, run = await asked(lambda gateway: ToolLoopDeps(function(gateway)))
    assert not {"prompt_cache_key", "response_format"} & body.keys()
    assert run.model is None
    assert run.turns[0].request.messages[-1].text == "[hidden] [hidden]"


async def test_a_limit_of_the_cost_is_refused_for_a_named_gateway_without_prices():
    async with Gateway("openai:m", transport=ScriptedModel([])) as gateway:
        deps = ToolLoopDeps(unused_chat, gateway=gateway)
        session = await deps.context_engine.create_session()
        with pytest.raises(ConfigurationError, match="needs prices, and 'openai:m' has none"):
            await run_tool_loop(deps, session, "Hi.", limits=RunLimits(cost=0.5))


async def test_a_named_gateway_streams_without_the_function():
    model = ScriptedModel(["Hello."])
    async with Gateway("openai:m", transport=model) as gateway:
        deps = ToolLoopDeps(unused_chat, stream=True, gateway=gateway)
        session = await deps.context_engine.create_session()
        result = await run_tool_loop(deps, session, "Hi.", dialect=NativeDialect())
    assert (result.reply, model.bodies[0]["stream"]) == ("Hello.", True)


async def test_streaming_without_a_known_gateway_raises_an_error_that_states_what_to_write():
    for chat in (unused_chat, Gateway("offline:teacher").chat):
        with pytest.raises(TypeError) as caught:
            ToolLoopDeps(chat, stream=True)
        assert str(caught.value) == (
            "stream=True needs a known model: pass the gateway itself, or name it behind a "
            "function: gateway=gateway."
        )
    recorder = Recorder()
    with pytest.raises(TypeError, match="stream=True needs a known model"):
        await execute_tool_chain(
            ToolRegistry(recorder.tool),
            native_calls(("f", {})),
            ToolChainOptions(unused_chat, stream=True),
        )
    assert recorder.seen == []


@for_each("gateway", ["openai:m", unused_chat, 7])
def test_a_value_that_is_not_a_gateway_cannot_be_named_as_one(gateway):
    with pytest.raises(TypeError, match="gateway must be a Gateway, or None, not "):
        ToolLoopDeps(unused_chat, gateway=gateway)


# ---- RunLimits


def replies(*usages, cost=None):
    """Return replies with a call each, then one with an answer, with these usages."""
    texts = [*(call(n=n) for n in range(len(usages) - 1)), DONE]
    return [
        ChatResponse(Message.assistant(text), "stop", usage=usage, cost=cost)
        for text, usage in zip(texts, usages, strict=True)
    ]


@for_each("field", ["seconds", "tokens", "cost"])
@for_each("value", [0, -1, float("nan"), "3"])
def test_a_limit_must_be_positive(field, value):
    with pytest.raises(
        ValueError, match=f"The limit of {field} is .*; it must be a number above 0, or None"
    ):
        RunLimits(**{field: value})


@for_each(
    "limits, usage, cost, reason",
    [
        (RunLimits(), Usage(10**9, 10**9), 10.0**9, None),
        (RunLimits(tokens=100), Usage(60, 39), None, None),
        (
            RunLimits(tokens=100),
            Usage(60, 40),
            None,
            "The limit of 100 tokens for this run was reached: 100 were used.",
        ),
        (RunLimits(tokens=1), Usage(None, None), None, None),
        (RunLimits(cost=0.5), Usage(1, 1), 0.49, None),
        (
            RunLimits(cost=0.5),
            Usage(1, 1),
            0.75,
            "The limit of 0.5 dollars for this run was reached: 0.75 were spent.",
        ),
    ],
)
def test_each_limit_is_compared_with_the_usage(limits, usage, cost, reason):
    assert limits.reached(usage, cost) == reason


async def test_after_a_limit_no_further_tool_runs_and_no_request_is_sent(new_conversation):
    recorder = Recorder()
    conversation = new_conversation(
        (), recorder.tool, chat=chat_of(*replies(Usage(40, 5), Usage(50, 5), Usage(1, 1)))
    )
    result = await conversation.ask(limits=RunLimits(tokens=100))
    assert (result.status, result.reply, result.tool_rounds) == ("limit", None, 1)
    assert (
        result.status_reason == "The limit of 100 tokens for this run was reached: 100 were used."
    )
    assert recorder.seen == [{"n": 0}]
    assert [each.result.status for each in result.history] == ["completed", "interrupted"]
    assert "This call was not run." in result.history[1].result.output
    assert await conversation.problems() == []


async def test_a_final_reply_that_reaches_the_limit_is_still_returned(new_conversation):
    conversation = new_conversation(
        (), Recorder().tool, chat=chat_of(*replies(Usage(40, 5), Usage(500, 5)))
    )
    result = await conversation.ask(limits=RunLimits(tokens=100))
    assert (result.status, result.reply) == ("completed", "done")


async def test_a_cost_limit_ends_the_run_and_the_session_can_continue(new_conversation):
    used = Usage(1, 1)
    conversation = new_conversation(
        (), Recorder().tool, chat=chat_of(*replies(used, used, used, cost=0.3))
    )
    result = await conversation.ask(limits=RunLimits(cost=0.5))
    assert (result.status, result.cost) == ("limit", 0.6)
    assert (await conversation.ask("And now?", limits=RunLimits(cost=0.5))).reply == "done"


async def test_invalid_replies_count_toward_the_limit(new_conversation):
    unusable = ChatResponse(Message.assistant("hm"), "stop", usage=Usage(200, 0))
    result = await new_conversation((), Recorder().tool, chat=chat_of(unusable)).ask(
        limits=RunLimits(tokens=100)
    )
    assert (result.status, result.last_raw_content) == ("limit", "hm")


async def test_the_reasoning_of_a_run_is_sent_with_each_request():
    model = ScriptedModel(['{"tool": null, "reply": "a"}'] * 3)
    async with Gateway("openai:m", transport=model, reasoning="low") as gateway:
        deps = ToolLoopDeps(gateway)
        session = await deps.context_engine.create_session()
        await run_tool_loop(deps, session, "Hi.", reasoning="high")
        await run_tool_loop(deps, session, "Hi.", ToolLoopOptions(reasoning="medium"))
        await run_tool_loop(deps, session, "Hi.")
    assert [each.reasoning for each in model.requests] == ["high", "medium", "low"]


async def test_an_unknown_reasoning_of_a_run_raises_with_the_valid_choices():
    async with Gateway("openai:m", transport=ScriptedModel([])) as gateway:
        with pytest.raises(ConfigurationError, match="reasoning='max' is unknown"):
            await ask("Hi.", model=gateway, reasoning="max")
