"""The official client of OpenAI sends requests to the offline model, and accepts the replies.

It uses chat completions, and then the Responses format.
"""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from stage0_gateway.messages import Message
from stage0_gateway.offline.local_server import make_server
from stage0_gateway.parts import Citation, ProviderPart, TextPart, ThinkingPart, ToolCall
from stage0_gateway.response import ChatResponse, Usage
from stage0_gateway.server import openai as chat_format
from stage0_gateway.server import openai_responses as responses_format
from tests.tables import for_each

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {
    "name": "get_weather",
    "description": "Get the weather of a city.",
    "parameters": CITY,
}
QUESTION = "What is the weather in Shanghai?"
RESULT = '{"temp": 22}'
CALL = ToolCall("call_1", "get_weather", '{"city": "Paris"}')


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of the official library, connected to the offline model by a real port."""
    import openai

    with make_server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        with openai.OpenAI(api_key="none", base_url=url, max_retries=0) as client:
            yield client
        server.shutdown()


def test_the_models_are_listed(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["teacher"]


# ---- chat completions

FUNCTION: Any = {"type": "function", "function": WEATHER}


def test_a_question_is_answered_in_a_body_and_in_a_stream(client: Any) -> None:
    request: Any = {"model": "teacher", "messages": [{"role": "user", "content": "Who are you?"}]}
    reply = client.chat.completions.create(**request)
    text = reply.choices[0].message.content
    assert (reply.model, reply.choices[0].finish_reason) == ("teacher", "stop")
    assert "a set of rules" in text
    chunks = list(client.chat.completions.create(**request, stream=True))
    assert text == "".join(
        choice.delta.content or "" for chunk in chunks for choice in chunk.choices
    )


def test_a_tool_round(client: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    request: Any = {"model": "teacher", "messages": messages, "tools": [FUNCTION]}
    first = client.chat.completions.create(**request).choices[0]
    (call,) = first.message.tool_calls
    assert (first.finish_reason, call.type, call.id) == ("tool_calls", "function", "call_1")
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Shanghai"}
    messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
    last = client.chat.completions.create(**request).choices[0]
    text = "get_weather says for Shanghai: temp 22."
    assert (last.finish_reason, last.message.content) == ("stop", text)


def test_a_schema_is_answered_with_json(client: Any) -> None:
    schema: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": CITY}}
    messages: Any = [{"role": "user", "content": "We met in Lisbon."}]
    reply = client.chat.completions.create(
        model="teacher", messages=messages, response_format=schema
    )
    assert reply.choices[0].message.content == '{"city": "Lisbon"}'


def test_an_invalid_request_raises_the_clients_bad_request_error(client: Any) -> None:
    from openai import BadRequestError

    with pytest.raises(BadRequestError, match="'messages' must hold at least one message"):
        client.chat.completions.create(model="teacher", messages=[])
    with pytest.raises(BadRequestError, match="'input' must hold at least one message"):
        client.responses.create(model="teacher", input=[])


@for_each(
    "reply, reason",
    [
        (ChatResponse(Message.assistant("a")), "stop"),
        (ChatResponse(Message.assistant("", [CALL])), "tool_calls"),
        (ChatResponse(Message.assistant("", [CALL]), finish_reason="length"), "length"),
        (
            ChatResponse(Message.assistant("a"), finish_reason="refusal", refusal="No."),
            "content_filter",
        ),
        (ChatResponse(Message.assistant("a"), raw_finish_reason="function_call"), "function_call"),
        (
            ChatResponse(
                Message.assistant((ThinkingPart("hm"), TextPart("a"))), usage=Usage(1, 2, 3, 4)
            ),
            "stop",
        ),
    ],
)
def test_bodies_and_chunks_validate_as_the_clients_types(reply, reason):
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    body = ChatCompletion.model_validate(chat_format.encode_reply(reply), strict=True)
    assert body.choices[0].finish_reason == reason
    *events, _ = (event.removeprefix("data: ") for event in chat_format.encode_stream(reply))
    chunks = [ChatCompletionChunk.model_validate_json(event, strict=True) for event in events]
    assert reason in [choice.finish_reason for chunk in chunks for choice in chunk.choices]


# ---- the Responses format

RESPONSES_FUNCTION: Any = {"type": "function", **WEATHER, "strict": False}


def test_a_response_has_the_text_and_the_token_counts(client: Any) -> None:
    reply = client.responses.create(model="teacher", input="Who are you?")
    assert (reply.model, reply.status) == ("teacher", "completed")
    assert "a set of rules" in reply.output_text
    assert reply.usage.input_tokens_details.cached_tokens == 0


def test_a_tool_round_in_the_responses_format(client: Any) -> None:
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    request: Any = {"model": "teacher", "input": items, "tools": [RESPONSES_FUNCTION]}
    first = client.responses.create(**request)
    (call,) = first.output
    assert (call.type, call.name) == ("function_call", "get_weather")
    assert json.loads(call.arguments) == {"city": "Shanghai"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}
    items += [*first.output, result]
    last = client.responses.create(**request)
    assert last.output_text == "get_weather says for Shanghai: temp 22."


def test_a_schema_in_the_responses_format_is_answered_with_json(client: Any) -> None:
    text: Any = {"format": {"type": "json_schema", "name": "place", "schema": CITY}}
    reply = client.responses.create(model="teacher", input="We met in Lisbon.", text=text)
    assert reply.output_text == '{"city": "Lisbon"}'


@for_each("tools", [[], [RESPONSES_FUNCTION]])
def test_a_streamed_response_equals_the_whole_one(client: Any, tools: Any) -> None:
    request: Any = {"model": "teacher", "input": QUESTION, "tools": tools}
    whole = client.responses.create(**request)
    events = list(client.responses.create(**request, stream=True))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert events[-1].response == whole
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output_text
    with client.responses.stream(**request) as stream:  # the client itself joins the events
        assert [event.type for event in stream][-1] == "response.completed"
        final = stream.get_final_response()
    assert final.output_text == whole.output_text
    assert [item.type for item in final.output] == [item.type for item in whole.output]


@for_each(
    "reply, status, reason",
    [
        (ChatResponse(Message.assistant("a")), "completed", None),
        (ChatResponse(Message.assistant("", [CALL])), "completed", None),
        (
            ChatResponse(Message.assistant("", [CALL]), finish_reason="length"),
            "incomplete",
            "max_output_tokens",
        ),
        (
            ChatResponse(Message.assistant("a"), finish_reason="refusal"),
            "incomplete",
            "content_filter",
        ),
        (
            ChatResponse(Message.assistant("a"), finish_reason="refusal", refusal="No."),
            "completed",
            None,
        ),
        (
            ChatResponse(
                Message.assistant(
                    (
                        ThinkingPart("hm"),
                        ProviderPart(
                            "openai-responses",
                            {
                                "type": "web_search_call",
                                "id": "w",
                                "status": "completed",
                                "action": {"type": "search", "query": "x", "queries": ["x"]},
                            },
                        ),
                        TextPart("a", (Citation("http://x", "X"),)),
                    ),
                    [CALL],
                ),
                usage=Usage(1, 2),
                model="m",
            ),
            "completed",
            None,
        ),
    ],
)
def test_responses_and_their_events_validate_as_the_clients_types(reply, status, reason):
    from openai.types.responses import Response, ResponseStreamEvent
    from pydantic import TypeAdapter

    response = Response.model_validate(responses_format.encode_reply(reply), strict=True)
    details = response.incomplete_details
    assert (response.status, details and details.reason) == (status, reason)
    check = TypeAdapter(list[ResponseStreamEvent])
    events = [event.partition("data: ")[2] for event in responses_format.encode_stream(reply)]
    *_, last = check.validate_json(f"[{','.join(events)}]", strict=True)
    assert (last.type, last.response) == (f"response.{status}", response)
