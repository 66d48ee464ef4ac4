import json

import httpx
import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ConfigurationError,
    ContextOverflow,
    FallbackEvent,
    Gateway,
    GatewayError,
    InvalidRequest,
    RateLimited,
    RequestEvent,
    RetryEvent,
    ScriptedModel,
    ServerFailed,
    StreamInterrupted,
)
from tests.stage0_gateway.replies import completion, event, failure, text
from tests.stage0_gateway.requests import QUESTION, ask, each_method
from tests.stage0_gateway.servers import Answers, as_response, unused_address

ANTHROPIC = {"content": [{"type": "text", "text": "yes"}], "stop_reason": "end_turn"}


class Hosts(httpx.AsyncBaseTransport):
    """Gives each host its own answer; records the requested hosts, and the keys that were sent."""

    def __init__(self, **answers):
        self.answers, self.requested, self.keys = answers, [], []

    async def handle_async_request(self, request):
        host = request.url.host
        self.requested.append(host)
        names = ("authorization", "x-api-key", "x-goog-api-key")
        self.keys.append([request.headers[name] for name in names if name in request.headers])
        return as_response(next(each for name, each in self.answers.items() if name in host))


# ---- other models


@each_method
async def test_a_fallback_model_of_another_provider_is_requested_with_its_own_key(method):
    hosts = Hosts(openai=500, anthropic=ANTHROPIC)
    keys, events = {"openai": "sk-o", "anthropic": "sk-a"}, []
    gateway = Gateway(
        "openai:m",
        api_key=keys,
        transport=hosts,
        fallback_models=["anthropic:c"],
        max_retries=1,
        on_event=events.append,
    )
    assert (await ask(gateway, method)).content == "yes"
    assert hosts.requested == ["api.openai.com", "api.openai.com", "api.anthropic.com"]
    assert hosts.keys == [["Bearer sk-o"], ["Bearer sk-o"], ["sk-a"]]
    assert [event.name for event in events] == [
        *["request", "retry", "request", "fallback", "request", "response"]
    ]
    fallback = events[3]
    assert isinstance(fallback, FallbackEvent)
    assert (type(fallback.error), fallback.model, fallback.next_model) == (
        ServerFailed,
        "openai:m",
        "anthropic:c",
    )


@each_method
async def test_a_single_key_belongs_to_the_first_model_and_is_not_sent_to_other_providers(method):
    hosts = Hosts(openai=401, anthropic=401, **{"127": completion()})
    gateway = Gateway(
        "openai:m", api_key="sk-o", transport=hosts, fallback_models=["anthropic:c", "ollama:m"]
    )
    assert (await ask(gateway, method)).content == "yes"
    assert hosts.keys == [["Bearer sk-o"], [], []]


async def test_a_base_url_belongs_to_the_first_model_and_to_its_provider():
    hosts = Hosts(mine=404, anthropic=ANTHROPIC)
    gateway = Gateway(
        "openai:m",
        base_url="http://user:pass-word@mine.test/v1?key=sk-query",
        transport=hosts,
        fallback_models=["openai:other", "anthropic:c"],
    )
    await gateway.chat(QUESTION)
    assert hosts.requested == ["mine.test", "mine.test", "api.anthropic.com"]
    assert [bool(keys) for keys in hosts.keys] == [True, True, False]


def test_a_fallback_model_without_a_key_is_rejected_at_creation():
    with pytest.raises(ConfigurationError, match="anthropic:c needs a key: set ANTHROPIC_API_KEY"):
        Gateway("openai:m", api_key="sk-o", fallback_models=["anthropic:c"])
    with pytest.raises(ConfigurationError, match="openai:m needs a key"):
        Gateway("openai:m", api_key={"anthropic": "sk-a"}, fallback_models=["anthropic:c"])


@each_method
async def test_the_offline_model_can_be_the_fallback_for_a_server_that_is_down(method):
    with unused_address() as address:
        gateway = Gateway(
            "ollama:m",
            base_url=f"http://{address}/v1",
            fallback_models=["offline:teacher"],
            max_retries=0,
        )
        async with gateway:
            answer = await ask(gateway, method)
    assert (answer.model, answer.finish_reason) == ("teacher", "stop")


@each_method
async def test_the_last_error_includes_the_errors_of_all_models(method):
    hosts = Hosts(openai=429, anthropic=500)
    gateway = Gateway("openai:m", transport=hosts, fallback_models=["anthropic:c"], max_retries=0)
    with pytest.raises(
        ServerFailed, match=r"Errors of the models before it: RateLimited: no"
    ) as caught:
        await ask(gateway, method)
    assert [type(error) for error in caught.value.earlier] == [RateLimited]


async def test_a_model_for_one_request_keeps_the_fallback_models():
    hosts = Hosts(openai=500, anthropic=ANTHROPIC)
    events = []
    gateway = Gateway(
        "openai:m",
        transport=hosts,
        fallback_models=["anthropic:c"],
        max_retries=0,
        on_event=events.append,
    )
    assert (await gateway.chat(QUESTION, model="openai:big")).content == "yes"
    assert [event.model for event in events if isinstance(event, RequestEvent)] == ["big", "c"]


# ---- retries of streams


def streams(*bodies, **options):
    """Return a gateway whose server streams one of these bodies for each request, and the server."""
    server = Answers(*bodies)
    return Gateway("openai:m", transport=server, **options), server


@pytest.mark.parametrize(
    "first",
    [
        [httpx.ReadError("reset")],
        [],
        [b": comment\n\n"],
        [event(failure(code=500))],
        [b": comment\n\n", event(failure(code=429)), text("never read")],
        [json.dumps(failure(code=503)).encode()],
    ],
    ids=[
        "the connection breaks",
        "nothing",
        "a comment",
        "an error",
        "an error after a comment",
        "an error as JSON",
    ],
)
async def test_a_stream_is_retried_if_it_fails_before_its_first_event(first):
    events = []
    gateway, server = streams(first, [text("yes", "stop")], on_event=events.append)
    stream = gateway.stream(QUESTION)
    assert (await stream.emitted("connect")).attempt == 2
    assert ((await stream.final_message()).content, len(server.requests)) == ("yes", 2)
    assert [event.name for event in events] == ["request", "retry", "request", "response"]
    assert isinstance(events[1], RetryEvent)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ([text("ye"), httpx.ReadError("reset")], StreamInterrupted),
        ([text("ye")], StreamInterrupted),
        ([text("ye"), event(failure(code=500))], ServerFailed),
        ([text("") + event(failure(code=429))], RateLimited),
    ],
    ids=["the connection breaks", "the stream ends", "an error", "an error after an event"],
)
async def test_a_stream_is_not_retried_after_its_first_event(first, kind):
    gateway, server = streams(first, [text("yes", "stop")], fallback_models=["openai:other"])
    with pytest.raises(kind) as caught:
        await gateway.stream(QUESTION).final_message()
    assert (caught.value.retryable, len(server.requests)) == (True, 1)


async def test_a_permanent_error_is_not_retried():
    body = failure("context_length", code="context_length_exceeded")
    for status, kind in ((401, AuthenticationFailed), (400, ContextOverflow)):
        server = Answers(httpx.Response(status, json=body))
        with pytest.raises(kind):
            await Gateway("openai:m", transport=server).chat(QUESTION)
        assert len(server.requests) == 1


# ---- schemas

SCHEMA = {"type": "object"}


@each_method
async def test_a_required_schema_is_sent_in_every_request(method):
    model = ScriptedModel([400, 400])
    gateway = Gateway("openai:m", transport=model)
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            await ask(gateway, method, response_schema=SCHEMA)
    assert [request.response_schema for request in model.requests] == [SCHEMA] * 2


@each_method
async def test_an_optional_schema_that_the_server_rejects_is_not_sent_again(method):
    model = ScriptedModel([400, "yes", "yes", "yes"])
    gateway = Gateway("openai:m", transport=model)
    for _ in range(2):
        answer = await ask(gateway, method, response_schema=SCHEMA, schema_optional=True)
        assert answer.content == "yes"
    await ask(gateway, method, response_schema=SCHEMA)  # required
    sent = [request.response_schema for request in model.requests]
    assert sent == [SCHEMA, None, None, SCHEMA]


@each_method
@pytest.mark.parametrize("options", [{}, {"response_schema": SCHEMA}])
async def test_a_request_is_repeated_once_to_omit_an_optional_schema(method, options):
    model = ScriptedModel([400] * (1 + len(options)))
    gateway = Gateway("openai:m", transport=model)
    with pytest.raises(InvalidRequest):
        await ask(gateway, method, schema_optional=True, **options)
    model.assert_finished()


@each_method
async def test_a_request_that_is_too_long_is_not_repeated_without_its_optional_schema(method):
    body = failure("too long", code="context_length_exceeded")
    server = Answers(httpx.Response(400, json=body))
    gateway = Gateway("openai:m", transport=server)
    with pytest.raises(ContextOverflow):
        await ask(gateway, method, response_schema=SCHEMA, schema_optional=True)
    assert len(server.requests) == 1


@each_method
async def test_a_reply_lists_the_failed_attempts_before_it(method):
    model = ScriptedModel([503, 400, "Here I am."])
    options = {"api_key": "k", "fallback_models": ["openai:second"]}
    async with Gateway("openai:first", transport=model, **options) as gateway:
        first, second = (await ask(gateway, method)).attempts
    assert (first.model, first.status) == ("openai:first", 503)
    assert first.error.startswith("ServerFailed: ")
    assert (second.model, second.status) == ("openai:first", 400)
    assert second.seconds >= 0


async def test_a_reply_at_the_first_attempt_lists_no_attempts():
    async with Gateway("openai:m", transport=ScriptedModel(["Yes."])) as gateway:
        assert (await gateway.chat(QUESTION)).attempts == ()


@each_method
async def test_an_error_that_a_proxy_sends_as_an_event_is_unwrapped(method):
    body = event(failure("No such model.", code="404"))
    async with Gateway("openai:m", transport=Answers(httpx.Response(404, content=body))) as gateway:
        with pytest.raises(GatewayError, match=r"^No such model\. \(HTTP 404\)"):
            await ask(gateway, method)
