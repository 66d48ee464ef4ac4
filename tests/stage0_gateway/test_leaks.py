"""Secrets do not leak: each input may contain a key, and each answer of a server may repeat it.

The text of a model is data: a key in a text or in arguments stays, in `chat` and in a stream.
Everything else is searched: exceptions with their causes, events, logs, reprs and recordings.
"""

import asyncio
import json
import logging
from base64 import b64encode
from traceback import format_exception

import httpx
import pytest

from stage0_gateway import Gateway, GatewayError, Message, Recorder
from stage0_gateway.http.pool import Pool

ASK = [Message.user("hi")]
KEY, TOKEN, NAMELESS, PASSWORD = "sk-header-1", "tk/query=2", "nk-alone-3", "pw:4@/x"
URL = "https://me:pw%3A4%40%2Fx@api.test/v1?token=tk%2Fquery%3D2&version=2024-10-21&nk-alone-3"
BASIC = b64encode(f"me:{PASSWORD}".encode()).decode()
SECRETS = [KEY, TOKEN, "tk%2Fquery%3D2", NAMELESS, PASSWORD, "pw%3A4%40%2Fx", BASIC]
ECHO = " and ".join(SECRETS)
MODELS = pytest.mark.parametrize(
    "model", ["openai:m", "anthropic:m", "gemini:m", "openai-responses:m"]
)
BOTH = pytest.mark.parametrize("ask", ["chat", "stream"])


def leaks(*texts):
    return [(secret, text) for text in texts for secret in SECRETS if secret in text]


def event(value):
    return f"data: {json.dumps(value)}\n\n".encode()


BEGUN = {
    "openai": event({"id": ECHO, "model": ECHO, "choices": [{"delta": {"content": "yes"}}]}),
    "anthropic": event({"type": "message_start", "message": {"id": ECHO, "model": ECHO}})
    + event(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "yes"},
        }
    ),
    "gemini": event(
        {
            "responseId": ECHO,
            "modelVersion": ECHO,
            "candidates": [{"content": {"parts": [{"text": "yes"}]}}],
        }
    ),
    "openai-responses": event({"type": "response.created", "response": {"id": ECHO, "model": ECHO}})
    + event({"type": "response.output_text.delta", "output_index": 0, "delta": "yes"}),
}
ERROR = {"type": "error", "error": {"type": "api_error", "message": f"I saw {ECHO}", ECHO: ECHO}}
WHOLE = {
    "openai": {
        "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
        "id": ECHO,
        "model": ECHO,
    },
    "anthropic": {
        "content": [{"type": "text", "text": "yes"}],
        "stop_reason": "end_turn",
        "model": ECHO,
    },
    "gemini": {"candidates": [{"content": {"parts": [{"text": "yes"}]}, "finishReason": "STOP"}]},
    "openai-responses": {
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "yes"}]}],
        "status": "completed",
        "id": ECHO,
        "model": ECHO,
    },
}
LIBRARYS = httpx.RemoteProtocolError(f"illegal header line: {ECHO}")
REFUSALS = {
    "a refusal": (401, json.dumps(ERROR).encode()),
    "a failure": (500, json.dumps({"detail": [{"msg": ECHO}]}).encode()),
    "a page": (502, f"<html>{ECHO}</html>".encode()),
    "a redirect": (302, ECHO.encode()),
    "an error with status 200": (200, json.dumps(ERROR).encode()),
    "no json": (200, f"<p>{ECHO}".encode()),
    "truncated JSON": (200, f'{{"{ECHO}'.encode()),
    "a stream without JSON": (200, f"data: {ECHO}\n\n".encode()),
    "another json": (200, json.dumps({ECHO: ECHO}).encode()),
    "unknown JSON in a stream": (200, event({ECHO: ECHO, "choices": ECHO, "candidates": ECHO})),
    "a wrong type": (
        200,
        event({"type": "content_block_delta", "index": ECHO, "delta": {ECHO: 1}}),
    ),
    "a connection that breaks": (200, LIBRARYS),
    "headers": (429, b'{"error": {"message": "slow down"}}'),
}
IN_MID_STREAM = {
    "an error": [event(ERROR)],
    "no json": [f"data: {ECHO}\n\n".encode()],
    "another json": [event([ECHO])],
    "a connection that breaks": [LIBRARYS],
    "an end": [],
}


class Body(httpx.AsyncByteStream):
    def __init__(self, chunks):
        self.chunks = chunks

    async def __aiter__(self):
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


@pytest.fixture
def watched(caplog, tmp_path):
    """`watched(model, status, *chunks)` returns a gateway, and a function that returns all texts it
    produced."""
    caplog.set_level(logging.DEBUG)
    events = []

    def make(model, status, *chunks):
        def answer(request):
            assert len(leaks(str(request.url), str(request.headers.raw))) >= 3  # secrets are sent
            return httpx.Response(
                status, headers={"x-request-id": ECHO, "x-note": ECHO}, stream=Body(chunks)
            )

        record = tmp_path / "recording.jsonl"
        # The recorder finds secrets in named fields. A password beside a bearer token is not sent.
        recorder = Recorder(
            record, httpx.MockTransport(answer), secrets=[NAMELESS, PASSWORD, BASIC]
        )
        gateway = Gateway(
            model,
            api_key=KEY,
            base_url=URL,
            transport=recorder,
            on_event=events.append,
            max_retries=1,
        )

        def everything():
            texts = [record.read_text(), repr(gateway), *map(repr, events)]
            return texts + [f"{line.getMessage()} {line.__dict__!r}" for line in caplog.records]

        return gateway, everything

    return make


async def failed_request(gateway, ask):
    """Return the error that a request raises, and all events of a stream."""
    seen = []
    try:
        if ask == "chat":
            await gateway.chat(ASK)
        else:
            async for each in gateway.stream(ASK):
                seen.append(each)
    except GatewayError as error:
        return error, seen
    raise AssertionError("no error")


def texts_of(error):
    """Return all texts that an error shows: its own, of its causes, and of earlier errors."""
    texts = ["".join(format_exception(error)), repr(error), repr(error.__dict__)]
    led_to = [error, error.__cause__, error.__context__]
    texts += [f"{each!r} {each} {each.args}" for each in led_to if each is not None]
    return texts + [text for earlier in error.earlier for text in texts_of(earlier)]


@MODELS
@BOTH
@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_that_repeats_every_secret_shows_none_of_them(watched, model, ask, answer):
    status, body = answer
    gateway, everything = watched(model, status, body)
    error, events = await failed_request(gateway, ask)
    assert leaks(*texts_of(error), *map(repr, events), *everything()) == []


@MODELS
@pytest.mark.parametrize("rest", IN_MID_STREAM.values(), ids=IN_MID_STREAM)
async def test_a_stream_that_fails_in_the_middle_shows_no_secret(watched, model, rest):
    gateway, everything = watched(model, 200, BEGUN[model.partition(":")[0]], *rest)
    error, events = await failed_request(gateway, "stream")
    assert [each.name for each in events][-2:] == ["error", "end"]
    assert leaks(*texts_of(error), *map(repr, events), *everything()) == []


@MODELS
@BOTH
async def test_the_names_in_a_reply_show_no_secret(watched, model, ask):
    whole = json.dumps(WHOLE[model.partition(":")[0]]).encode()
    gateway, everything = watched(model, 200, whole)
    reply = await (gateway.chat(ASK) if ask == "chat" else gateway.stream(ASK).final_message())
    assert reply.content == "yes"
    assert leaks(repr(reply), *everything()) == []


@MODELS
async def test_the_last_error_hides_the_secrets_of_every_requested_model(model):
    def answer(request):
        return httpx.Response(500, json={"error": {"message": f"I saw {ECHO}"}})

    events = []
    gateway = Gateway(
        model,
        api_key=KEY,
        base_url=URL,
        transport=httpx.MockTransport(answer),
        fallback_models=[model + "-2", "ollama:m"],
        max_retries=0,
        on_event=events.append,
    )
    for ask in "chat", "stream":
        error, _ = await failed_request(gateway, ask)
        own = "".join(texts_of(error.earlier[0])) + "".join(texts_of(error.earlier[1]))
        assert leaks(own, *map(repr, events)) == []
        assert len(error.earlier) == 2


async def test_a_key_in_the_text_of_a_model_is_kept():
    chunks = [{"choices": [{"delta": {"content": KEY}, "finish_reason": "stop"}]}]
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=event(chunks[0])))
    stream = Gateway("openai:m", api_key=KEY, transport=transport).stream(ASK)
    raw = await stream.emitted("stream_event")
    assert (await stream.final_message()).content == KEY
    assert KEY not in repr(raw)  # raw events are written to logs, so secrets are hidden in them


async def test_an_escaped_secret_is_found_in_a_raw_event():
    key = "sk/with/slashes"
    sent = (
        b'data: {"error": {"message": "I saw sk\\/with\\/slashes"}, '
        b'"list": ["\\u0073k/with/slashes"]}\n\n'
    )
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=sent))
    gateway = Gateway("openai:m", api_key=key, transport=transport, max_retries=0)
    error, events = await failed_request(gateway, "stream")
    assert [each.name for each in events] == ["error", "end"]
    assert key not in str(error)
    begun = BEGUN["openai"] + sent
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=begun))
    error, events = await failed_request(
        Gateway("openai:m", api_key=key, transport=transport), "stream"
    )
    assert "stream_event" in [each.name for each in events]
    assert key not in "".join(map(repr, events)) + str(error)


def raw_server(response):
    """Start a server that writes this response byte for byte."""

    async def answer(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(response)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return asyncio.start_server(answer, "127.0.0.1", 0)


ON_THE_LINE = {
    "a status line": f"HTTP/1.1 {ECHO}\r\n\r\n",
    "an illegal header": f"HTTP/1.1 200 OK\r\n{ECHO}\r\n\r\n",
    "a reason": f"HTTP/1.1 401 {ECHO}\r\nContent-Length: 0\r\n\r\n",
    "a wrong length": f"HTTP/1.1 200 OK\r\nContent-Length: {ECHO}\r\n\r\n",
    "a broken chunk": f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{ECHO}\r\n",
}


async def texts_of_request(ask, response, transport):
    """Return all texts that a request to such a server shows."""
    server = await raw_server(response.encode())
    host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    url = URL.replace("https", "http").replace("api.test", host)
    events = []
    options = {"max_retries": 0, "on_event": events.append, "transport": transport}
    opened = Gateway("openai:m", api_key=KEY, base_url=url, **options)
    async with server, opened as gateway:
        error, of_stream = await failed_request(gateway, ask)
    return [*texts_of(error), *map(repr, [*events, *of_stream])]


@BOTH
@pytest.mark.parametrize("response", ON_THE_LINE.values(), ids=ON_THE_LINE)
async def test_an_invalid_http_response_shows_no_secret(caplog, network, ask, response):
    caplog.set_level(logging.DEBUG)
    texts = await texts_of_request(ask, response, network())
    assert leaks(*texts, *(line.getMessage() for line in caplog.records)) == []


@BOTH
async def test_the_logs_of_all_libraries_hold_no_secret(caplog, network, ask):
    caplog.set_level(logging.DEBUG)
    await texts_of_request(ask, "HTTP/1.1 401 no\r\nContent-Length: 0\r\n\r\n", network())
    if network is Pool:
        assert "httpcore" in {line.name.partition(".")[0] for line in caplog.records}
    assert leaks(*(f"{line.getMessage()} {line.__dict__!r}" for line in caplog.records)) == []
