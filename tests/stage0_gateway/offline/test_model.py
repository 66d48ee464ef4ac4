import asyncio
import json
import logging
from typing import Any

import httpx
import pytest

from stage0_gateway import Gateway, Message, OfflineModel, ToolCall, ToolSpec
from stage0_gateway.offline.model import NOTICE


async def test_the_notice_is_logged_with_the_first_request_of_each_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    models = OfflineModel(), OfflineModel()
    assert caplog.record_tuples == []
    for model in models:
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


@pytest.mark.parametrize(
    "model", ["openai:teacher", "anthropic:teacher", "gemini:teacher", "openai-responses:teacher"]
)
@pytest.mark.parametrize("tools", [(), (WEATHER,)])
async def test_a_streamed_reply_equals_the_whole_reply(
    model: str, tools: tuple[ToolSpec, ...]
) -> None:
    async with gateway(model) as asked:
        whole = await asked.chat([QUESTION], tools=tools)
        assert await asked.stream([QUESTION], tools=tools).final_message() == whole


@pytest.mark.parametrize(
    "model", ["openai:teacher", "anthropic:teacher", "gemini:teacher", "openai-responses:teacher"]
)
async def test_a_failed_call_is_reported_in_every_format(model: str) -> None:
    made = Message.assistant("", [ToolCall("call_1", "get_weather", '{"city": "Shanghai"}')])
    result = Message.tool("Error: no such city", "call_1", is_error=True, name="get_weather")
    async with gateway(model) as asked:
        reply = await asked.chat([QUESTION, made, result], tools=[WEATHER])
    assert reply.content == "get_weather failed for Shanghai: Error: no such city."


async def test_a_stream_arrives_in_pieces_and_can_be_aborted() -> None:
    async with gateway("openai:teacher") as asked:
        stream = asked.stream([Message.user("Tell me about tea, and where it comes from.")])
        seen: list[Any] = []
        third = asyncio.Event()
        stream.on(
            "text", lambda event: seen.append(event) or (third.set() if len(seen) == 3 else None)
        )  # type: ignore[func-returns-value]
        reading = asyncio.create_task(anext(stream.events("end")))
        await third.wait()
        stream.abort()
        await reading
    assert [event.delta for event in seen] == ["You said", ': "Tell ', "me about"]


async def test_an_unknown_path_is_answered_in_the_openai_format() -> None:
    async with httpx.AsyncClient(transport=OfflineModel()) as client:
        reply = await client.post("http://offline/v1/embeddings", content=b"{}")
    assert (reply.status_code, json.loads(reply.content)["error"]["type"]) == (
        404,
        "invalid_request_error",
    )
