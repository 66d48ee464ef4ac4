import pytest

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
    PromptDialect,
    RunLimits,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    ask,
    run_tool_loop,
)
from tests.stage3_tools.conversation import DONE, Recorder, call, chat_of
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
        (0, "chat must be an async function such as gateway.chat, .* not str"),
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
        deps = ToolLoopDeps(gateway.chat)
        session = await deps.context_engine.create_session()
        await run_tool_loop(deps, session, "Hi.", reasoning="high")
        await run_tool_loop(deps, session, "Hi.", ToolLoopOptions(reasoning="medium"))
        await run_tool_loop(deps, session, "Hi.")
    assert [each.reasoning for each in model.requests] == ["high", "medium", "low"]


async def test_an_unknown_reasoning_of_a_run_raises_with_the_valid_choices():
    async with Gateway("openai:m", transport=ScriptedModel([])) as gateway:
        with pytest.raises(ConfigurationError, match="reasoning='max' is unknown"):
            await ask("Hi.", model=gateway, reasoning="max")
