"""Secrets do not leak: each input may contain a key, and each answer of a server may repeat it.

The text of a model is data: a key in a text or in arguments stays, in `chat` and in a stream.
Everything else is searched: exceptions with their causes, events, logs, reprs and recordings.
"""

import json
import logging
import tempfile
from base64 import b64encode
from pathlib import Path
from traceback import format_exception

import httpx
import pytest

from stage0_gateway import Gateway, GatewayError, Recorder
from stage0_gateway.http.pool import Pool
from tests.stage0_gateway.replies import candidate, chunk, completion, event, failure, item_event
from tests.stage0_gateway.requests import METHODS, MODELS, QUESTION, ask, each_method
from tests.stage0_gateway.servers import Answers, Body, Server, running
from tests.tables import for_each

KEY, TOKEN, NAMELESS, PASSWORD = "sk-header-1", "tk/query=2", "nk-alone-3", "pw:4@/x"
URL = "https://me:pw%3A4%40%2Fx@api.test/v1?token=tk%2Fquery%3D2&version=2024-10-21&nk-alone-3"
BASIC = b64encode(f"me:{PASSWORD}".encode()).decode()
SECRETS = [KEY, TOKEN, "tk%2Fquery%3D2", NAMELESS, PASSWORD, "pw%3A4%40%2Fx", BASIC]
ECHO = " and ".join(SECRETS)


def leaks(*texts):
    return [(secret, text) for text in texts for secret in SECRETS if secret in text]


TEXT_BLOCK = {"type": "text", "text": "yes"}
STARTS = {
    "openai:m": [{"id": ECHO, "model": ECHO, **chunk(content="yes")}],
    "anthropic:m": [
        {"type": "message_start", "message": {"id": ECHO, "model": ECHO}},
        {"type": "content_block_start", "index": 0, "content_block": TEXT_BLOCK},
    ],
    "gemini:m": [{"responseId": ECHO, "modelVersion": ECHO, **candidate({"text": "yes"})}],
    "openai-responses:m": [
        {"type": "response.created", "response": {"id": ECHO, "model": ECHO}},
        item_event("output_text.delta", 0, delta="yes"),
    ],
}
"""The first events of a stream whose metadata repeats the secrets."""

WHOLE = {
    "openai:m": {**completion("yes"), "id": ECHO, "model": ECHO},
    "anthropic:m": {"content": [TEXT_BLOCK], "stop_reason": "end_turn", "model": ECHO},
    "gemini:m": candidate({"text": "yes"}, finishReason="STOP"),
    "openai-responses:m": {
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "yes"}]}],
        "status": "completed",
        "id": ECHO,
        "model": ECHO,
    },
}
ERROR = {"type": "error", "error": {"type": "api_error", "message": f"I saw {ECHO}", ECHO: ECHO}}
BROKEN = httpx.RemoteProtocolError(f"illegal header line: {ECHO}")
REFUSALS = {
    "a refusal": (401, json.dumps(ERROR).encode()),
    "a failure": (500, json.dumps({"detail": [{"msg": ECHO}]}).encode()),
    "a page": (502, f"<html>{ECHO}</html>".encode()),
    "a redirect": (302, ECHO.encode()),
    "an error with status 200": (200, json.dumps(ERROR).encode()),
    "no JSON": (200, f"<p>{ECHO}".encode()),
    "truncated JSON": (200, f'{{"{ECHO}'.encode()),
    "a stream without JSON": (200, event(ECHO)),
    "another JSON": (200, json.dumps({ECHO: ECHO}).encode()),
    "unknown JSON in a stream": (200, event({ECHO: ECHO, "choices": ECHO, "candidates": ECHO})),
    "a wrong type": (
        200,
        event({"type": "content_block_delta", "index": ECHO, "delta": {ECHO: 1}}),
    ),
    "a connection that breaks": (200, BROKEN),
    "headers": (429, json.dumps(failure("slow down")).encode()),
}
AFTER_THE_START = {
    "an error": [event(ERROR)],
    "no JSON": [event(ECHO)],
    "another JSON": [event([ECHO])],
    "a connection that breaks": [BROKEN],
    "an end": [],
}


class Observed:
    """A gateway that sends secrets to a server which repeats them.

    Attributes:
        gateway: The gateway.
    """

    def __init__(self, model, status, chunks, folder, caplog):
        caplog.clear()
        headers = {"x-request-id": ECHO, "x-note": ECHO}
        self._server = Answers(httpx.Response(status, headers=headers, stream=Body(chunks)))
        self._recording = Path(tempfile.mkdtemp(dir=folder)) / "recording.jsonl"
        self._caplog, self._events = caplog, []
        # The recorder finds secrets in named fields. A password beside a bearer token is not sent.
        recorder = Recorder(self._recording, self._server, secrets=[NAMELESS, PASSWORD, BASIC])
        self.gateway = Gateway(
            model,
            api_key=KEY,
            base_url=URL,
            transport=recorder,
            on_event=self._events.append,
            max_retries=1,
        )

    def texts(self):
        """Return the texts of the recording, the repr of the gateway, its events, and all logs."""
        for request in self._server.requests:
            assert len(leaks(str(request.url), str(request.headers.raw))) >= 3  # they are sent
        logs = [f"{each.getMessage()} {each.__dict__!r}" for each in self._caplog.records]
        return [self._recording.read_text(), repr(self.gateway), *map(repr, self._events), *logs]


@pytest.fixture(autouse=True)
def all_logs(caplog):
    """Capture logs of all levels."""
    caplog.set_level(logging.DEBUG)


async def failed_request(gateway, method):
    """Return the error that a request raises, and all events of a stream."""
    events = []
    try:
        if method == "chat":
            await gateway.chat(QUESTION)
        else:
            async for each in gateway.stream(QUESTION):
                events.append(each)
    except GatewayError as error:
        return error, events
    raise AssertionError("no error")


def texts_of(error):
    """Return all texts that an error shows: its own, of its causes, and of earlier errors."""
    texts = ["".join(format_exception(error)), repr(error), repr(error.__dict__)]
    causes = [error, error.__cause__, error.__context__]
    texts += [f"{each!r} {each} {each.args}" for each in causes if each is not None]
    return texts + [text for earlier in error.earlier for text in texts_of(earlier)]


@for_each("model", MODELS)
@for_each("method", METHODS)
@for_each("status, body", REFUSALS.values())
async def test_a_refusal_that_repeats_every_secret_shows_none_of_them(
    tmp_path, caplog, model, method, status, body
):
    observed = Observed(model, status, [body], tmp_path, caplog)
    error, events = await failed_request(observed.gateway, method)
    assert leaks(*texts_of(error), *map(repr, events), *observed.texts()) == []


@for_each("model", MODELS)
@for_each("rest", AFTER_THE_START.values())
async def test_a_stream_that_fails_in_the_middle_shows_no_secret(tmp_path, caplog, model, rest):
    chunks = [b"".join(map(event, STARTS[model])), *rest]
    observed = Observed(model, 200, chunks, tmp_path, caplog)
    error, events = await failed_request(observed.gateway, "stream")
    assert [each.name for each in events][-2:] == ["error", "end"]
    assert leaks(*texts_of(error), *map(repr, events), *observed.texts()) == []


@for_each("model", MODELS)
@for_each("method", METHODS)
async def test_the_names_in_a_reply_show_no_secret(tmp_path, caplog, model, method):
    body = json.dumps(WHOLE[model]).encode()
    observed = Observed(model, 200, [body], tmp_path, caplog)
    reply = await ask(observed.gateway, method)
    assert reply.content == "yes"
    assert leaks(repr(reply), *observed.texts()) == []


@for_each("model", MODELS)
async def test_the_last_error_hides_the_secrets_of_every_requested_model(model):
    events = []
    gateway = Gateway(
        model,
        api_key=KEY,
        base_url=URL,
        transport=Answers(httpx.Response(500, json=failure(f"I saw {ECHO}"))),
        fallback_models=[model + "-2", "ollama:m"],
        max_retries=0,
        on_event=events.append,
    )
    for method in METHODS:
        error, _ = await failed_request(gateway, method)
        own = "".join(texts_of(error.earlier[0])) + "".join(texts_of(error.earlier[1]))
        assert leaks(own, *map(repr, events)) == []
        assert len(error.earlier) == 2


async def test_a_key_in_the_text_of_a_model_is_kept():
    server = Answers([event(chunk("stop", content=KEY))])
    stream = Gateway("openai:m", api_key=KEY, transport=server).stream(QUESTION)
    raw = await stream.emitted("stream_event")
    assert (await stream.final_message()).content == KEY
    assert KEY not in repr(raw)  # raw events are written to logs, so secrets are hidden in them


async def test_an_escaped_secret_is_found_in_a_raw_event():
    key = "sk/with/slashes"
    sent = (
        b'data: {"error": {"message": "I saw sk\\/with\\/slashes"}, '
        b'"list": ["\\u0073k/with/slashes"]}\n\n'
    )
    gateway = Gateway("openai:m", api_key=key, transport=Answers([sent]), max_retries=0)
    error, events = await failed_request(gateway, "stream")
    assert [each.name for each in events] == ["error", "end"]
    assert key not in str(error)
    server = Answers([event(*STARTS["openai:m"]) + sent])
    error, events = await failed_request(
        Gateway("openai:m", api_key=key, transport=server), "stream"
    )
    assert "stream_event" in [each.name for each in events]
    assert key not in "".join(map(repr, events)) + str(error)


INVALID_RESPONSES = {
    "a status line": f"HTTP/1.1 {ECHO}\r\n\r\n",
    "an illegal header": f"HTTP/1.1 200 OK\r\n{ECHO}\r\n\r\n",
    "a reason": f"HTTP/1.1 401 {ECHO}\r\nContent-Length: 0\r\n\r\n",
    "a wrong length": f"HTTP/1.1 200 OK\r\nContent-Length: {ECHO}\r\n\r\n",
    "a broken chunk": f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{ECHO}\r\n",
}


async def texts_of_request(method, response, transport):
    """Return all texts that a request shows to a server with this response."""
    events = []
    async with running(Server(response.encode(), then="closes")) as base_url:
        host = base_url.removeprefix("http://").removesuffix("/v1")
        url = URL.replace("https", "http").replace("api.test", host)
        options = {"max_retries": 0, "on_event": events.append, "transport": transport}
        async with Gateway("openai:m", api_key=KEY, base_url=url, **options) as gateway:
            error, of_stream = await failed_request(gateway, method)
    return [*texts_of(error), *map(repr, [*events, *of_stream])]


@for_each("method", METHODS)
@for_each("response", INVALID_RESPONSES.values())
async def test_an_invalid_http_response_shows_no_secret(caplog, network, method, response):
    caplog.clear()
    texts = await texts_of_request(method, response, network())
    assert leaks(*texts, *(line.getMessage() for line in caplog.records)) == []


@each_method
async def test_the_logs_of_all_libraries_hold_no_secret(caplog, network, method):
    caplog.clear()
    await texts_of_request(method, "HTTP/1.1 401 no\r\nContent-Length: 0\r\n\r\n", network())
    if network is Pool:
        assert "httpcore" in {line.name.partition(".")[0] for line in caplog.records}
    assert leaks(*(f"{line.getMessage()} {line.__dict__!r}" for line in caplog.records)) == []
