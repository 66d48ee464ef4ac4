"""Tests of typed final replies: `output_type` in every entry point, both dialects, streamed or not."""

import json

import httpx
import pytest
from pydantic import BaseModel

from stage0_gateway import ChatResponse, ContextOverflow, Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine
from stage2_output import InvalidSchema
from stage3_tools import (
    FinalReply,
    NativeDialect,
    PromptDialect,
    RequestParts,
    RunnerParams,
    ToolChainOptions,
    ToolLoopDeps,
    ToolRegistry,
    ToolRunner,
    ask,
    execute_tool_chain,
    run_tool_loop,
)
from tests.tables import for_each


class Weather(BaseModel):
    city: str
    temp: int


ROME = Weather(city="Rome", temp=22)
JSON = '{"city": "Rome", "temp": 22}'


def get_weather(city: str) -> dict[str, object]:
    """Tell the weather in a city."""
    return {"city": city, "temp": 22}


def call(dialect):
    if isinstance(dialect, NativeDialect):
        return Message.assistant("", [ToolCall("c1", "get_weather", '{"city": "Rome"}')])
    return '{"tool": "get_weather", "arguments": {"city": "Rome"}}'


def reply(dialect, value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if isinstance(dialect, NativeDialect) else f'{{"tool": null, "reply": {text}}}'


@pytest.fixture(params=[NativeDialect, PromptDialect])
def dialect(request):
    return request.param()


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def run(request, dialect):
    """Ask one question; return the result and the requests."""

    async def asked(*replies, tools=(get_weather,), provider="openai", **options):
        model = ScriptedModel(replies)
        async with Gateway(f"{provider}:m", transport=model, max_retries=0) as gateway:
            deps = ToolLoopDeps(gateway, tool_registry=tools, stream=request.param)
            session = await deps.context_engine.create_session()
            options = {"output_type": Weather, "dialect": dialect, **options}
            result = await run_tool_loop(deps, session, "Rome?", **options)
            history = await deps.context_engine.history(session)
        assert history.check_history() == []
        return result, model.requests

    return asked


async def test_the_reply_becomes_a_value_of_the_type(run, dialect):
    result, _ = await run(call(dialect), reply(dialect, JSON))
    assert (result.status, result.output, result.reply) == ("completed", ROME, JSON)
    assert result.tool_rounds == 1


async def test_an_invalid_value_gets_feedback(run, dialect):
    result, requests = await run(reply(dialect, {"city": "Rome"}), reply(dialect, JSON))
    assert (result.output, result.stats.turns) == (ROME, 2)
    feedback = requests[1].messages[-1].text
    assert feedback.startswith("[Feedback]\nYour answer must be JSON that fits its schema.")
    assert "/temp is missing (integer); you sent `city`" in feedback


async def test_a_reply_that_never_fits_ends_with_parse_failed(run, dialect):
    replies = [reply(dialect, {"city": number}) for number in range(2)]
    result, _ = await run(*replies, max_parse_retries=1)
    assert (result.status, result.reply, result.output) == ("parse_failed", None, None)
    assert "/temp is missing" in result.status_reason


async def test_json_inside_a_string_is_repaired_unless_the_type_is_str(run, dialect):
    text = json.dumps(JSON)
    result, _ = await run(reply(dialect, text))
    assert (result.output, result.reply) == (ROME, JSON)
    result, _ = await run(reply(dialect, text), output_type=str)
    assert (result.output, result.reply) == (JSON, text)


async def test_an_empty_reply_is_invalid_instead_of_completed(run, dialect):
    result, _ = await run(reply(dialect, '""'), reply(dialect, '""'), max_parse_retries=1)
    assert (result.status, result.output) == ("parse_failed", None)


@for_each(
    "output_type, text, value",
    [
        ({"type": "object", "required": ["n"]}, '{"n": 1}', {"n": 1}),
        (list[int], "[1, 2]", [1, 2]),
        (int, "7", 7),
        (str, '"seven"', "seven"),
        (bool, "false", False),
        (int | None, "null", None),
    ],
)
async def test_the_reply_may_be_any_json_type(run, dialect, output_type, text, value):
    result, _ = await run(reply(dialect, text), output_type=output_type)
    assert (result.status, result.output, result.reply) == ("completed", value, text)


async def test_the_last_request_also_asks_for_the_value(run, dialect):
    result, requests = await run(call(dialect), reply(dialect, JSON), max_tool_rounds=1)
    assert (result.status, result.output, result.reply) == ("max_rounds", ROME, JSON)
    assert '"temp"' in requests[1].messages[0].text
    assert "No more tools can be called." in requests[1].messages[0].text


async def test_a_final_request_whose_reply_never_fits_ends_with_parse_failed(run, dialect):
    invalid = reply(dialect, {"city": "Rome"})
    result, _ = await run(call(dialect), invalid, max_tool_rounds=1, max_parse_retries=0)
    assert (result.status, result.reply, result.tool_rounds) == ("parse_failed", None, 1)


async def test_with_tools_the_bare_value_is_accepted_too(run, dialect):
    result, requests = await run(call(dialect), JSON)
    assert (result.status, result.output, result.reply) == ("completed", ROME, JSON)
    assert len(requests) == 2


async def test_without_tools_the_bare_value_is_accepted(run, dialect):
    result, _ = await run(JSON, tools=())
    assert (result.status, result.output) == ("completed", ROME)


async def test_the_schema_is_described_and_its_tokens_are_counted(dialect):
    engine = ContextEngine()
    seen = []

    async def chat(messages, **settings):
        seen.append((messages, settings))
        return reply(dialect, JSON)

    deps = ToolLoopDeps(chat, engine, tool_registry=[get_weather])
    await engine.create_session("s")
    with pytest.warns(UserWarning, match="The model of this run is unknown"):
        await run_tool_loop(deps, "s", "Rome?", output_type=Weather, dialect=dialect)
    ((messages, settings),) = seen
    assert '"required": ["city", "temp"]' in messages[0].text
    # A plain function does not declare support for schemas.
    assert "response_schema" not in settings
    if isinstance(dialect, PromptDialect):
        assert '{"tool": null, "reply": <your answer as a JSON value>}' in messages[0].text


async def test_a_run_with_an_unknown_model_warns_once_that_its_server_receives_no_schema(
    recwarn, dialect
):
    replies = [call(dialect), reply(dialect, {"city": "Rome"}), reply(dialect, JSON)]

    async def chat(messages, **settings):
        response = replies.pop(0)
        message = Message.assistant(response) if isinstance(response, str) else response
        return ChatResponse(message, "tool_calls" if message.tool_calls else "stop")

    deps = ToolLoopDeps(chat, tool_registry=[get_weather])
    session = await deps.context_engine.create_session()
    result = await run_tool_loop(deps, session, "Rome?", output_type=Weather, dialect=dialect)
    assert (result.output, replies) == (ROME, [])
    assert [(each.category, str(each.message)) for each in recwarn] == [
        (
            UserWarning,
            "The model of this run is unknown, so its server does not receive the JSON Schema of "
            "output_type; the prompt asks for it. Write ToolLoopDeps(gateway), or "
            "ToolLoopDeps(chat, gateway=gateway) for a function around a gateway.",
        )
    ]


async def test_without_an_output_type_an_unknown_model_is_no_reason_to_warn(recwarn):
    async def chat(messages, **settings):
        return "22 degrees."

    deps = ToolLoopDeps(chat)
    session = await deps.context_engine.create_session()
    await run_tool_loop(deps, session, "Rome?", dialect=NativeDialect())
    assert [*recwarn] == []


# ---- structured output of the server


async def schemas_sent(provider, *, tools, base_url=None):
    model = ScriptedModel([JSON])
    async with Gateway(f"{provider}:m", transport=model, base_url=base_url) as gateway:
        result = await ask(
            "Rome?", tools=tools, model=gateway, output_type=Weather, dialect=NativeDialect()
        )
    assert result.output == ROME
    return [request.response_schema is not None for request in model.requests]


@for_each(
    "provider, with_tools, without",
    [
        ("openai", True, True),
        ("anthropic", True, True),
        ("openai-responses", True, True),
        ("gemini", False, True),
        ("ollama", False, True),
        ("deepseek", False, False),
    ],
)
async def test_the_schema_is_sent_to_servers_that_support_it(provider, with_tools, without):
    assert await schemas_sent(provider, tools=[get_weather]) == [with_tools]
    assert await schemas_sent(provider, tools=[]) == [without]


async def test_a_custom_server_with_tools_does_not_receive_the_schema():
    url = "http://localhost:9/v1"
    assert await schemas_sent("openai", tools=[get_weather], base_url=url) == [False]


def rejecting_server(bodies, error):
    """A server that rejects every schema, calls a tool once, and then replies with JSON."""

    def answer(request):
        bodies.append(json.loads(request.content))
        if "response_format" in bodies[-1]:
            return httpx.Response(400, json={"error": error})
        message = {"role": "assistant", "content": JSON}
        if not any(each["role"] == "tool" for each in bodies[-1]["messages"]):
            function = {"name": "get_weather", "arguments": '{"city": "Rome"}'}
            call = {"id": "c1", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return httpx.Response(200, json={"choices": [{"index": 0, "message": message}]})

    return httpx.MockTransport(answer)


async def test_a_rejected_schema_is_not_sent_again_in_the_later_turns_of_a_run():
    bodies, error = [], {"message": "Unknown keyword."}
    transport = rejecting_server(bodies, error)
    async with Gateway("openai:m", transport=transport, max_retries=0) as gateway:
        result = await ask(
            "Rome?",
            tools=[get_weather],
            model=gateway,
            output_type=Weather,
            dialect=NativeDialect(),
        )
    assert (result.output, result.tool_rounds) == (ROME, 1)
    assert ["response_format" in body for body in bodies] == [True, False, False]


async def test_a_request_that_is_too_long_is_not_repeated_without_its_schema():
    bodies, error = [], {"message": "Too long.", "code": "context_length_exceeded"}
    transport = rejecting_server(bodies, error)
    async with Gateway("openai:m", transport=transport, max_retries=0) as gateway:
        with pytest.raises(ContextOverflow):
            await ask(
                "Rome?",
                tools=[get_weather],
                model=gateway,
                output_type=Weather,
                dialect=NativeDialect(),
            )
    assert len(bodies) == 1


@for_each("streamed", [False, True])
async def test_a_request_with_a_rejected_schema_is_repeated_without_it(streamed):
    bodies = []

    def answer(request):
        bodies.append(json.loads(request.content))
        if "response_format" in bodies[-1]:
            return httpx.Response(400, json={"error": {"message": "Unknown keyword."}})
        message = {"role": "assistant", "content": JSON}
        choice = {"index": 0, "finish_reason": "stop"}
        if streamed:
            data = json.dumps({"choices": [{**choice, "delta": message}]})
            return httpx.Response(
                200,
                text=f"data: {data}\n\ndata: [DONE]\n\n",
                headers={"content-type": "text/event-stream"},
            )
        return httpx.Response(200, json={"choices": [{**choice, "message": message}]})

    transport = httpx.MockTransport(answer)
    async with Gateway("openai:m", transport=transport, max_retries=0) as gateway:
        deps = ToolLoopDeps(gateway, tool_registry=[get_weather], stream=streamed)
        session = await deps.context_engine.create_session()
        result = await run_tool_loop(
            deps, session, "Rome?", output_type=Weather, dialect=NativeDialect()
        )
    assert (result.output, result.stats.turns) == (ROME, 1)
    assert ["response_format" in body for body in bodies] == [True, False]


# ---- the other entry points


async def test_a_runner_has_the_value_in_its_result(dialect):
    model = ScriptedModel([call(dialect), reply(dialect, JSON)])
    async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
        params = RunnerParams(
            messages=[Message.user("Rome?")], dialect=dialect, output_type=Weather
        )
        runner = ToolRunner(ToolLoopDeps(gateway, tool_registry=[get_weather]), params)
        replies = [response.content async for response in runner]
    assert len(replies) == 2
    assert (runner.result.output, runner.result.reply) == (ROME, JSON)


async def test_a_chain_has_the_value_in_its_result(dialect):
    model = ScriptedModel([call(dialect), reply(dialect, {"city": 1}), reply(dialect, JSON)])
    async with Gateway("openai:m", transport=model, max_retries=0) as gateway:
        registry = ToolRegistry(get_weather)
        first = await gateway.chat([Message.user("Rome?")])
        options = ToolChainOptions(gateway, dialect=dialect, output_type=Weather)
        result = await execute_tool_chain(registry, first, options)
    assert (result.status, result.output, result.reply) == ("completed", ROME, JSON)


async def test_a_resumed_session_that_ends_with_a_reply_returns_its_value(dialect):
    async with Gateway("openai:m", transport=ScriptedModel([])) as gateway:
        deps = ToolLoopDeps(gateway)
        session = await deps.context_engine.create_session()
        for message in (Message.user("Rome?"), Message.assistant(JSON)):
            await deps.context_engine.add_message(session, message)
        result = await run_tool_loop(
            deps, session, None, resume=True, output_type=Weather, dialect=dialect
        )
    assert (result.status, result.output) == ("completed", ROME)


async def test_a_resumed_session_whose_reply_is_invalid_asks_again(dialect):
    model = ScriptedModel([reply(dialect, JSON)])
    async with Gateway("openai:m", transport=model) as gateway:
        deps = ToolLoopDeps(gateway)
        session = await deps.context_engine.create_session()
        for message in (Message.user("Rome?"), Message.assistant("22 degrees.")):
            await deps.context_engine.add_message(session, message)
        result = await run_tool_loop(
            deps, session, None, resume=True, output_type=Weather, dialect=dialect
        )
    assert (result.status, result.output) == ("completed", ROME)
    assert "[Feedback]" in model.requests[0].messages[-1].text


# ---- invalid options


async def test_a_type_without_a_schema_raises_before_the_first_request():
    with pytest.raises(InvalidSchema):
        await ask("Rome?", model="offline:teacher", output_type={"type": "nonsense"})


async def test_a_dialect_without_typed_replies_raises_an_error_that_names_it():
    class Lines:
        def describe(self, registry):
            return ""

        def render(self, transcript, registry, *, last=False):
            return RequestParts(tuple(transcript))

        def read(self, response, registry):
            return FinalReply(response.message)

    with pytest.raises(TypeError, match=r"not Lines\. output_type needs for_output\(schema\)"):
        await ask("Rome?", model="offline:teacher", output_type=Weather, dialect=Lines())


async def test_the_offline_model_answers_with_a_value(dialect):
    result = await ask(
        "What is the weather in Rome?",
        tools=[get_weather],
        model="offline:teacher",
        output_type=Weather,
        dialect=dialect,
    )
    assert (result.output, result.tool_rounds) == (ROME, 1)
