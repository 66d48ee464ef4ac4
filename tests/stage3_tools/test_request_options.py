"""Options that reach the requests of a run: `provider_options`, `stop`, `tool_choice`."""

import re

import pytest

from llm_stages import RunFile, read_run
from llm_stages.runs.replay import replay
from stage0_gateway import Gateway, Message, ScriptedModel
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    RunnerParams,
    ToolChainOptions,
    ToolLoopDeps,
    ToolRunner,
    ask,
    execute_tool_chain,
    tool,
)
from tests.stage3_tools.conversation import answer, call, calls, native_calls
from tests.tables import for_each


@tool(effect="read")
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"22 degrees in {city}"


@tool(effect="read")
def get_time() -> str:
    """Tell the time."""
    return "12:30"


DIALECTS = [
    (NativeDialect(), native_calls(("get_weather", {"city": "Rome"})), "Mild."),
    (PromptDialect(), call("get_weather", city="Rome"), answer("Mild.")),
]
WEATHER = "In this reply, call the tool get_weather. Answer the user after its result."


class Bodies:
    """A gateway with scripted replies, and the bodies of its requests."""

    def __init__(self, *replies):
        self.model = ScriptedModel(replies)
        self.gateway = Gateway("openai:m", transport=self.model, max_retries=0)

    def sent(self, *names):
        return [{name: body.get(name) for name in names} for body in self.model.bodies]


async def test_stop_texts_and_provider_options_are_sent_with_every_request_of_every_entry():
    options = {"stop": "END", "provider_options": {"seed": 7}}
    native = {"dialect": NativeDialect(), **options}
    fields = {"stop": ["END"], "seed": 7}
    weather = native_calls(("get_weather", {"city": "Rome"}))

    model = Bodies(weather, "Mild.")
    await ask("Weather?", tools=[get_weather], model=model.gateway, **native)
    assert model.sent(*fields) == [fields, fields]

    model = Bodies(weather, "Mild.")
    deps = ToolLoopDeps(model.gateway, tool_registry=[get_weather])
    await ToolRunner(deps, RunnerParams(messages=[Message.user("Weather?")], **native))
    assert model.sent(*fields) == [fields, fields]

    model = Bodies("Mild.")
    chain = ToolChainOptions(model.gateway, [Message.user("Weather?")], **options)
    await execute_tool_chain(deps.tool_registry, weather, chain)
    assert model.sent(*fields) == [fields]


async def test_with_provider_options_structured_output_and_the_cache_key_are_still_sent():
    model = Bodies('{"temp": 22}')
    schema = {"type": "object", "properties": {"temp": {"type": "integer"}}}
    options = {"output_type": schema, "dialect": NativeDialect(), "provider_options": {"seed": 7}}
    await ask("Weather?", model=model.gateway, **options)
    [body] = model.model.bodies
    assert body["seed"] == 7
    assert body["response_format"]["type"] == "json_schema"


@for_each("dialect, weather, reply", DIALECTS)
async def test_the_first_turn_must_call_the_tool_of_tool_choice(dialect, weather, reply):
    model = Bodies(reply, weather, reply)
    result = await ask(
        "Hi", tools=[get_weather], model=model.gateway, dialect=dialect, tool_choice="get_weather"
    )
    assert result.reply == "Mild."
    assert [one.name for one in result.history] == ["get_weather"]
    bodies = model.model.bodies
    assert bodies[1]["messages"][-1]["content"] == f"[Feedback]\nYour reply was not used. {WEATHER}"
    if isinstance(dialect, NativeDialect):
        named = {"type": "function", "function": {"name": "get_weather"}}
        assert model.sent("tool_choice") == [{"tool_choice": each} for each in (named, named, None)]
    else:
        asked = [body["messages"][0]["content"].endswith(WEATHER) for body in bodies]
        assert asked == [True, True, False]


@for_each("dialect, weather, reply", DIALECTS)
async def test_another_tool_than_the_chosen_one_is_not_run(dialect, weather, reply):
    model = Bodies(weather, weather, weather)
    tools = [get_weather, get_time]
    result = await ask(
        "Hi", tools=tools, model=model.gateway, dialect=dialect, tool_choice="get_time"
    )
    assert (result.status, result.history) == ("parse_failed", ())


@for_each("dialect, weather, reply", DIALECTS)
async def test_any_tool_satisfies_required(dialect, weather, reply):
    model = Bodies(weather, reply)
    tools = [get_weather, get_time]
    options = {"model": model.gateway, "dialect": dialect, "tool_choice": "required"}
    assert (await ask("Hi", tools=tools, **options)).tool_rounds == 1


@for_each("dialect, weather, reply", DIALECTS)
async def test_none_forbids_calls_in_the_first_turn_and_auto_changes_nothing(
    dialect, weather, reply
):
    model = Bodies(reply, weather, reply)
    options = {"model": model.gateway, "dialect": dialect, "tools": [get_weather]}
    assert (await ask("Hi", tool_choice="none", **options)).reply == "Mild."
    assert (await ask("Hi", tool_choice="auto", **options)).tool_rounds == 1
    if isinstance(dialect, NativeDialect):
        choices = [body.get("tool_choice") for body in model.model.bodies]
        assert choices == ["none", None, None]


@for_each(
    "tools, known", [([get_weather], "The tools are get_weather."), ([], "There are no tools.")]
)
async def test_an_unknown_tool_choice_raises_an_error_that_lists_the_tools(tools, known):
    text = (
        "tool_choice is 'get_wether'; use 'auto', 'none', 'required' or the name of a tool. "
        f"{known}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        await ask("Hi", tools=tools, model=Bodies().gateway, tool_choice="get_wether")


def test_a_chain_refuses_a_tool_choice_because_its_first_reply_exists():
    with pytest.raises(ValueError, match="tool_choice comes too late"):
        ToolChainOptions(Bodies().gateway, tool_choice="required")


async def test_a_runner_may_require_a_tool_in_a_later_turn():
    model = Bodies(calls("get_time"), "Noon.", calls("get_weather", city="Rome"), "Mild.")
    deps = ToolLoopDeps(model.gateway, tool_registry=[get_weather, get_time])
    params = RunnerParams(messages=[Message.user("Time?")], dialect=NativeDialect())
    runner = ToolRunner(deps, params)
    async for _ in runner:
        if runner.iteration_count == 1:
            runner.set_params(RunnerParams(dialect=NativeDialect(), tool_choice="get_weather"))
    assert [one.name for one in runner.result.history] == ["get_time", "get_weather"]


@pytest.mark.parametrize(("dialect", "weather", "reply"), DIALECTS, ids=["native", "prompt"])
async def test_a_run_file_contains_the_options_and_replays(dialect, weather, reply, tmp_path):
    file, model = tmp_path / "run.jsonl", Bodies(weather, reply)
    await ask(
        "Hi",
        tools=[get_weather],
        model=model.gateway,
        dialect=dialect,
        tool_choice="required",
        stop=["END"],
        provider_options={"seed": 7},
        trace=RunFile(file),
    )
    run = read_run(file)
    options = {name: run.options[name] for name in ("stop", "provider_options", "tool_choice")}
    assert options == {
        "stop": ["END"],
        "provider_options": {"seed": 7},
        "tool_choice": "required",
    }
    assert await replay(run) == []
