import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from stage0_gateway.errors import GatewayError
from stage0_gateway.gateway import Gateway
from stage0_gateway.http.endpoint import resolve
from stage0_gateway.messages import Message
from stage0_gateway.offline.faults import FAULTS
from stage0_gateway.offline.local_server import BODY_LIMIT, make_server
from stage0_gateway.offline.model import OfflineModel
from stage0_gateway.offline.service import answer_http
from stage0_gateway.request import ChatRequest
from stage0_gateway.server import anthropic, openai
from stage0_gateway.server.format import ServerFormat
from tests.stage0_gateway.offline.questions import MODELS, TEA
from tests.stage0_gateway.requests import METHODS, ask
from tests.tables import for_each

LENGTH = f"Send the body with a Content-Length of at most {BODY_LIMIT} bytes."


@contextmanager
def running(faults: Iterable[str | None] = ()) -> Iterator[int]:
    with make_server(faults=faults) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield int(server.server_address[1])
        server.shutdown()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running() as port:
        yield port


@pytest.fixture
def connection(port: int) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    yield connection
    connection.close()


def exchange(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None
) -> tuple[int, bytes]:
    connection.request(method, path, body)
    reply = connection.getresponse()
    return reply.status, reply.read()


def asking(model: str, *, stream: bool) -> tuple[str, bytes]:
    """Return the path and the body of a request in the format of this model."""
    target = resolve(model, "key", "http://model/v1")
    request = ChatRequest(target.model, (Message.user("Tell me about tea \ud83d, 两位."),))
    url = target.stream_url if stream else target.url
    return url.removeprefix("http://model"), json.dumps(
        target.wire.encode(request, stream=stream)
    ).encode()


ASKED = [asking(model, stream=stream) for model in MODELS for stream in (False, True)]


@for_each(
    "method, path, body",
    [
        *(("POST", path, body) for path, body in ASKED),
        ("POST", "/v1/chat/completions", b"{"),
        ("POST", "/v1/messages", b"{"),
        ("POST", "/v1/embeddings?of=two%20words", b"{}"),
        ("GET", "/v1/models", None),
    ],
)
async def test_the_port_and_the_transport_send_the_same_bytes(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
) -> None:
    over_the_port = exchange(connection, method, path, body)
    async with httpx.AsyncClient(transport=OfflineModel()) as client:
        reply = await client.request(method, f"http://offline{path}", content=body)
    assert over_the_port == (reply.status_code, reply.content)


def test_streams_and_whole_replies_alternate_on_one_connection(
    connection: http.client.HTTPConnection,
) -> None:
    connection.connect()
    first = connection.sock
    for path, body in ASKED:
        connection.request("POST", path, body)
        reply = connection.getresponse()
        streamed = reply.getheader("Content-Type") == "text/event-stream"
        assert reply.getheader("Transfer-Encoding") == ("chunked" if streamed else None)
        assert (reply.getheader("Content-Length") is None) is streamed
        assert reply.read()
    assert connection.sock is first


def test_each_event_of_a_stream_is_sent_in_its_own_chunk(port: int) -> None:
    path, body = asking("anthropic:teacher", stream=True)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    sent = read_all(port, head.encode() + body).partition(b"\r\n\r\n")[2]
    events = []
    while sent:
        size, _, rest = sent.partition(b"\r\n")
        events.append(rest[: int(size, 16)])
        sent = rest[int(size, 16) + 2 :]
    assert tuple(events) == (*answer_http("POST", path, body).chunks, b"")


def test_a_client_without_chunked_encoding_gets_the_plain_stream(port: int) -> None:
    path, body = asking("openai:teacher", stream=True)
    head = f"POST {path} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    _, _, sent = read_all(port, head.encode() + body).partition(b"\r\n\r\n")
    assert sent == answer_http("POST", path, body).body


def read_all(port: int, request: bytes) -> bytes:
    """Return all bytes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@for_each("method", METHODS)
@for_each("model", MODELS)
async def test_faults_are_equal_over_the_port_and_inside_the_process(
    model: str, method: str
) -> None:
    faults = [name for name, fault in FAULTS.items() if fault.in_answer] + ["fenced", None]
    seen = []
    with running(faults) as port:
        for transport in (OfflineModel(faults), None):
            url = f"http://127.0.0.1:{port}/v1" if transport is None else "http://127.0.0.1/v1"
            gateway = Gateway(model, base_url=url, api_key="k", transport=transport, max_retries=0)
            async with gateway:
                seen.append([await outcome(gateway, method) for _ in faults])
    inside, outside = seen
    assert inside == [text.replace(f":{port}", "") for text in outside]
    assert len(set(inside)) >= len(faults) - 2


async def outcome(gateway: Gateway, method: str) -> str:
    try:
        return repr(await ask(gateway, method, [TEA]))
    except GatewayError as error:
        return (
            f"{type(error).__name__}: {error} {error.status} {error.retryable} {error.retry_after}"
        )


def test_the_server_still_answers_after_clients_that_hung_up(port: int) -> None:
    path, body = asking("openai:teacher", stream=True)
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
    assert read_all(port, b"GET /v1/models HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def failed_with(error: Exception) -> None:
    """Let the server handle the failure of an exchange."""
    with make_server() as server, socket.socket() as connection:
        try:
            raise error
        except Exception:
            server.handle_error(connection, ("1.2.3.4", 5))


def test_a_client_that_hangs_up_is_ignored_and_other_failures_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed_with(BrokenPipeError())
    assert capsys.readouterr().err == ""
    failed_with(ValueError("a mistake of ours"))
    assert "ValueError: a mistake of ours" in capsys.readouterr().err


@for_each(
    "path, form",
    [("/v1/messages", anthropic), ("/v1/chat/completions", openai), ("/v1/anything", openai)],
)
def test_an_error_has_the_format_of_its_path(port: int, path: str, form: ServerFormat) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"
    assert json.loads(read_all(port, head.encode()).partition(b"\r\n\r\n")[2]) == form.encode_error(
        400, LENGTH
    )


@for_each(
    "path, remedy",
    [
        (
            "/v1/chat/completions/chat/completions?a=b",
            "Unknown path /v1/chat/completions/chat/completions. The client adds /chat/completions "
            "to its base URL, so the base URL must end before it.",
        ),
        (
            "/v1/messages/v1/messages",
            "Unknown path /v1/messages/v1/messages. The client adds /messages to its base URL, so "
            "the base URL must end before it.",
        ),
        (
            "/responses",
            "Unknown path /responses. The client adds /responses to its base URL, so the base URL "
            "must end in /v1.",
        ),
    ],
)
def test_a_path_from_a_wrong_base_url_is_a_404_with_the_remedy(
    connection: http.client.HTTPConnection, path: str, remedy: str
) -> None:
    status, body = exchange(connection, "POST", path, b"{}")
    assert (status, json.loads(body)["error"]["message"]) == (404, remedy)


def test_an_unknown_method_is_rejected_with_a_json_body(port: int) -> None:
    sent = read_all(port, b"PUT /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
    assert sent.startswith(b"HTTP/1.1 501 ")
    assert "PUT" in json.loads(sent.partition(b"\r\n\r\n")[2])["error"]["message"]


def raw(port: int, head: str) -> tuple[int, str]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(head.encode())
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        return reply.status, json.loads(reply.read())["error"]["message"]


@for_each(
    "header",
    [
        "Transfer-Encoding: chunked",
        "Content-Length: -1",
        f"Content-Length: {BODY_LIMIT + 1}",
        f"Content-Length: {'9' * 5000}",
    ],
)
def test_a_body_of_unknown_or_excessive_length_is_rejected(port: int, header: str) -> None:
    assert raw(port, f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n") == (
        400,
        LENGTH,
    )


def test_a_port_in_use_raises_os_error(port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        make_server(port=port)
