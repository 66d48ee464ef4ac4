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

ASK = [Message.user("hi")]


def answering(status=200, *, headers=None, **content):
    return httpx.MockTransport(lambda request: httpx.Response(status, headers=headers, **content))


async def test_all_options_of_a_request_reach_the_model():
    model = ScriptedModel(["yes"])
    spec = ToolSpec("f", "does it", {"type": "object"})
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(
            [{"role": "system", "content": "be brief"}, *ASK],
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
        response = await gateway.chat(ASK)
    assert (response.message, response.finish_reason) == (reply, "tool_calls")


async def test_another_model_of_the_same_provider_can_be_requested():
    model = ScriptedModel(["yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(ASK, model="openai:other")
        with pytest.raises(ConfigurationError, match="Create another Gateway for 'groq:m'"):
            await gateway.chat(ASK, model="groq:m")
    assert [request.model for request in model.requests] == ["other"]


@pytest.mark.parametrize("reply", ["not json", "[1]", "null", '{"object": "list"}'])
async def test_a_body_that_is_not_a_completion_is_malformed(reply):
    gateway = Gateway("openai:m", transport=answering(text=reply), max_retries=0)
    with pytest.raises(MalformedResponse):
        await gateway.chat(ASK)


async def test_an_html_error_page_of_a_proxy_is_a_server_failure():
    gateway = Gateway(
        "openai:m", transport=answering(502, html="<html>Bad gateway</html>"), max_retries=0
    )
    with pytest.raises(ServerFailed, match="Bad gateway"):
        await gateway.chat(ASK)


async def test_the_wait_that_a_server_requests_is_stored_in_the_error():
    transport = answering(429, headers={"retry-after": "7"}, json={"error": {"message": "slow"}})
    with pytest.raises(RateLimited) as caught:
        await Gateway("openai:m", transport=transport, max_retries=0).chat(ASK)
    assert (caught.value.retry_after, caught.value.status) == (7.0, 429)


async def test_a_key_in_the_servers_error_message_is_hidden():
    transport = answering(401, json={"error": {"message": "Incorrect API key: sk-secret"}})
    with pytest.raises(AuthenticationFailed) as caught:
        await Gateway("openai:m", api_key="sk-secret", transport=transport).chat(ASK)
    assert str(caught.value).startswith("Incorrect API key: [hidden] (HTTP 401)")


async def test_the_key_is_sent_as_a_bearer_token():
    seen = []

    def answer(request):
        seen.append(request.headers["authorization"])
        return httpx.Response(200, json={"choices": [{"message": {"content": "yes"}}]})

    async with Gateway("openai:m", api_key="k-1", transport=httpx.MockTransport(answer)) as gateway:
        await gateway.chat(ASK)
    assert seen == ["Bearer k-1"]


@pytest.mark.parametrize("text", ["上海的天气", "👍🏽", "nul \x00", '"quotes" \\ and\nlines'])
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
        await Gateway("openai:m", transport=ScriptedModel([])).chat(ASK, temperature=float("nan"))


async def test_an_empty_conversation_is_rejected_before_sending():
    with pytest.raises(ValueError, match="There is no message to send"):
        await Gateway("openai:m", transport=ScriptedModel([])).chat([])


@pytest.mark.parametrize(
    "reply", ['{"choices":' + "[" * 100_000, '{"choices": [{"message": {}, "finish_reason": [1]}]}']
)
async def test_hostile_replies_are_malformed(reply):
    with pytest.raises(MalformedResponse):
        await Gateway("openai:m", transport=answering(text=reply), max_retries=0).chat(ASK)


async def test_options_that_json_cannot_represent_raise_a_value_error():
    with pytest.raises(ValueError, match="that JSON cannot represent"):
        await Gateway("openai:m", transport=ScriptedModel([])).chat(
            ASK, provider_options={"a": {1}}
        )


async def test_a_single_stop_text_is_sent_as_one_text():
    model = ScriptedModel(["yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(ASK, stop="END")
    assert model.requests[0].stop == ("END",)


@pytest.mark.parametrize("options", [{"topp": 0.5}, {"stream": True}, {"max_output_tokens": 5}])
async def test_an_unknown_option_is_rejected(options):
    gateway = Gateway("openai:m", transport=ScriptedModel([]))
    with pytest.raises(TypeError, match=next(iter(options))):
        await gateway.chat(ASK, **options)
    with pytest.raises(TypeError, match=next(iter(options))):
        gateway.stream(ASK, **options)


async def test_a_model_without_structured_output_rejects_a_schema_before_sending():
    gateway = Gateway("deepseek:m", transport=ScriptedModel([]))
    assert (gateway.supports_schema, Gateway("ollama:m").supports_schema) == (False, True)
    with pytest.raises(ConfigurationError, match=r"deepseek:m does not support structured output"):
        await gateway.chat(ASK, response_schema={})
    with pytest.raises(ConfigurationError, match="describe the JSON in the prompt"):
        gateway.stream(ASK, response_schema={})


@pytest.mark.parametrize("number", [0, -1])
def test_a_max_concurrency_below_one_is_rejected(number):
    with pytest.raises(
        ConfigurationError, match=f"max_concurrency is {number}; it must be at least 1"
    ):
        Gateway("ollama:m", max_concurrency=number)


@pytest.mark.parametrize("ask", ["chat", "stream"])
async def test_prices_give_a_reply_its_cost(ask):
    prices = PriceTable({"openai:m": Price(input=2.0, output=10.0)})
    async with Gateway(
        "openai:m", transport=ScriptedModel(["yes", "yes"]), prices=prices
    ) as gateway:
        await gateway.chat(ASK)
        reply = await (gateway.chat(ASK) if ask == "chat" else gateway.stream(ASK).final_message())
    assert (reply.usage, reply.cost) == (Usage(10, 5), (10 * 2.0 + 5 * 10.0) / 1_000_000)


@pytest.mark.parametrize("ask", ["chat", "stream"])
async def test_without_prices_or_usage_the_cost_is_unknown(ask):
    def answer(request):
        return httpx.Response(200, json={"choices": [{"message": {"content": "yes"}}]})

    priced = Gateway(
        "openai:m", transport=httpx.MockTransport(answer), prices=PriceTable({"m": Price(1.0, 1.0)})
    )
    unpriced = Gateway("openai:m", transport=ScriptedModel(["yes"]))
    for gateway in priced, unpriced:
        reply = await (gateway.chat(ASK) if ask == "chat" else gateway.stream(ASK).final_message())
        assert reply.cost is None


@pytest.mark.parametrize("ask", ["chat", "stream"])
@pytest.mark.parametrize(("read", "warned"), [(2048, True), (10_001, False)])
async def test_a_server_that_silently_truncates_a_long_prompt_is_reported(ask, read, warned):
    body = {"choices": [{"message": {"content": "yes"}}], "usage": {"prompt_tokens": read}}
    events = []
    gateway = Gateway("ollama:llama3.2", transport=answering(json=body), on_event=events.append)
    long = [Message.user("word " * 9_999 + "word")]
    await (gateway.chat(long) if ask == "chat" else gateway.stream(long).final_message())
    warnings = [event for event in events if isinstance(event, WarningEvent)]
    assert [event.model for event in warnings] == (["llama3.2"] if warned else [])
    assert all("at least 7952 tokens fewer than were sent" in event.text for event in warnings)
    assert all("num_ctx" in event.text for event in warnings)


async def test_messages_may_be_an_iterator_and_each_attempt_sends_all_of_them():
    model = ScriptedModel([500, "yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(iter(ASK), tools=iter([ToolSpec("f", "")]), stop=iter(["END"]))
    assert model.requests[0] == model.requests[1]
    assert (model.requests[1].messages, model.requests[1].stop) == ((Message.user("hi"),), ("END",))


@pytest.mark.parametrize(
    ("option", "value", "kind"),
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
