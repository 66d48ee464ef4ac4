import asyncio
import json
import ssl
import sys
from traceback import format_exception

import httpx
import pytest

from stage0_gateway import ConfigurationError, ConnectionFailed, Gateway, RequestTimeout, Timeouts
from stage0_gateway.http.client import HttpClient
from tests.stage0_gateway.replies import completion
from tests.stage0_gateway.requests import QUESTION
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each


@for_each(
    "error, kind, message",
    [
        (
            httpx.ConnectError("refused"),
            ConnectionFailed,
            "Could not connect to host.test:80 (refused). Check the base URL",
        ),
        (
            httpx.ConnectTimeout("x"),
            RequestTimeout,
            "host.test:80 did not accept the connection in time",
        ),
        (
            httpx.ReadTimeout("x"),
            RequestTimeout,
            "host.test stopped responding before the reply was complete",
        ),
        (ssl.SSLError("bad record"), ConnectionFailed, "The connection to host.test broke"),
        (
            httpx.RemoteProtocolError("hung up"),
            ConnectionFailed,
            "The connection to host.test broke (hung up).",
        ),
        (
            httpx.InvalidURL("no label"),
            ConfigurationError,
            "The base URL cannot be used: no label.",
        ),
        (httpx.UnsupportedProtocol("odd"), ConfigurationError, "The base URL cannot be used: odd."),
    ],
)
async def test_failures_of_a_transport_become_gateway_errors_that_name_the_host(
    error, kind, message
):
    with pytest.raises(kind) as caught:
        await HttpClient(Answers(error), Timeouts()).post("http://host.test/v1", {}, b"{}")
    assert str(caught.value).startswith(message)


@for_each(
    "url, server",
    [
        ("http://host.test/v1", "host.test:80"),
        ("https://host.test/v1", "host.test:443"),
        ("https://host.test:/v1", "host.test:443"),
        ("https://host.test:8443/v1?key=sk-secret", "host.test:8443"),
        ("http://[::1]:1234/v1", "[::1]:1234"),
        ("http://[::1]/v1", "[::1]:80"),
        ("http://me:sk-secret@host.test:1234/v1", "host.test:1234"),
    ],
)
async def test_a_failed_connection_names_the_port_and_no_secret(url, server):
    client = HttpClient(Answers(httpx.ConnectError("refused")), Timeouts())
    with pytest.raises(ConnectionFailed) as caught:
        await client.post(url, {}, b"{}")
    assert str(caught.value) == (
        f"Could not connect to {server} (refused). Check the base URL, and that the server is up."
    )


async def test_the_total_timeout_applies_even_if_bytes_keep_arriving():
    never = asyncio.Event()

    async def hang(request):
        await never.wait()

    connection = HttpClient(httpx.MockTransport(hang), Timeouts(total=0.01))
    with pytest.raises(RequestTimeout, match=r"No complete reply from host\.test within 0\.01 s"):
        await connection.post("http://host.test/v1", {}, b"{}")


@pytest.fixture
def server(serve):
    """A server that answers with the requested path."""
    return serve(lambda path: (200, json.dumps(completion(path)).encode()))


@pytest.mark.parametrize("fast", [False, True], ids=["httpx", "[fast] installed"])
async def test_a_proxy_from_the_environment_is_used(server, monkeypatch, fast):
    monkeypatch.setattr("stage0_gateway.http.client.find_spec", lambda name: fast)
    monkeypatch.setenv("http_proxy", server)
    async with Gateway("openai:m", base_url="http://nowhere.test/v1") as gateway:
        reply = await gateway.chat(QUESTION)
    assert (
        reply.content == "http://nowhere.test/v1/chat/completions"
    )  # a proxy receives the absolute URL


async def test_cancelling_the_task_cancels_the_request():
    arrived, never = asyncio.Event(), asyncio.Event()
    ended = []

    async def hang(request):
        arrived.set()
        try:
            await never.wait()
        finally:
            ended.append(True)

    task = asyncio.ensure_future(
        HttpClient(httpx.MockTransport(hang), Timeouts()).post("http://h.test", {}, b"")
    )
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http_proxy", "foo:bar:baz"),
        ("SSL_CERT_FILE", "/no/such/file"),
        ("http_proxy", "socks5://x"),
    ],
)
async def test_invalid_settings_of_the_environment_raise_an_error_that_names_them(
    monkeypatch, name, value
):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match="Check HTTP_PROXY and SSL_CERT_FILE"):
        await Gateway("openai:m", base_url="http://127.0.0.1:9/v1", max_retries=0).chat(QUESTION)


def test_a_broken_installation_of_the_fast_extra_raises_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr("stage0_gateway.http.client.find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "stage0_gateway.http.fast", None)
    with pytest.raises(ConfigurationError, match=r"stage0_gateway\.http\.fast"):
        Gateway("openai:m", base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize("excluded", ["127.0.0.1", "*"])
async def test_a_host_in_no_proxy_is_requested_directly(server, monkeypatch, excluded):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", excluded)
    async with Gateway("openai:m", base_url=f"{server}/v1") as gateway:
        reply = await gateway.chat(QUESTION)
    assert reply.content == "/v1/chat/completions"


async def test_an_invalid_host_name_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="The base URL cannot be used"):
        await Gateway("openai:m", base_url="http://xn--a/v1").chat(QUESTION)


async def test_the_password_of_a_proxy_is_hidden(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://me:sk-secret:x@host:no-port")
    with pytest.raises(ConfigurationError) as caught:
        await Gateway("openai:m", base_url="http://127.0.0.1:9/v1", max_retries=0).chat(QUESTION)
    assert "sk-secret" not in "".join(format_exception(caught.value))


@for_each("timeout", [0, -1.0])
def test_a_timeout_that_is_not_positive_is_rejected(timeout):
    with pytest.raises(ConfigurationError, match="must be more than 0 s"):
        Gateway("offline:teacher", timeout=timeout)


async def test_the_time_limits_of_a_connection_and_of_silence_are_sent_to_the_transport():
    sent = []

    def answer(request):
        sent.append(request.extensions["timeout"])
        return httpx.Response(200)

    client = HttpClient(httpx.MockTransport(answer), Timeouts(connect=1, read=2))
    await client.post("http://h.test", {}, b"")
    assert sent == [{"connect": 1, "read": 2, "write": 2, "pool": None}]
