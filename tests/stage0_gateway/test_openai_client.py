"""The official client sends requests to the embedded model on a real port and accepts the replies.

It uses chat completions, and then the Responses format.
"""

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


# ---- the Responses format

FUNCTION: Any = {"type": "function", **WEATHER["function"], "strict": False}
QUESTION = "What is the weather in Shanghai?"


def test_a_response_has_the_text_and_the_token_counts(client: openai.OpenAI) -> None:
    reply = client.responses.create(model="teacher", input="Who are you?")
    assert (reply.model, reply.status) == ("teacher", "completed")
    assert "a set of rules" in reply.output_text
    assert reply.usage is not None
    assert reply.usage.input_tokens_details.cached_tokens == 0


def test_a_complete_tool_round_in_the_responses_format(client: openai.OpenAI) -> None:
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    first = client.responses.create(model="teacher", input=items, tools=[FUNCTION])
    (call,) = first.output
    assert call.type == "function_call"
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Shanghai"})
    result = {"type": "function_call_output", "call_id": call.call_id, "output": '{"temp": 22}'}
    items += [*first.output, result]
    last = client.responses.create(model="teacher", input=items, tools=[FUNCTION])
    assert last.output_text == "get_weather says for Shanghai: temp 22."


def test_a_schema_in_the_responses_format_is_answered_with_json(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    text: Any = {"format": {"type": "json_schema", "name": "place", "schema": schema}}
    reply = client.responses.create(model="teacher", input="We met in Lisbon.", text=text)
    assert reply.output_text == '{"city": "Lisbon"}'


def test_an_invalid_response_request_raises_the_clients_bad_request_error(
    client: openai.OpenAI,
) -> None:
    with pytest.raises(openai.BadRequestError, match="'input' must hold at least one message"):
        client.responses.create(model="teacher", input=[])


@pytest.mark.parametrize("tools", [[], [FUNCTION]], ids=["text", "a call"])
def test_a_streamed_response_equals_the_whole_one(client: openai.OpenAI, tools: Any) -> None:
    whole = client.responses.create(model="teacher", input=QUESTION, tools=tools)
    events = list(
        client.responses.create(model="teacher", input=QUESTION, tools=tools, stream=True)
    )
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert events[-1].response == whole
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output_text


@pytest.mark.parametrize("tools", [[], [FUNCTION]], ids=["text", "a call"])
def test_the_clients_own_accumulation_of_events_equals_the_whole_response(
    client: openai.OpenAI, tools: Any
) -> None:
    whole = client.responses.create(model="teacher", input=QUESTION, tools=tools)
    with client.responses.stream(model="teacher", input=QUESTION, tools=tools) as stream:
        seen = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == whole.output_text
    assert [item.type for item in final.output] == [item.type for item in whole.output]
    assert seen[-1] == "response.completed"
