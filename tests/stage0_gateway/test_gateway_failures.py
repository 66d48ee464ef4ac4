import json

import httpx
import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ConfigurationError,
    ContextOverflow,
    FallbackEvent,
    Gateway,
    Message,
    RateLimited,
    RequestEvent,
    RetryEvent,
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
    """Gives its chunks one after the other; an error is raised."""

    def __init__(self, chunks):
        self.chunks = chunks

    async def __aiter__(self):
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


class Servers(httpx.AsyncBaseTransport):
    """Answers by host: a status, or a body; remembers who was asked and with which keys."""

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
async def test_another_providers_model_is_asked_with_a_key_of_its_own(ask):
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
async def test_one_key_is_the_first_models_and_is_never_shown_to_another_provider(ask):
    servers = Servers(openai=401, anthropic=401, **{"127": OPENAI})
    gateway = Gateway(
        "openai:m", api_key="sk-o", transport=servers, fallback_models=["anthropic:c", "ollama:m"]
    )
    assert (await reply(gateway, ask)).content == "yes"
    assert servers.keys == [["Bearer sk-o"], [], []]


async def test_a_base_url_is_the_first_models_and_stays_with_its_provider():
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


def test_a_fallback_whose_key_is_missing_is_told_at_once():
    with pytest.raises(ConfigurationError, match="anthropic:c needs a key: set ANTHROPIC_API_KEY"):
        Gateway("openai:m", api_key="sk-o", fallback_models=["anthropic:c"])
    with pytest.raises(ConfigurationError, match="openai:m needs a key"):
        Gateway("openai:m", api_key={"anthropic": "sk-a"}, fallback_models=["anthropic:c"])


@BOTH
async def test_the_embedded_model_may_stand_in_for_a_server_that_is_down(ask, unused_tcp_port):
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
async def test_where_no_model_answers_the_last_error_tells_of_all(ask):
    servers = Servers(openai=429, anthropic=500)
    gateway = Gateway("openai:m", transport=servers, fallback_models=["anthropic:c"], max_retries=0)
    with pytest.raises(
        ServerFailed, match=r"Errors of the models before it: RateLimited: no"
    ) as caught:
        await reply(gateway, ask)
    assert [type(error) for error in caught.value.earlier] == [RateLimited]


async def test_a_model_for_this_request_keeps_the_others_behind_it():
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


# ---- trying again
# ---------------------------------------------------------------------------------------


def streams(*bodies, **options):
    """A gateway whose server streams these bodies, one for each request."""
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
        "the line breaks",
        "nothing",
        "a comment",
        "an error",
        "an error after a comment",
        "an error as JSON",
    ],
)
async def test_a_stream_is_asked_for_again_while_nothing_of_it_has_come(first):
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
    ids=["the line breaks", "it ends", "an error", "an error behind it"],
)
async def test_a_stream_that_has_begun_is_not_asked_for_again(first, kind):
    gateway, waiting = streams(first, [text("yes", "stop")], fallback_models=["openai:other"])
    with pytest.raises(kind) as caught:
        await gateway.stream(ASK).final_message()
    assert (caught.value.retryable, len(waiting)) == (True, 1)


async def test_what_cannot_pass_is_not_tried_again():
    for status, kind in ((401, AuthenticationFailed), (400, ContextOverflow)):
        body = {"error": {"message": "context_length", "code": "context_length_exceeded"}}
        asked = []

        def answer(request, status=status, asked=asked, body=body):
            asked.append(request)
            return httpx.Response(status, json=body)

        with pytest.raises(kind):
            await Gateway("openai:m", transport=httpx.MockTransport(answer)).chat(ASK)
        assert len(asked) == 1
