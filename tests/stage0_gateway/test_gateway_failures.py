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
    Message,
    RateLimited,
    RequestEvent,
    RetryEvent,
    ScriptedModel,
    ServerFailed,
    StreamInterrupted,
)

ASK = [Message.user("hi")]
BOTH = pytest.mark.parametrize("ask", ["chat", "stream"])
OPENAI = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}
ANTHROPIC = {"content": [{"type": "text", "text": "yes"}], "stop_reason": "end_turn"}


async def reply(gateway, ask, **options):
    if ask == "chat":
        return await gateway.chat(ASK, **options)
    return await gateway.stream(ASK, **options).final_message()


def event(value):
    return f"data: {json.dumps(value)}\n\n".encode()


def text(content, finish_reason=None):
    return event({"choices": [{"delta": {"content": content}, "finish_reason": finish_reason}]})


def failure(status):
    return event({"error": {"message": "broken", "code": status}})


class Body(httpx.AsyncByteStream):
    """Sends its chunks one by one; an exception among them is raised."""

    def __init__(self, chunks):
        self.chunks = chunks

    async def __aiter__(self):
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


class Servers(httpx.AsyncBaseTransport):
    """Answers each host with a status or a body; records the requested hosts and the keys sent."""

    def __init__(self, **answers):
        self.answers, self.asked, self.keys = answers, [], []

    async def handle_async_request(self, request):
        host = request.url.host
        self.asked.append(host)
        names = ("authorization", "x-api-key", "x-goog-api-key")
        self.keys.append([request.headers[name] for name in names if name in request.headers])
        answer = next(answer for name, answer in self.answers.items() if name in host)
        if isinstance(answer, int):
            return httpx.Response(answer, json={"error": {"message": "no"}})
        return httpx.Response(200, json=answer)


# ---- other models
# ---------------------------------------------------------------------------------------


@BOTH
async def test_a_fallback_model_of_another_provider_is_requested_with_its_own_key(ask):
    servers = Servers(openai=500, anthropic=ANTHROPIC)
    keys, events = {"openai": "sk-o", "anthropic": "sk-a"}, []
    gateway = Gateway(
        "openai:m",
        api_key=keys,
        transport=servers,
        fallback_models=["anthropic:c"],
        max_retries=1,
        on_event=events.append,
    )
    assert (await reply(gateway, ask)).content == "yes"
    assert servers.asked == ["api.openai.com", "api.openai.com", "api.anthropic.com"]
    assert servers.keys == [["Bearer sk-o"], ["Bearer sk-o"], ["sk-a"]]
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


@BOTH
async def test_a_single_key_belongs_to_the_first_model_and_is_not_sent_to_other_providers(ask):
    servers = Servers(openai=401, anthropic=401, **{"127": OPENAI})
    gateway = Gateway(
        "openai:m", api_key="sk-o", transport=servers, fallback_models=["anthropic:c", "ollama:m"]
    )
    assert (await reply(gateway, ask)).content == "yes"
    assert servers.keys == [["Bearer sk-o"], [], []]


async def test_a_base_url_belongs_to_the_first_model_and_to_its_provider():
    servers = Servers(mine=404, anthropic=ANTHROPIC)
    gateway = Gateway(
        "openai:m",
        base_url="http://user:pass-word@mine.test/v1?key=sk-query",
        transport=servers,
        fallback_models=["openai:other", "anthropic:c"],
    )
    await gateway.chat(ASK)
    assert servers.asked == ["mine.test", "mine.test", "api.anthropic.com"]
    assert [bool(keys) for keys in servers.keys] == [True, True, False]


def test_a_fallback_model_without_a_key_is_rejected_at_creation():
    with pytest.raises(ConfigurationError, match="anthropic:c needs a key: set ANTHROPIC_API_KEY"):
        Gateway("openai:m", api_key="sk-o", fallback_models=["anthropic:c"])
    with pytest.raises(ConfigurationError, match="openai:m needs a key"):
        Gateway("openai:m", api_key={"anthropic": "sk-a"}, fallback_models=["anthropic:c"])


@BOTH
async def test_the_embedded_model_can_be_the_fallback_for_a_server_that_is_down(
    ask, unused_tcp_port
):
    gateway = Gateway(
        "ollama:m",
        base_url=f"http://127.0.0.1:{unused_tcp_port}/v1",
        fallback_models=["offline:teacher"],
        max_retries=0,
    )
    async with gateway:
        answer = await reply(gateway, ask)
    assert (answer.model, answer.finish_reason) == ("teacher", "stop")


@BOTH
async def test_the_last_error_includes_the_errors_of_all_models(ask):
    servers = Servers(openai=429, anthropic=500)
    gateway = Gateway("openai:m", transport=servers, fallback_models=["anthropic:c"], max_retries=0)
    with pytest.raises(
        ServerFailed, match=r"Errors of the models before it: RateLimited: no"
    ) as caught:
        await reply(gateway, ask)
    assert [type(error) for error in caught.value.earlier] == [RateLimited]


async def test_a_model_for_one_request_keeps_the_fallback_models():
    servers = Servers(openai=500, anthropic=ANTHROPIC)
    events = []
    gateway = Gateway(
        "openai:m",
        transport=servers,
        fallback_models=["anthropic:c"],
        max_retries=0,
        on_event=events.append,
    )
    assert (await gateway.chat(ASK, model="openai:big")).content == "yes"
    assert [event.model for event in events if isinstance(event, RequestEvent)] == ["big", "c"]


# ---- retries of streams
# ---------------------------------------------------------------------------------------


def streams(*bodies, **options):
    """Return a gateway whose server streams one of these bodies for each request."""
    waiting = list(bodies)
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, stream=Body(waiting.pop(0)))
    )
    return Gateway("openai:m", transport=transport, **options), waiting


@pytest.mark.parametrize(
    "first",
    [
        [httpx.ReadError("reset")],
        [],
        [b": comment\n\n"],
        [failure(500)],
        [b": comment\n\n", failure(429), text("never read")],
        [json.dumps({"error": {"message": "broken", "code": 503}}).encode()],
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
    gateway, waiting = streams(first, [text("yes", "stop")], on_event=events.append)
    stream = gateway.stream(ASK)
    assert (await stream.emitted("connect")).attempt == 2
    assert ((await stream.final_message()).content, waiting) == ("yes", [])
    assert [event.name for event in events] == ["request", "retry", "request", "response"]
    assert isinstance(events[1], RetryEvent)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ([text("ye"), httpx.ReadError("reset")], StreamInterrupted),
        ([text("ye")], StreamInterrupted),
        ([text("ye"), failure(500)], ServerFailed),
        ([text("") + failure(429)], RateLimited),
    ],
    ids=["the connection breaks", "the stream ends", "an error", "an error after an event"],
)
async def test_a_stream_is_not_retried_after_its_first_event(first, kind):
    gateway, waiting = streams(first, [text("yes", "stop")], fallback_models=["openai:other"])
    with pytest.raises(kind) as caught:
        await gateway.stream(ASK).final_message()
    assert (caught.value.retryable, len(waiting)) == (True, 1)


async def test_a_permanent_error_is_not_retried():
    for status, kind in ((401, AuthenticationFailed), (400, ContextOverflow)):
        body = {"error": {"message": "context_length", "code": "context_length_exceeded"}}
        asked = []

        def answer(request, status=status, asked=asked, body=body):
            asked.append(request)
            return httpx.Response(status, json=body)

        with pytest.raises(kind):
            await Gateway("openai:m", transport=httpx.MockTransport(answer)).chat(ASK)
        assert len(asked) == 1


# ---- schemas
# ---------------------------------------------------------------------------------------

SCHEMA = {"type": "object"}


@BOTH
async def test_a_required_schema_is_sent_in_every_request(ask):
    model = ScriptedModel([400, 400])
    gateway = Gateway("openai:m", transport=model)
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            await reply(gateway, ask, response_schema=SCHEMA)
    assert [request.response_schema for request in model.requests] == [SCHEMA] * 2


@BOTH
async def test_an_optional_schema_that_the_server_rejects_is_not_sent_again(ask):
    model = ScriptedModel([400, "yes", "yes", "yes"])
    gateway = Gateway("openai:m", transport=model)
    for _ in range(2):
        answer = await reply(gateway, ask, response_schema=SCHEMA, schema_optional=True)
        assert answer.content == "yes"
    await reply(gateway, ask, response_schema=SCHEMA)  # required
    sent = [request.response_schema for request in model.requests]
    assert sent == [SCHEMA, None, None, SCHEMA]


@BOTH
@pytest.mark.parametrize("options", [{}, {"response_schema": SCHEMA}])
async def test_a_request_is_repeated_once_to_omit_an_optional_schema(ask, options):
    model = ScriptedModel([400] * (1 + len(options)))
    gateway = Gateway("openai:m", transport=model)
    with pytest.raises(InvalidRequest):
        await reply(gateway, ask, schema_optional=True, **options)
    model.assert_finished()


@BOTH
async def test_a_request_that_is_too_long_is_not_repeated_without_its_optional_schema(ask):
    requests = []

    def answer(request):
        requests.append(request)
        error = {"message": "too long", "code": "context_length_exceeded"}
        return httpx.Response(400, json={"error": error})

    gateway = Gateway("openai:m", transport=httpx.MockTransport(answer))
    with pytest.raises(ContextOverflow):
        await reply(gateway, ask, response_schema=SCHEMA, schema_optional=True)
    assert len(requests) == 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_reply_lists_the_failed_attempts_before_it(streamed: bool) -> None:
    model = ScriptedModel([503, 400, "Here I am."])
    async with Gateway(
        "openai:first", api_key="k", transport=model, fallback_models=["openai:second"]
    ) as gateway:
        if streamed:
            reply = await gateway.stream([Message.user("Hello?")]).final_message()
        else:
            reply = await gateway.chat([Message.user("Hello?")])
    first, second = reply.attempts
    assert (first.model, first.status) == ("openai:first", 503)
    assert first.error.startswith("ServerFailed: ")
    assert (second.model, second.status) == ("openai:first", 400)
    assert second.seconds >= 0


async def test_a_reply_at_the_first_attempt_lists_no_attempts() -> None:
    async with Gateway("openai:any", api_key="k", transport=ScriptedModel(["Yes."])) as gateway:
        assert (await gateway.chat([Message.user("Hello?")])).attempts == ()


@BOTH
async def test_an_error_that_a_proxy_sends_as_an_event_is_unwrapped(ask):
    body = 'data: {"error": {"message": "No such model.", "code": "404"}}\n\n'
    transport = httpx.MockTransport(lambda request: httpx.Response(404, text=body))
    async with Gateway("openai:m", transport=transport) as gateway:
        with pytest.raises(GatewayError, match=r"^No such model\. \(HTTP 404\)"):
            await reply(gateway, ask)
