import httpx
import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ChatRequest,
    ConfigurationError,
    Gateway,
    MalformedResponse,
    Message,
    RateLimited,
    ScriptedModel,
    ServerFailed,
    ToolCall,
    ToolSpec,
    Usage,
    WarningEvent,
)
from stage0_gateway.accounting.prices import Price, PriceTable
from tests.stage0_gateway.replies import completion, failure
from tests.stage0_gateway.requests import QUESTION, ask, each_method
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each


async def test_all_options_of_a_request_reach_the_model():
    model = ScriptedModel(["yes"])
    spec = ToolSpec("f", "does it", {"type": "object"})
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(
            [{"role": "system", "content": "be brief"}, *QUESTION],
            tools=[spec],
            tool_choice="f",
            temperature=0.5,
            max_tokens=7,
            response_schema={"type": "object"},
            stop=["END"],
        )
    assert model.requests == [
        ChatRequest(
            "m",
            (Message.system("be brief"), Message.user("hi")),
            (spec,),
            "f",
            temperature=0.5,
            max_tokens=7,
            response_schema={"type": "object"},
            stop=("END",),
        )
    ]


async def test_a_reply_is_decoded_with_its_tool_calls():
    reply = Message.assistant("let me see", [ToolCall("1", "f", '{"a": 1}')])
    async with Gateway("openai:m", transport=ScriptedModel([reply])) as gateway:
        response = await gateway.chat(QUESTION)
    assert (response.message, response.finish_reason) == (reply, "tool_calls")


async def test_another_model_of_the_same_provider_can_be_requested():
    model = ScriptedModel(["yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(QUESTION, model="openai:other")
        with pytest.raises(ConfigurationError, match="Create another Gateway for 'groq:m'"):
            await gateway.chat(QUESTION, model="groq:m")
    assert [request.model for request in model.requests] == ["other"]


@for_each("reply", ["not json", "[1]", "null", '{"object": "list"}'])
async def test_a_body_that_is_not_a_completion_is_malformed(reply):
    server = Answers(httpx.Response(200, text=reply))
    with pytest.raises(MalformedResponse):
        await Gateway("openai:m", transport=server, max_retries=0).chat(QUESTION)


async def test_an_html_error_page_of_a_proxy_is_a_server_failure():
    server = Answers(httpx.Response(502, html="<html>Bad gateway</html>"))
    with pytest.raises(ServerFailed, match="Bad gateway"):
        await Gateway("openai:m", transport=server, max_retries=0).chat(QUESTION)


async def test_the_wait_that_a_server_requests_is_stored_in_the_error():
    refusal = httpx.Response(429, headers={"retry-after": "7"}, json=failure("slow"))
    with pytest.raises(RateLimited) as caught:
        await Gateway("openai:m", transport=Answers(refusal), max_retries=0).chat(QUESTION)
    assert (caught.value.retry_after, caught.value.status) == (7.0, 429)


async def test_a_key_in_the_servers_error_message_is_hidden():
    server = Answers(httpx.Response(401, json=failure("Incorrect API key: sk-secret")))
    with pytest.raises(AuthenticationFailed) as caught:
        await Gateway("openai:m", api_key="sk-secret", transport=server).chat(QUESTION)
    assert str(caught.value).startswith("Incorrect API key: [hidden] (HTTP 401)")


async def test_the_key_is_sent_as_a_bearer_token():
    server = Answers(completion())
    async with Gateway("openai:m", api_key="k-1", transport=server) as gateway:
        await gateway.chat(QUESTION)
    assert server.requests[0].headers["authorization"] == "Bearer k-1"


@for_each("text", ["上海的天气", "👍🏽", "nul \x00", '"quotes" \\ and\nlines'])
async def test_any_text_reaches_the_model_unchanged(text):
    model = ScriptedModel(["yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat([Message.user(text)])
    assert model.requests[0].messages == (Message.user(text),)


async def test_half_a_surrogate_pair_reaches_the_model_as_a_replacement_character():
    model = ScriptedModel(["yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat([Message.user("half a pair: \ud83d")])
    assert model.requests[0].messages == (Message.user("half a pair: \ufffd"),)


async def test_an_invalid_message_is_rejected_before_sending():
    model = ScriptedModel([])
    with pytest.raises(ValueError, match="not 'hi'"):
        await Gateway("openai:m", transport=model).chat(["hi"])
    assert model.requests == []


def test_a_negative_number_of_retries_is_rejected():
    with pytest.raises(ConfigurationError, match="max_retries is -1"):
        Gateway("openai:m", api_key="k", max_retries=-1)


def test_a_new_gateway_opens_no_connection_and_its_repr_shows_the_url():
    shown = repr(Gateway("openai:m", api_key="sk-secret"))
    assert shown == "Gateway('openai:m', url='https://api.openai.com/v1/chat/completions')"


async def test_numbers_that_json_cannot_represent_are_rejected_before_sending():
    with pytest.raises(ValueError, match="JSON"):
        await Gateway("openai:m", transport=ScriptedModel([])).chat(
            QUESTION, temperature=float("nan")
        )


async def test_an_empty_conversation_is_rejected_before_sending():
    with pytest.raises(ValueError, match="There is no message to send"):
        await Gateway("openai:m", transport=ScriptedModel([])).chat([])


@for_each(
    "reply", ['{"choices":' + "[" * 100_000, '{"choices": [{"message": {}, "finish_reason": [1]}]}']
)
async def test_hostile_replies_are_malformed(reply):
    server = Answers(httpx.Response(200, text=reply))
    with pytest.raises(MalformedResponse):
        await Gateway("openai:m", transport=server, max_retries=0).chat(QUESTION)


async def test_options_that_json_cannot_represent_raise_a_value_error():
    with pytest.raises(ValueError, match="that JSON cannot represent"):
        await Gateway("openai:m", transport=ScriptedModel([])).chat(
            QUESTION, provider_options={"a": {1}}
        )


async def test_a_single_stop_text_is_sent_as_one_text():
    model = ScriptedModel(["yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(QUESTION, stop="END")
    assert model.requests[0].stop == ("END",)


@for_each("options", [{"topp": 0.5}, {"stream": True}, {"max_output_tokens": 5}])
async def test_an_unknown_option_is_rejected(options):
    gateway = Gateway("openai:m", transport=ScriptedModel([]))
    with pytest.raises(TypeError, match=next(iter(options))):
        await gateway.chat(QUESTION, **options)
    with pytest.raises(TypeError, match=next(iter(options))):
        gateway.stream(QUESTION, **options)


async def test_a_model_without_structured_output_rejects_a_schema_before_sending():
    gateway = Gateway("deepseek:m", transport=ScriptedModel([]))
    assert (gateway.supports_schema, Gateway("ollama:m").supports_schema) == (False, True)
    with pytest.raises(ConfigurationError, match=r"deepseek:m does not support structured output"):
        await gateway.chat(QUESTION, response_schema={})
    with pytest.raises(ConfigurationError, match="describe the JSON in the prompt"):
        gateway.stream(QUESTION, response_schema={})


@for_each("number", [0, -1])
def test_a_max_concurrency_below_one_is_rejected(number):
    with pytest.raises(
        ConfigurationError, match=f"max_concurrency is {number}; it must be at least 1"
    ):
        Gateway("ollama:m", max_concurrency=number)


@each_method
async def test_prices_give_a_reply_its_cost(method):
    prices = PriceTable({"openai:m": Price(input=2.0, output=10.0)})
    model = ScriptedModel(["yes", "yes"])
    async with Gateway("openai:m", transport=model, prices=prices) as gateway:
        await gateway.chat(QUESTION)
        reply = await ask(gateway, method)
    assert (reply.usage, reply.cost) == (Usage(10, 5), (10 * 2.0 + 5 * 10.0) / 1_000_000)


@each_method
async def test_without_prices_or_usage_the_cost_is_unknown(method):
    prices = PriceTable({"m": Price(1.0, 1.0)})
    without_usage = Gateway("openai:m", transport=Answers(completion()), prices=prices)
    without_prices = Gateway("openai:m", transport=ScriptedModel(["yes"]))
    for gateway in without_usage, without_prices:
        assert (await ask(gateway, method)).cost is None


@each_method
@for_each("read, warned", [(2048, True), (10_001, False)])
async def test_a_server_that_silently_truncates_a_long_prompt_is_reported(method, read, warned):
    events = []
    server = Answers({**completion(), "usage": {"prompt_tokens": read}})
    gateway = Gateway("ollama:llama3.2", transport=server, on_event=events.append)
    await ask(gateway, method, [Message.user("word " * 9_999 + "word")])
    warnings = [event for event in events if isinstance(event, WarningEvent)]
    assert [event.model for event in warnings] == (["llama3.2"] if warned else [])
    assert all("at least 7952 tokens fewer than were sent" in event.text for event in warnings)
    assert all("num_ctx" in event.text for event in warnings)


async def test_messages_may_be_an_iterator_and_each_attempt_sends_all_of_them():
    model = ScriptedModel([500, "yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(iter(QUESTION), tools=iter([ToolSpec("f", "")]), stop=iter(["END"]))
    assert model.requests[0] == model.requests[1]
    assert (model.requests[1].messages, model.requests[1].stop) == ((Message.user("hi"),), ("END",))


@for_each(
    "option, value, kind",
    [
        ("base_url", {}, "dict"),
        ("base_url", b"http://x", "bytes"),
        ("api_key", 7, "int"),
        ("api_key", ["key"], "list"),
        ("model", None, "None"),
    ],
)
def test_an_option_of_a_wrong_type_is_named(option, value, kind):
    options = {"model": "openai:m", "api_key": "k", option: value}
    with pytest.raises(TypeError, match=f"{option} must be a text.*, not {kind}"):
        Gateway(**options)
