"""Each fault has its effect in all formats, in whole replies and in streams."""

import json

import pytest

from stage0_gateway import (
    ConfigurationError,
    ConnectionFailed,
    GatewayError,
    Message,
    OfflineModel,
    RetryEvent,
    ServerFailed,
    StreamInterrupted,
)
from stage0_gateway.offline.faults import FAULTS, fault_plan
from tests.stage0_gateway.offline.questions import MODELS, QUESTION, TEA, WEATHER, offline
from tests.stage0_gateway.requests import METHODS, ask
from tests.tables import for_each

TOOL = {
    "name": WEATHER.name,
    "description": WEATHER.description,
    "parameters": WEATHER.parameters,
}
PROMPT = Message.system(
    f'You may use:\n{json.dumps(TOOL)}\nAnswer with {{"tool": name, "arguments": {{...}}}}.'
)
ARGUMENTS = '{"city": "Shanghai"}'
DECISION = f'{{"tool": "get_weather", "arguments": {ARGUMENTS}}}'


async def called(gateway, method):
    """Return the reply to the question with a tool."""
    return await ask(gateway, method, [QUESTION], tools=[WEATHER])


# ---- output of the model


@for_each("model", MODELS)
@for_each("method", METHODS)
@for_each(
    "fault, text",
    [
        ("fenced", f"```json\n{DECISION}\n```"),
        ("not_json", "I think of tool get_weather, arguments city Shanghai."),
        ("wrong_argument_name", DECISION.replace("city", "city_name")),
        ("none", DECISION),
    ],
)
async def test_a_fault_changes_a_decision_in_the_prompt_dialect(model, method, fault, text):
    reply = await ask(offline(model, [fault]), method, [PROMPT, QUESTION])
    assert (reply.content, reply.tool_calls, reply.finish_reason) == (text, (), "stop")


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
FIELDS = '{"name": "Ada", "age": 36}'


@for_each("model", MODELS)
@for_each("method", METHODS)
@for_each(
    "fault, text",
    [
        ("fenced", f"```json\n{FIELDS}\n```"),
        ("not_json", "I think of name Ada, age 36."),
        ("wrong_argument_name", FIELDS.replace("name", "name_name")),
        ("none", FIELDS),
    ],
)
async def test_a_fault_changes_a_structured_reply(model, method, fault, text):
    messages = [Message.user("Ada is 36.")]
    reply = await ask(offline(model, [fault]), method, messages, response_schema=SCHEMA)
    assert (reply.content, reply.finish_reason) == (text, "stop")


@for_each("model", MODELS)
@for_each("method", METHODS)
async def test_a_fault_changes_the_arguments_of_a_native_call(model, method):
    (call,) = (await called(offline(model, ["wrong_argument_name"]), method)).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city_name": "Shanghai"})


@for_each("method", METHODS)
@for_each(
    "fault, arguments",
    [("fenced", f"```json\n{ARGUMENTS}\n```"), ("not_json", "I think of city Shanghai.")],
)
async def test_arguments_that_are_not_json_arrive_as_text(method, fault, arguments):
    (call,) = (await called(offline("openai:teacher", [fault]), method)).tool_calls
    assert call.arguments == arguments


@for_each("model", MODELS)
@for_each("method", METHODS)
@for_each("fault", ["fenced", "not_json", "wrong_argument_name"])
async def test_replies_without_json_stay_as_they_are(model, method, fault):
    reply = await ask(offline(model, [fault]), method, [Message.user("Who are you?")])
    assert reply.content.startswith("I am the teacher")


# ---- output of the server


@for_each("model", MODELS)
@for_each("method", METHODS)
async def test_an_overloaded_server_is_retried(model, method):
    with pytest.raises(ServerFailed) as caught:
        await called(offline(model, ["overloaded"]), method)
    assert (caught.value.status, caught.value.retryable) == (503, True)
    events = []
    gateway = offline(model, ["overloaded"], max_retries=1, on_event=events.append)
    assert (await called(gateway, method)).tool_calls[0].name == "get_weather"
    assert [event.attempt for event in events if isinstance(event, RetryEvent)] == [1]


@for_each("model", MODELS)
async def test_a_connection_breaks_after_half_of_the_reply(model):
    faults = ["disconnect_mid_stream"]
    stream = offline(model, faults).stream([TEA])
    with pytest.raises(StreamInterrupted, match="The reply was not complete"):
        await stream.final_message()
    assert stream.current_message.text.startswith("You said")
    with pytest.raises(ConnectionFailed):
        await called(offline(model, faults), "chat")


@for_each("model", MODELS)
async def test_an_error_follows_half_of_a_stream(model):
    faults = ["error_in_stream"]
    stream = offline(model, faults).stream([TEA])
    with pytest.raises(ServerFailed, match="overloaded"):
        await stream.final_message()
    assert stream.current_message.text.startswith("You said")
    with pytest.raises(GatewayError):
        await called(offline(model, faults), "chat")


# ---- the plan and the table


@for_each("model", MODELS)
async def test_the_nth_request_gets_the_nth_fault_and_later_requests_get_none(model):
    gateway = offline(model, ["wrong_argument_name", None, "none", "wrong_argument_name"])
    replies = [await called(gateway, "chat") for _ in range(5)]
    names = [list(json.loads(reply.tool_calls[0].arguments)) for reply in replies]
    assert names == [["city_name"], ["city"], ["city"], ["city_name"], ["city"]]


def test_a_single_fault_name_may_be_given_without_a_list():
    plan = fault_plan("fenced, none,overloaded,")
    fenced, overloaded = FAULTS["fenced"], FAULTS["overloaded"]
    assert [next(plan, None) for _ in range(4)] == [fenced, None, overloaded, None]


def test_an_unknown_fault_is_rejected_with_a_list_of_the_known_ones():
    known = ", ".join(["none", *FAULTS])
    for create in (OfflineModel, fault_plan):
        with pytest.raises(ConfigurationError) as caught:
            create(["fenced", "overload"])
        assert str(caught.value) == f"Unknown fault 'overload'. The faults are {known}."
