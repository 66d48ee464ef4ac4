import json

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
)

ASK = [Message.user("hi")]


def answering(status=200, *, headers=None, **content):
    return httpx.MockTransport(lambda request: httpx.Response(status, headers=headers, **content))


async def test_everything_that_is_asked_for_reaches_the_model():
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


async def test_the_reply_is_read_with_its_tool_calls():
    reply = Message.assistant("let me see", [ToolCall("1", "f", '{"a": 1}')])
    async with Gateway("openai:m", transport=ScriptedModel([reply])) as gateway:
        response = await gateway.chat(ASK)
    assert (response.message, response.finish_reason) == (reply, "tool_calls")


async def test_another_model_of_the_same_provider_may_be_asked():
    model = ScriptedModel(["yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(ASK, model="openai:other")
        with pytest.raises(ConfigurationError, match="make another Gateway for 'groq:m'"):
            await gateway.chat(ASK, model="groq:m")
    assert [request.model for request in model.requests] == ["other"]


@pytest.mark.parametrize("reply", ["not json", "[1]", "null", '{"object": "list"}'])
async def test_an_answer_that_is_no_completion_is_malformed(reply):
    gateway = Gateway("openai:m", transport=answering(text=reply), max_retries=0)
    with pytest.raises(MalformedResponse):
        await gateway.chat(ASK)


async def test_an_html_page_of_a_gateway_in_between_is_a_server_failure():
    gateway = Gateway("openai:m", transport=answering(502, html="<html>Bad gateway</html>"), max_retries=0)
    with pytest.raises(ServerFailed, match="Bad gateway"):
        await gateway.chat(ASK)


async def test_the_wait_a_server_asks_for_is_kept_on_the_error():
    transport = answering(429, headers={"retry-after": "7"}, json={"error": {"message": "slow"}})
    with pytest.raises(RateLimited) as caught:
        await Gateway("openai:m", transport=transport, max_retries=0).chat(ASK)
    assert (caught.value.retry_after, caught.value.status) == (7.0, 429)


async def test_a_key_in_the_servers_words_is_hidden():
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


@pytest.mark.parametrize(
    "text", ["上海的天气", "👍🏽", "half a pair: \ud83d", "nul \x00", '"quotes" \\ and\nlines']
)
async def test_any_text_reaches_the_model_unchanged(text):
    model = ScriptedModel(["yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat([Message.user(text)])
    assert model.requests[0].messages == (Message.user(text),)


async def test_a_message_that_is_none_is_refused_before_anything_is_sent():
    model = ScriptedModel([])
    with pytest.raises(ValueError, match="not str"):
        await Gateway("openai:m", transport=model).chat(["hi"])
    assert model.requests == []


def test_a_negative_number_of_retries_is_refused():
    with pytest.raises(ConfigurationError, match="max_retries is -1"):
        Gateway("openai:m", api_key="k", max_retries=-1)


def test_making_a_gateway_opens_nothing_and_shows_where_it_goes():
    shown = repr(Gateway("openai:m", api_key="sk-secret"))
    assert shown == "Gateway('openai:m', url='https://api.openai.com/v1/chat/completions')"


async def test_numbers_json_cannot_hold_are_refused_before_anything_is_sent():
    with pytest.raises(ValueError, match="JSON"):
        await Gateway("openai:m", transport=ScriptedModel([])).chat(ASK, temperature=float("nan"))


def test_the_body_is_compact_json():
    from stage0_gateway.gateway import _to_json

    assert json.loads(_to_json({"a": "ü"})) == {"a": "ü"}
    assert _to_json({"a": "ü", "b": 1}) == '{"a":"ü","b":1}'.encode()


async def test_an_empty_conversation_is_refused_before_anything_is_sent():
    with pytest.raises(ValueError, match="There is no message to send"):
        await Gateway("openai:m", transport=ScriptedModel([])).chat([])


@pytest.mark.parametrize(
    "reply", ['{"choices":' + "[" * 100_000, '{"choices": [{"message": {}, "finish_reason": []}]}']
)
async def test_hostile_answers_are_malformed(reply):
    with pytest.raises(MalformedResponse):
        await Gateway("openai:m", transport=answering(text=reply), max_retries=0).chat(ASK)


async def test_what_json_cannot_hold_is_a_value_error():
    with pytest.raises(ValueError, match="what JSON cannot"):
        await Gateway("openai:m", transport=ScriptedModel([])).chat(ASK, provider_options={"a": {1}})


async def test_one_text_to_stop_at_is_one_text():
    model = ScriptedModel(["yes"])
    async with Gateway("openai:m", transport=model) as gateway:
        await gateway.chat(ASK, stop="END")
    assert model.requests[0].stop == ("END",)
