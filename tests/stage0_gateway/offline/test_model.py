import asyncio
import logging
from typing import Any

import httpx
import pytest

from stage0_gateway import Message, OfflineModel, ToolCall
from stage0_gateway.offline.model import NOTICE
from tests.stage0_gateway.offline.questions import MODELS, QUESTION, TEA, WEATHER, offline
from tests.tables import for_each


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


@for_each("model", MODELS)
async def test_a_failed_call_is_reported_in_every_format(model: str) -> None:
    made = Message.assistant("", [ToolCall("call_1", "get_weather", '{"city": "Shanghai"}')])
    result = Message.tool("Error: no such city", "call_1", is_error=True, name="get_weather")
    async with offline(model) as gateway:
        reply = await gateway.chat([QUESTION, made, result], tools=[WEATHER])
    assert reply.content == "get_weather failed for Shanghai: Error: no such city."


async def test_a_stream_arrives_in_pieces_and_can_be_aborted() -> None:
    async with offline("openai:teacher") as gateway:
        stream = gateway.stream([TEA])
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
