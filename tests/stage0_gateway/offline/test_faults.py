"""Every fault by its name, seen where it is to be seen: through the gateway, in all three formats."""

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
    MalformedResponse,
    Message,
    OfflineModel,
    RateLimited,
    RetryEvent,
    ServerFailed,
    StreamInterrupted,
    ToolCall,
    ToolSpec,
    Usage,
    WarningEvent,
)
from stage0_gateway.offline.faults import FAULTS, HEALTHY, FaultPlan

MODELS = ["openai:teacher", "anthropic:teacher", "gemini:teacher"]
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


class Asked:
    """One model with faults, asked whole or streamed, natively or by prompt."""

    def __init__(self, model: str, faults: Iterable[str | None], *, stream: bool, retries: int = 0) -> None:
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


# ---- what the model writes and calls --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("fenced", f"```json\n{DECISION}\n```"),
        (
            "prose_around",
            f"Sure! Here is what you asked for:\n\n{DECISION}\n\nLet me know if you need anything else.",
        ),
        (
            "thinking_first",
            f"<think>\nMaybe {DECISION.replace('Shanghai', 'draft')}? No, not quite.\n</think>\n{DECISION}",
        ),
        ("trailing_comma", f"{DECISION[:-1]},}}"),
        ("single_quotes", DECISION.replace('"', "'")),
        ("not_json", "I would like to call get_weather, please, where city is Shanghai."),
        ("empty_reply", ""),
        ("wrong_argument_name", DECISION.replace("city", "city_name")),
        ("wrong_argument_type", DECISION.replace('"Shanghai"', '["Shanghai"]')),
        ("missing_argument", DECISION.replace(ARGUMENTS, "{}")),
        ("unknown_tool", DECISION.replace("get_weather", "get_weather_v2")),
        ("two_calls", f"{DECISION}\n{DECISION}"),
        ("endless_tool_calls", DECISION),
        (HEALTHY, DECISION),
    ],
)
async def test_a_decision_in_the_prompt_dialect_is_spoiled(model, stream, fault, text):
    reply = await Asked(model, [fault], stream=stream).by_prompt()
    assert (reply.content, reply.tool_calls, reply.finish_reason) == (text, (), "stop")


FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
FILLED = '{"name": "Ada", "age": 36}'


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("fenced", f"```json\n{FILLED}\n```"),
        ("trailing_comma", f"{FILLED[:-1]},}}"),
        ("single_quotes", FILLED.replace('"', "'")),
        ("not_json", "name is Ada, age is 36"),
        ("wrong_argument_name", FILLED.replace("name", "name_name")),
        ("wrong_argument_type", FILLED.replace('"Ada"', '["Ada"]')),
        ("missing_argument", '{"age": 36}'),
        ("two_calls", FILLED),
        (HEALTHY, FILLED),
    ],
)
async def test_a_reply_by_schema_is_spoiled(model, stream, fault, text):
    reply = await Asked(model, [fault], stream=stream).ask(Message.user("Ada is 36."), response_schema=FORM)
    assert (reply.content, reply.finish_reason) == (text, "stop")


def call(arguments: str = ARGUMENTS, name: str = "get_weather", call_id: str = "call_1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


@pytest.mark.parametrize(
    ("fault", "text", "calls"),
    [
        ("prose_around", "Sure! Let me look that up.", [call()]),
        ("thinking_first", '<think>\nMaybe {"city": "draft"}? No, not quite.\n</think>', [call()]),
        ("empty_reply", "", []),
        ("wrong_argument_name", "", [call('{"city_name": "Shanghai"}')]),
        ("wrong_argument_type", "", [call('{"city": ["Shanghai"]}')]),
        ("missing_argument", "", [call("{}")]),
        ("unknown_tool", "", [call(name="get_weather_v2")]),
        ("two_calls", "", [call(), call(call_id="call_2")]),
        ("endless_tool_calls", "", [call()]),
        (HEALTHY, "", [call()]),
    ],
)
async def test_a_native_call_is_spoiled_alike_in_all_formats(model, stream, fault, text, calls):
    reply = await Asked(model, [fault], stream=stream).natively()
    assert reply.content == text
    assert [(one.id, one.name, one.arguments) for one in reply.tool_calls] == [
        (one.id, one.name, one.arguments) for one in calls
    ]
    assert reply.finish_reason == ("tool_calls" if calls else "stop")


@pytest.mark.parametrize(
    ("fault", "arguments"),
    [
        ("fenced", f"```json\n{ARGUMENTS}\n```"),
        ("trailing_comma", '{"city": "Shanghai",}'),
        ("single_quotes", "{'city': 'Shanghai'}"),
        ("not_json", "city is Shanghai"),
    ],
)
async def test_arguments_as_text_arrive_as_they_were_written(stream, fault, arguments):
    reply = await Asked("openai:teacher", [fault], stream=stream).natively()
    assert reply.tool_calls == (call(arguments),)


async def test_a_reply_is_cut_in_the_middle_for_length(model, stream):
    asked = Asked(model, ["cut_in_the_middle"] * 2, stream=stream)
    reply = await asked.by_prompt()
    assert (reply.content, reply.finish_reason) == (DECISION[: len(DECISION) // 2], "length")
    assert (await asked.natively()).finish_reason == "length"


async def test_a_call_comes_every_time_also_when_the_tools_are_taken_away(model, stream):
    asked = Asked(model, ["endless_tool_calls"], stream=stream)
    messages = [QUESTION]
    for number in range(1, 4):
        reply = await asked.ask(*messages, tools=[WEATHER] if number < 3 else ())
        assert [(one.id, one.arguments) for one in reply.tool_calls] == [(f"call_{number}", ARGUMENTS)]
        messages += [reply.message, Message.tool("sunny", f"call_{number}", name="get_weather")]


# ---- what the server counts -----------------------------------------------------------------------------


async def test_counts_that_are_missing_are_none(model, stream):
    assert (await Asked(model, ["usage_missing"], stream=stream).natively()).usage in (None, Usage())


async def test_a_prompt_that_was_cut_is_warned_of(model, stream):
    asked = Asked(model, [None, "silent_truncation"], stream=stream)
    await asked.ask(Message.user("one two three four " * 50))
    assert not [event for event in asked.events if isinstance(event, WarningEvent)]
    await asked.ask(Message.user("one two three four " * 50))
    (warning,) = [event for event in asked.events if isinstance(event, WarningEvent)]
    assert "less than it was sent" in warning.text


# ---- what the server answers, and what happens on the way -----------------------------------------------


async def failure(asked: Asked) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await asked.natively()
    return caught.value


@pytest.mark.parametrize(
    ("fault", "kind", "status", "said"),
    [
        ("rate_limited", RateLimited, 429, "Too many requests (a fault on purpose)."),
        ("overloaded", ServerFailed, 503, "The server is overloaded (a fault on purpose)."),
        ("server_error", ServerFailed, 500, "The server failed (a fault on purpose)."),
        ("html_error", ServerFailed, 502, "502 Bad Gateway"),
        ("malformed_body", MalformedResponse, 200, ""),
        ("disconnect", ConnectionFailed, None, "Server disconnected without sending a response"),
    ],
)
async def test_a_failing_answer_is_one_error_of_the_tree(model, stream, fault, kind, status, said):
    error = await failure(Asked(model, [fault], stream=stream))
    assert (type(error), error.status, said in str(error)) == (kind, status, True)
    assert error.retryable is (kind is not MalformedResponse)
    assert error.retry_after == (1 if kind is RateLimited else None)


@pytest.mark.parametrize("fault", ["rate_limited", "overloaded", "server_error", "html_error", "disconnect"])
async def test_what_may_pass_is_sent_again_and_passes(model, stream, fault):
    asked = Asked(model, [fault], stream=stream, retries=1)
    assert (await asked.natively()).tool_calls[0].name == "get_weather"
    (retry,) = [event for event in asked.events if isinstance(event, RetryEvent)]
    assert retry.attempt == 1


async def test_a_line_that_breaks_in_the_middle(model):
    streamed = Asked(model, ["disconnect_mid_stream"], stream=True)
    reply = streamed.gateway.stream([Message.user("Tell me about tea and where it comes from.")])
    with pytest.raises(StreamInterrupted, match="The reply was not complete"):
        await reply.final_message()
    assert "You said".startswith(reply.current_message.text[:8])
    whole = await failure(Asked(model, ["disconnect_mid_stream"], stream=False))
    assert type(whole) is ConnectionFailed


async def test_an_end_that_is_never_told(model):
    streamed = await failure(Asked(model, ["no_finish_reason"], stream=True))
    assert type(streamed) is StreamInterrupted
    whole = await Asked(model, ["no_finish_reason"], stream=False).ask(Message.user("Hello"))
    assert (whole.finish_reason, whole.raw_finish_reason) == ("unknown", None)


async def test_an_error_in_the_middle_of_a_stream(model):
    asked = Asked(model, ["error_in_stream"], stream=True)
    reply = asked.gateway.stream([Message.user("Tell me about tea and where it comes from.")])
    with pytest.raises(ServerFailed, match="overloaded"):
        await reply.final_message()
    assert isinstance(await failure(Asked(model, ["error_in_stream"], stream=False)), GatewayError)


# ---- the plan and the table -----------------------------------------------------------------------------


async def test_the_nth_request_gets_the_nth_fault_and_after_the_last_all_is_well(model, stream):
    asked = Asked(model, ["unknown_tool", None, "none", "empty_reply"], stream=stream)
    seen = [[one.name for one in (await asked.natively()).tool_calls] for _ in range(6)]
    well = ["get_weather"]
    assert seen == [["get_weather_v2"], well, well, [], well, well]


def test_a_fault_that_stays_is_joined_by_the_following_ones():
    endless, fenced = FAULTS["endless_tool_calls"], FAULTS["fenced"]
    plan = FaultPlan([None, "endless_tool_calls", "fenced", None])
    assert [plan.next() for _ in range(5)] == [(), (endless,), (endless, fenced), (endless,), (endless,)]


def test_names_may_come_in_one_text():
    plan = FaultPlan("fenced, none,rate_limited,")
    assert [plan.next() for _ in range(4)] == [(FAULTS["fenced"],), (), (FAULTS["rate_limited"],), ()]


def test_an_unknown_name_is_refused_with_all_names_and_the_nearest():
    with pytest.raises(ConfigurationError) as caught:
        OfflineModel(["fenced", "rate_limit"])
    known = ", ".join(["none", *FAULTS])
    said = f"There is no fault 'rate_limit'. Did you mean 'rate_limited'? There are {known}."
    assert str(caught.value) == said
    with pytest.raises(ConfigurationError, match=r"There is no fault 'xyz'\. There are none, fenced,"):
        FaultPlan("xyz")


def test_every_row_says_what_it_does_and_does_it_in_one_place():
    for name, fault in FAULTS.items():
        assert fault.does, name
        assert fault.shows, name
        assert (fault.in_reply is None) is not (fault.in_answer is None), name
