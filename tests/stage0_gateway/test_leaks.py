"""Nothing leaks: keys are planted wherever one can be given, and servers repeat them wherever they
can speak.

What a model says is data: a text or an argument that holds a key stays as it is, in `chat` and in a
stream. Everything else is searched: what is raised (with all that led to it), reported, logged,
shown and recorded.
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
MODELS = pytest.mark.parametrize("model", ["openai:m", "anthropic:m", "gemini:m"])
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
}
LIBRARYS = httpx.RemoteProtocolError(f"illegal header line: {ECHO}")
REFUSALS = {
    "a refusal": (401, json.dumps(ERROR).encode()),
    "a failure": (500, json.dumps({"detail": [{"msg": ECHO}]}).encode()),
    "a page": (502, f"<html>{ECHO}</html>".encode()),
    "a redirect": (302, ECHO.encode()),
    "an error as a success": (200, json.dumps(ERROR).encode()),
    "no json": (200, f"<p>{ECHO}".encode()),
    "half of a json": (200, f'{{"{ECHO}'.encode()),
    "no json in a stream": (200, f"data: {ECHO}\n\n".encode()),
    "another json": (200, json.dumps({ECHO: ECHO}).encode()),
    "another json in a stream": (200, event({ECHO: ECHO, "choices": ECHO, "candidates": ECHO})),
    "a wrong type": (
        200,
        event({"type": "content_block_delta", "index": ECHO, "delta": {ECHO: 1}}),
    ),
    "a line that breaks": (200, LIBRARYS),
    "headers": (429, b'{"error": {"message": "slow down"}}'),
}
IN_MID_STREAM = {
    "an error": [event(ERROR)],
    "no json": [f"data: {ECHO}\n\n".encode()],
    "another json": [event([ECHO])],
    "a line that breaks": [LIBRARYS],
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
    """`watched(model, status, *chunks)` is a gateway and, when it has been used, all that came of
    it as text."""
    caplog.set_level(logging.DEBUG)
    told = []

    def make(model, status, *chunks):
        def answer(request):
            assert (
                len(leaks(str(request.url), str(request.headers.raw))) >= 3
            )  # they really are sent
            return httpx.Response(
                status, headers={"x-request-id": ECHO, "x-note": ECHO}, stream=Body(chunks)
            )

        record = tmp_path / "recording.jsonl"
        # It finds what a request carries under a name; of a password beside a bearer token nothing
        # is sent.
        recorder = Recorder(
            record, httpx.MockTransport(answer), secrets=[NAMELESS, PASSWORD, BASIC]
        )
        gateway = Gateway(
            model,
            api_key=KEY,
            base_url=URL,
            transport=recorder,
            on_event=told.append,
            max_retries=1,
        )

        def everything():
            texts = [record.read_text(), repr(gateway), *map(repr, told)]
            return texts + [f"{line.getMessage()} {line.__dict__!r}" for line in caplog.records]

        return gateway, everything

    return make


async def tried(gateway, ask):
    """The error that comes of asking, and all the events of a stream."""
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


def shown(error):
    """All that can be seen of an error: it, what led to it, and those before it."""
    texts = ["".join(format_exception(error)), repr(error), repr(error.__dict__)]
    led_to = [error, error.__cause__, error.__context__]
    texts += [f"{each!r} {each} {each.args}" for each in led_to if each is not None]
    return texts + [text for earlier in error.earlier for text in shown(earlier)]


@MODELS
@BOTH
@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
async def test_a_server_that_refuses_and_repeats_every_secret_gets_none_of_them_shown(
    watched, model, ask, answer
):
    status, said = answer
    gateway, everything = watched(model, status, said)
    error, events = await tried(gateway, ask)
    assert leaks(*shown(error), *map(repr, events), *everything()) == []


@MODELS
@pytest.mark.parametrize("rest", IN_MID_STREAM.values(), ids=IN_MID_STREAM)
async def test_a_stream_that_fails_in_the_middle_shows_no_secret(watched, model, rest):
    gateway, everything = watched(model, 200, BEGUN[model.partition(":")[0]], *rest)
    error, events = await tried(gateway, "stream")
    assert [each.name for each in events][-2:] == ["error", "end"]
    assert leaks(*shown(error), *map(repr, events), *everything()) == []


@MODELS
@BOTH
async def test_a_reply_shows_no_secret_in_its_names(watched, model, ask):
    whole = json.dumps(WHOLE[model.partition(":")[0]]).encode()
    gateway, everything = watched(model, 200, whole)
    reply = await (gateway.chat(ASK) if ask == "chat" else gateway.stream(ASK).final_message())
    assert reply.content == "yes"
    assert leaks(repr(reply), *everything()) == []


@MODELS
async def test_every_model_that_was_asked_keeps_its_secrets_in_the_last_error(model):
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
        error, _ = await tried(gateway, ask)
        own = "".join(shown(error.earlier[0])) + "".join(shown(error.earlier[1]))
        assert leaks(own, *map(repr, events)) == []
        assert len(error.earlier) == 2


async def test_what_a_model_says_is_data_and_stays():
    said = [{"choices": [{"delta": {"content": KEY}, "finish_reason": "stop"}]}]
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=event(said[0])))
    stream = Gateway("openai:m", api_key=KEY, transport=transport).stream(ASK)
    raw = await stream.emitted("stream_event")
    assert (await stream.final_message()).content == KEY
    assert KEY not in repr(raw)  # the event as the server sent it is for logs, and is searched


async def test_a_secret_behind_backslashes_is_found_in_a_raw_event():
    key = "sk/with/slashes"
    sent = (
        b'data: {"error": {"message": "I saw sk\\/with\\/slashes"}, '
        b'"list": ["\\u0073k/with/slashes"]}\n\n'
    )
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=sent))
    gateway = Gateway("openai:m", api_key=key, transport=transport, max_retries=0)
    error, events = await tried(gateway, "stream")
    assert [each.name for each in events] == ["error", "end"]
    assert key not in str(error)
    begun = BEGUN["openai"] + sent
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=begun))
    error, events = await tried(Gateway("openai:m", api_key=key, transport=transport), "stream")
    assert "stream_event" in [each.name for each in events]
    assert key not in "".join(map(repr, events)) + str(error)


def raw_server(response):
    """An answer on a real line, byte for byte."""

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


async def asked_on_a_line(ask, response, transport):
    """What comes of asking a server that answers so on a real line."""
    server = await raw_server(response.encode())
    host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    url = URL.replace("https", "http").replace("api.test", host)
    events = []
    options = {"max_retries": 0, "on_event": events.append, "transport": transport}
    asked = Gateway("openai:m", api_key=KEY, base_url=url, **options)
    async with server, asked as gateway:
        error, told = await tried(gateway, ask)
    return [*shown(error), *map(repr, [*events, *told])]


@BOTH
@pytest.mark.parametrize("response", ON_THE_LINE.values(), ids=ON_THE_LINE)
async def test_a_server_that_speaks_no_http_shows_no_secret(caplog, network, ask, response):
    caplog.set_level(logging.DEBUG)
    texts = await asked_on_a_line(ask, response, network())
    assert leaks(*texts, *(line.getMessage() for line in caplog.records)) == []


@BOTH
async def test_no_log_of_any_library_holds_what_is_sent(caplog, network, ask):
    caplog.set_level(logging.DEBUG)
    await asked_on_a_line(ask, "HTTP/1.1 401 no\r\nContent-Length: 0\r\n\r\n", network())
    if network is Pool:
        assert "httpcore" in {line.name.partition(".")[0] for line in caplog.records}
    assert leaks(*(f"{line.getMessage()} {line.__dict__!r}" for line in caplog.records)) == []
