"""The session is the key of the prompt cache of OpenAI's own server."""

from stage0_gateway import ChatResponse, Gateway, Message, Recorder, Replayer, ScriptedModel
from stage3_tools import (
    NativeDialect,
    RunnerParams,
    ToolLoopDeps,
    ToolRunner,
    ask,
    run_tool_loop,
)
from tests.tables import for_each

SIMPLE = NativeDialect()


async def keys(model, streamed=False, **gateway_options):
    script = ScriptedModel(["a", "b"])
    async with Gateway(model, transport=script, **gateway_options) as gateway:
        deps = ToolLoopDeps(gateway, stream=streamed)
        for session in ("s", "t"):
            await deps.context_engine.create_session(session)
            await run_tool_loop(deps, session, "Hi.", dialect=SIMPLE)
    return [body.get("prompt_cache_key") for body in script.bodies]


@for_each("streamed", [False, True])
async def test_the_session_is_the_cache_key_of_its_requests(streamed):
    assert await keys("openai:m", streamed) == ["s", "t"]
    assert await keys("anthropic:m", streamed) == [None, None]
    assert await keys("openai:m", streamed, base_url="http://gpu.test/v1") == [None, None]


async def test_a_conversation_outside_of_a_session_has_no_cache_key():
    script = ScriptedModel(["a"])
    async with Gateway("openai:m", transport=script) as gateway:
        params = RunnerParams(messages=[Message.user("Hi.")], dialect=SIMPLE)
        await ToolRunner(ToolLoopDeps(gateway), params)
    assert "prompt_cache_key" not in script.bodies[0]


async def test_a_chat_function_of_the_user_gets_no_cache_key():
    class Server:
        async def chat(self, messages):
            return ChatResponse(Message.assistant("a"), "stop")

    async def chat(messages):
        return "a"

    for each in (chat, Server().chat):
        deps = ToolLoopDeps(each)
        session = await deps.context_engine.create_session()
        assert (await run_tool_loop(deps, session, "Hi.", dialect=SIMPLE)).reply == "a"


async def test_a_recording_answers_also_in_another_session(tmp_path):
    path = tmp_path / "recording.jsonl"
    for transport in (Recorder(path, ScriptedModel(["a"])), lambda: Replayer(path)):
        transport = transport if isinstance(transport, Recorder) else transport()
        async with Gateway("openai:m", transport=transport) as gateway:
            assert (await ask("Hi.", model=gateway, dialect=SIMPLE)).reply == "a"
