"""The official client sends requests to the embedded model on a real port and accepts the replies."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from stage0_gateway.offline.local_server import make_server

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with make_server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        with openai.OpenAI(api_key="none", base_url=url, max_retries=0) as client:
            yield client
        server.shutdown()


def test_a_plain_question_is_answered_with_a_note_that_the_model_is_a_set_of_rules(
    client: openai.OpenAI,
) -> None:
    reply = client.chat.completions.create(
        model="teacher", messages=[{"role": "user", "content": "Who are you?"}]
    )
    assert reply.model == "teacher"
    assert reply.choices[0].finish_reason == "stop"
    assert "a set of rules" in str(reply.choices[0].message.content)


def test_a_complete_tool_round_with_a_native_tool(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "What is the weather in Shanghai?"}]
    first = client.chat.completions.create(
        model="teacher", messages=messages, tools=[WEATHER]
    ).choices[0]
    assert first.finish_reason == "tool_calls"
    calls = first.message.tool_calls or []
    assert len(calls) == 1
    call = calls[0]
    assert call.type == "function"
    assert (call.id, call.function.name, json.loads(call.function.arguments)) == (
        "call_1",
        "get_weather",
        {"city": "Shanghai"},
    )
    messages += [
        first.message,
        {"role": "tool", "tool_call_id": call.id, "content": '{"temp": 22}'},
    ]
    last = client.chat.completions.create(
        model="teacher", messages=messages, tools=[WEATHER]
    ).choices[0]
    assert (last.finish_reason, last.message.content) == (
        "stop",
        "get_weather says for Shanghai: temp 22.",
    )


def test_a_schema_is_answered_with_json(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    wish: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    messages: Any = [{"role": "user", "content": "We met in Lisbon."}]
    reply = client.chat.completions.create(model="teacher", messages=messages, response_format=wish)
    assert reply.choices[0].message.content == '{"city": "Lisbon"}'


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["teacher"]


def test_an_invalid_request_raises_the_clients_bad_request_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="'messages' must hold at least one message"):
        client.chat.completions.create(model="teacher", messages=[])


def test_a_stream_has_the_same_text_as_the_whole_reply(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Who are you?"}]
    whole = client.chat.completions.create(model="teacher", messages=messages)
    chunks = list(client.chat.completions.create(model="teacher", messages=messages, stream=True))
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
