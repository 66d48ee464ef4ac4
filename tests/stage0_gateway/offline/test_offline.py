import asyncio
import json
import logging
import subprocess
import sys
from typing import Any

import httpx
import pytest

from stage0_gateway.gateway import Gateway
from stage0_gateway.messages import Message
from stage0_gateway.offline import NOTICE, OfflineModel
from stage0_gateway.parts import ToolCall
from stage0_gateway.request import ToolSpec


async def test_the_notice_is_logged_once_for_each_model(caplog: pytest.LogCaptureFixture) -> None:
    for model in (OfflineModel(), OfflineModel()):
        async with httpx.AsyncClient(transport=model) as client:
            await client.get("http://offline/v1/models")
            await client.get("http://offline/v1/models")
    assert caplog.record_tuples == [("stage0_gateway", logging.WARNING, NOTICE)] * 2
    assert "\n" not in NOTICE


WEATHER = ToolSpec(
    "get_weather",
    "Get the current weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
QUESTION = Message.user("What is the weather in Shanghai?")


def gateway(model: str) -> Gateway:
    return Gateway(model, base_url="http://model", transport=OfflineModel())


@pytest.mark.parametrize("model", ["openai:teacher", "anthropic:teacher", "gemini:teacher"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_whole_round_with_a_native_tool_is_the_same_in_every_format(model: str, stream: bool) -> None:
    async with gateway(model) as asked:

        async def ask(*messages: Message) -> Any:
            if stream:
                return await asked.stream(messages, tools=[WEATHER]).final_message()
            return await asked.chat(messages, tools=[WEATHER])

        first = await ask(QUESTION)
        (call,) = first.tool_calls
        assert (call.id, call.name, call.arguments) == ("call_1", "get_weather", '{"city": "Shanghai"}')
        assert (first.content, first.finish_reason, first.model) == ("", "tool_calls", "teacher")
        result = Message.tool('{"temp": 22}', call.id, name=call.name)
        last = await ask(QUESTION, first.message, result)
        assert (last.content, last.finish_reason) == ("get_weather says for Shanghai: temp 22.", "stop")


@pytest.mark.parametrize("model", ["openai:teacher", "anthropic:teacher", "gemini:teacher"])
@pytest.mark.parametrize("tools", [(), (WEATHER,)])
async def test_a_reply_read_to_its_end_is_the_reply_that_chat_gives(
    model: str, tools: tuple[ToolSpec, ...]
) -> None:
    async with gateway(model) as asked:
        whole = await asked.chat([QUESTION], tools=tools)
        assert await asked.stream([QUESTION], tools=tools).final_message() == whole


@pytest.mark.parametrize("model", ["openai:teacher", "anthropic:teacher", "gemini:teacher"])
async def test_a_failed_call_is_told_as_failed_in_every_format(model: str) -> None:
    made = Message.assistant("", [ToolCall("call_1", "get_weather", '{"city": "Shanghai"}')])
    result = Message.tool("no such city", "call_1", is_error=model != "openai:teacher", name="get_weather")
    async with gateway(model) as asked:
        reply = await asked.chat([QUESTION, made, result], tools=[WEATHER])
    verb = "says" if model == "openai:teacher" else "failed"  # OpenAI's format has no word for it
    assert reply.content == f"get_weather {verb} for Shanghai: no such city."


async def test_a_stream_comes_in_pieces_and_can_be_aborted_from_outside() -> None:
    async with gateway("openai:teacher") as asked:
        stream = asked.stream([Message.user("Tell me about tea, and where it comes from.")])
        seen: list[Any] = []
        third = asyncio.Event()
        stream.on("text", lambda event: seen.append(event) or (third.set() if len(seen) == 3 else None))  # type: ignore[func-returns-value]
        reading = asyncio.create_task(anext(stream.events("end")))
        await third.wait()
        stream.abort()
        await reading
    assert [event.delta for event in seen] == ["You said", ': "Tell ', "me about"]


def test_without_faults_nothing_of_them_is_loaded() -> None:
    code = """if True:
        import asyncio, sys
        from stage0_gateway import Gateway
        asyncio.run(Gateway("offline:teacher").chat([{"role": "user", "content": "hi"}]))
        print(sorted(name for name in sys.modules if "broken" in name or name.endswith("faults")))
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


async def test_what_is_no_format_is_answered_in_openais() -> None:
    async with httpx.AsyncClient(transport=OfflineModel()) as client:
        reply = await client.post("http://offline/v1/embeddings", content=b"{}")
    assert (reply.status_code, json.loads(reply.content)["error"]["type"]) == (404, "invalid_request_error")
