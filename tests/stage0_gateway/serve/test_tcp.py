import http.client
import json
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

from stage0_gateway.offline import OfflineModel
from stage0_gateway.serve.tcp import BODY_LIMIT, make_server

REQUEST = json.dumps({"model": "teacher", "messages": [{"role": "user", "content": "Hello"}]}).encode()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with make_server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield int(server.server_address[1])
        server.shutdown()


@pytest.fixture
def line(port: int) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    yield connection
    connection.close()


def exchange(
    line: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None
) -> tuple[int, bytes]:
    line.request(method, path, body)
    reply = line.getresponse()
    return reply.status, reply.read()


def test_several_requests_go_over_one_connection(line: http.client.HTTPConnection) -> None:
    line.connect()
    first = line.sock
    assert [exchange(line, "POST", "/v1/chat/completions", REQUEST)[0] for _ in range(3)] == [200, 200, 200]
    assert line.sock is first


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/chat/completions", REQUEST),
        ("POST", "/v1/chat/completions", b"{"),
        ("POST", "/v1/chat/completions", REQUEST[:-1] + b', "stream": true}'),
        ("POST", "/v1/embeddings", b"{}"),
        ("GET", "/v1/models", None),
        ("PUT", "/v1/models", b"{}"),
        ("DELETE", "/v1/models", None),
    ],
)
async def test_the_port_and_the_transport_give_the_same_bytes(
    line: http.client.HTTPConnection, method: str, path: str, body: bytes | None
) -> None:
    over_the_port = exchange(line, method, path, body)
    async with httpx.AsyncClient(transport=OfflineModel()) as client:
        reply = await client.request(method, f"http://offline{path}", content=body)
    assert over_the_port == (reply.status_code, reply.content)


def raw(port: int, head: str) -> tuple[int, str]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(head.encode())
        reply = http.client.HTTPResponse(line)
        reply.begin()
        return reply.status, json.loads(reply.read())["error"]["message"]


@pytest.mark.parametrize(
    ("header", "status", "said"),
    [
        ("", 411, "Send the body with a Content-Length header."),
        ("Transfer-Encoding: chunked\r\n", 411, "Send the body with a Content-Length header."),
        ("Content-Length: -1\r\n", 400, "The Content-Length header is not a number."),
        (f"Content-Length: {BODY_LIMIT + 1}\r\n", 413, f"The body is longer than {BODY_LIMIT} bytes."),
        (f"Content-Length: {'9' * 5000}\r\n", 413, f"The body is longer than {BODY_LIMIT} bytes."),
    ],
)
def test_a_body_whose_length_cannot_be_read_is_refused(
    port: int, header: str, status: int, said: str
) -> None:
    assert raw(port, f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{header}\r\n") == (status, said)


def test_a_port_in_use_raises_os_error(port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        make_server(port=port)
