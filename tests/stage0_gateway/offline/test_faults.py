"""Each fault has its effect in all three formats, in whole replies and in streams."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from stage0_gateway import (
    ChatResponse,
    ConfigurationError,
    ConnectionFailed,
    Gateway,
    GatewayError,
    GatewayEvent,
    Message,
    OfflineModel,
    RetryEvent,
    ServerFailed,
    StreamInterrupted,
    ToolSpec,
)
from stage0_gateway.offline.faults import FAULTS, fault_plan

MODELS = ["openai:teacher", "anthropic:teacher", "gemini:teacher", "openai-responses:teacher"]
WEATHER = ToolSpec(
    "get_weather",
    "Get the current weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
SHOWN = json.dumps(
    {"name": WEATHER.name, "description": WEATHER.description, "parameters": WEATHER.parameters}
)
PROMPT = f'You may use:\n{SHOWN}\nAnswer with {{"tool": name, "arguments": {{...}}}}.'
QUESTION = Message.user("What is the weather in Shanghai?")
ARGUMENTS = '{"city": "Shanghai"}'
DECISION = f'{{"tool": "get_weather", "arguments": {ARGUMENTS}}}'


class FaultyModel:
    """A model with faults, called with whole replies or streams, natively or by prompt."""

    def __init__(
        self, model: str, faults: Iterable[str | None], *, stream: bool, retries: int = 0
    ) -> None:
        self.events: list[GatewayEvent] = []
        self.gateway = Gateway(
            model,
            base_url="http://model",
            transport=OfflineModel(faults),
            max_retries=retries,
            on_event=self.events.append,
        )
        self.stream = stream

    async def ask(self, *messages: Message, **options: Any) -> ChatResponse:
        if self.stream:
            return await self.gateway.stream(messages, **options).final_message()
        return await self.gateway.chat(messages, **options)

    async def by_prompt(self) -> ChatResponse:
        return await self.ask(Message.system(PROMPT), QUESTION)

    async def natively(self) -> ChatResponse:
        return await self.ask(QUESTION, tools=[WEATHER])


@pytest.fixture(params=MODELS)
def model(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request):
    return request.param


# ---- output of the model
# ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("fenced", f"```json\n{DECISION}\n```"),
        ("not_json", "I think of tool get_weather, arguments city Shanghai."),
        ("wrong_argument_name", DECISION.replace("city", "city_name")),
        ("none", DECISION),
    ],
)
async def test_a_fault_changes_a_decision_in_the_prompt_dialect(model, stream, fault, text):
    reply = await FaultyModel(model, [fault], stream=stream).by_prompt()
    assert (reply.content, reply.tool_calls, reply.finish_reason) == (text, (), "stop")


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
FIELDS = '{"name": "Ada", "age": 36}'


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("fenced", f"```json\n{FIELDS}\n```"),
        ("not_json", "I think of name Ada, age 36."),
        ("wrong_argument_name", FIELDS.replace("name", "name_name")),
        ("none", FIELDS),
    ],
)
async def test_a_fault_changes_a_structured_reply(model, stream, fault, text):
    reply = await FaultyModel(model, [fault], stream=stream).ask(
        Message.user("Ada is 36."), response_schema=SCHEMA
    )
    assert (reply.content, reply.finish_reason) == (text, "stop")


async def test_a_fault_changes_the_arguments_of_a_native_call(model, stream):
    (call,) = (
        await FaultyModel(model, ["wrong_argument_name"], stream=stream).natively()
    ).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city_name": "Shanghai"})


@pytest.mark.parametrize(
    ("fault", "arguments"),
    [("fenced", f"```json\n{ARGUMENTS}\n```"), ("not_json", "I think of city Shanghai.")],
)
async def test_arguments_that_are_not_json_arrive_as_text(stream, fault, arguments):
    (call,) = (await FaultyModel("openai:teacher", [fault], stream=stream).natively()).tool_calls
    assert call.arguments == arguments


@pytest.mark.parametrize("fault", ["fenced", "not_json", "wrong_argument_name"])
async def test_replies_without_json_stay_as_they_are(model, stream, fault):
    reply = await FaultyModel(model, [fault], stream=stream).ask(Message.user("Who are you?"))
    assert reply.content.startswith("I am the teacher")


# ---- output of the server
# ------------------------------------------------------------------------------


async def failure(asked: FaultyModel) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await asked.natively()
    return caught.value


async def test_an_overloaded_server_is_retried(model, stream):
    error = await failure(FaultyModel(model, ["overloaded"], stream=stream))
    assert (type(error), error.status, error.retryable) == (ServerFailed, 503, True)
    asked = FaultyModel(model, ["overloaded"], stream=stream, retries=1)
    assert (await asked.natively()).tool_calls[0].name == "get_weather"
    assert [event.attempt for event in asked.events if isinstance(event, RetryEvent)] == [1]


async def test_a_connection_breaks_after_half_of_the_reply(model):
    streamed = FaultyModel(model, ["disconnect_mid_stream"], stream=True)
    reply = streamed.gateway.stream([Message.user("Tell me about tea and where it comes from.")])
    with pytest.raises(StreamInterrupted, match="The reply was not complete"):
        await reply.final_message()
    assert reply.current_message.text.startswith("You said")
    whole = await failure(FaultyModel(model, ["disconnect_mid_stream"], stream=False))
    assert type(whole) is ConnectionFailed


async def test_an_error_follows_half_of_a_stream(model):
    asked = FaultyModel(model, ["error_in_stream"], stream=True)
    reply = asked.gateway.stream([Message.user("Tell me about tea and where it comes from.")])
    with pytest.raises(ServerFailed, match="overloaded"):
        await reply.final_message()
    assert reply.current_message.text.startswith("You said")
    assert isinstance(
        await failure(FaultyModel(model, ["error_in_stream"], stream=False)), GatewayError
    )


# ---- the plan and the table
# -----------------------------------------------------------------------------


async def test_the_nth_request_gets_the_nth_fault_and_later_requests_get_none(model):
    asked = FaultyModel(
        model, ["wrong_argument_name", None, "none", "wrong_argument_name"], stream=False
    )
    replies = [await asked.natively() for _ in range(5)]
    names = [list(json.loads(reply.tool_calls[0].arguments)) for reply in replies]
    assert names == [["city_name"], ["city"], ["city"], ["city_name"], ["city"]]


def test_a_single_fault_name_may_be_given_without_a_list():
    plan = fault_plan("fenced, none,overloaded,")
    assert [next(plan, None) for _ in range(4)] == [
        FAULTS["fenced"],
        None,
        FAULTS["overloaded"],
        None,
    ]


def test_an_unknown_fault_is_rejected_with_a_list_of_the_known_ones():
    with pytest.raises(ConfigurationError) as caught:
        OfflineModel(["fenced", "overload"])
    known = ", ".join(["none", *FAULTS])
    message = f"Unknown fault 'overload'. The faults are {known}."
    assert str(caught.value) == message
    with pytest.raises(
        ConfigurationError, match=r"Unknown fault 'xyz'\. The faults are none, fenced,"
    ):
        fault_plan("xyz")
