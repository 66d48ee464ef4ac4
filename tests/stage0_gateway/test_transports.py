"""The two network transports, `Pool` and `FastTransport`, behave alike with local servers, plain and
TLS."""

import asyncio
import json
import re
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from itertools import count
from queue import Queue
from threading import Barrier, Thread
from weakref import ref

import pytest

from stage0_gateway import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    Gateway,
    GatewayError,
    MalformedResponse,
    RequestTimeout,
    ScriptedModel,
    ServerFailed,
    Timeouts,
)
from stage0_gateway.http.client import HttpClient
from stage0_gateway.http.pool import Pool
from tests.stage0_gateway import servers
from tests.stage0_gateway.replies import completion
from tests.stage0_gateway.requests import METHODS, QUESTION, ask, each_method
from tests.stage0_gateway.servers import (
    CHUNKED,
    HEAD,
    Server,
    run_other_tasks,
    unused_address,
    with_length,
)
from tests.tables import for_each

HI = with_length(b"hi")
LARGE = bytes(30_000_000)
QUICK = Timeouts(5.0, 0.02, 5.0)


@asynccontextmanager
async def running(server, tls=None):
    """Yield the URL of a running server, with a key in its query."""
    async with servers.running(server, tls) as url:
        yield f"{url}?key=sk-secret"


@asynccontextmanager
async def connected(transport, timeouts=None, **options):
    """Yield a client with this transport."""
    client = HttpClient(transport, timeouts or Timeouts(5.0, 5.0, 5.0), **options)
    try:
        yield client
    finally:
        await client.aclose()


async def post(client, url, body=b"{}"):
    """Return the body of the reply."""
    response = await client.post(url, {}, body)
    try:
        return await response.read()
    finally:
        await response.aclose()


async def outcome(transport, url, timeouts=None, body=b"{}"):
    """Return the body of the reply, or the error; neither shows the query of the URL."""
    async with connected(transport, timeouts) as client:
        try:
            return await post(client, url, body)
        except GatewayError as error:
            shown = [error, error.__cause__, error.__context__]
            assert "sk-secret" not in "".join(f"{each} {each!r}" for each in shown)
            return type(error), str(error)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Create a self-signed certificate and its key: for 127.0.0.1, and for another host."""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def make(name):
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "llm-stages test")])
        builder = x509.CertificateBuilder(
            subject, subject, key.public_key(), x509.random_serial_number()
        )
        builder = builder.not_valid_before(now - timedelta(days=1))
        builder = builder.not_valid_after(now + timedelta(days=1))
        builder = builder.add_extension(x509.SubjectAlternativeName([name]), critical=False)
        encoding = serialization.Encoding.PEM
        format, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        file = tmp_path_factory.mktemp("tls") / "certificate.pem"
        certificate = builder.sign(key, hashes.SHA256()).public_bytes(encoding)
        file.write_bytes(key.private_bytes(encoding, format, encryption) + certificate)
        return file

    return {
        "here": make(x509.IPAddress(ip_address("127.0.0.1"))),
        "elsewhere": make(x509.DNSName("elsewhere.test")),
    }


@pytest.fixture
def server_tls(certificates, monkeypatch):
    """`server_tls(name, trusted)` returns the TLS context of a server with the certificate `name`.

    SSL_CERT_FILE makes the client trust the certificate `trusted`.
    """

    def make(name, trusted):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates[trusted]))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates[name])
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    return make


@pytest.fixture(params=["plain", "TLS"])
def tls(request):
    """The TLS context of a server with a valid certificate, or None."""
    if request.param == "plain":
        return None
    return request.getfixturevalue("server_tls")("here", trusted="here")


@pytest.fixture
def no_certificates(tmp_path, monkeypatch):
    """Load no certificates, which takes long, for a client whose server has none."""
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))


# ---- replies


REPLIES = {
    "with a length": (HI, None),
    "in chunks": (CHUNKED + b"1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", None),
    "ended by the connection": (HEAD + b"\r\nhi", "closes"),
    "in HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nhi", "closes"),
    "after an informational reply": (b"HTTP/1.1 100 Continue\r\n\r\n" + HI, None),
    "with long headers": (HEAD + b"a: " + b"x" * 30_000 + b"\r\ncontent-length: 2\r\n\r\nhi", None),
}


@for_each("reply, then", REPLIES.values())
async def test_a_reply_is_read(network, tls, reply, then):
    async with running(Server(reply, then=then), tls) as url:
        assert await outcome(network(), url) == b"hi"


async def test_a_reply_without_a_body_is_read(network):
    async with running(Server(b"HTTP/1.1 204 No Content\r\n\r\n")) as url:
        assert await outcome(network(), url) == b""


async def test_a_reply_long_after_an_informational_reply_is_read(network):
    class Processing(Server):
        async def reply(self, reader, writer):
            await self.request(reader)
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
            await run_other_tasks()
            writer.write(HI)

    async with running(Processing()) as url:
        assert await outcome(network(), url) == b"hi"


@pytest.mark.parametrize("numbers", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
async def test_large_bodies_arrive_unchanged_in_both_directions(network, tls, numbers):
    body = b"".join(number.to_bytes(4, "big") for number in range(numbers))

    class Echo(Server):
        async def reply(self, reader, writer):
            writer.write(with_length(await self.request(reader)))

    async with running(Echo(), tls) as url:
        assert await outcome(network(), url, body=body) == body


async def test_a_body_larger_than_all_buffers_is_sent(network):
    async with running(Server(HI)) as url:
        assert await outcome(network(), url, body=LARGE) == b"hi"


async def test_a_request_has_a_host_header_and_accepts_only_the_identity_encoding(network):
    server = Server(HI)
    async with running(server) as url:
        await outcome(network(), url.replace("/v1", "/v1/a%20b"))
        host = url.removeprefix("http://").partition("/")[0]
    first, *headers = server.heads[0].decode().lower().splitlines()
    assert first == "post /v1/a%20b?key=sk-secret http/1.1"
    assert sorted(filter(None, headers)) == [
        "accept-encoding: identity",
        "accept: */*",
        "content-length: 2",
        "content-type: application/json",
        f"host: {host}",
        "user-agent: llm-stages",
    ]


# ---- failures

BROKE = ConnectionFailed, r"The connection to 127\.0\.0\.1:\d+ broke"
STOPPED = RequestTimeout, r"127\.0\.0\.1:\d+ stopped responding before the reply was complete"
NOT_CONNECTED = RequestTimeout, r"127\.0\.0\.1:\d+ did not accept the connection in time"
REFUSED = ConnectionFailed, r"Could not connect to 127\.0\.0\.1:\d+ \("
PART = HEAD + b"content-length: 9\r\n\r\nhi"
FAILURES = {
    "nothing": (b"", "closes", BROKE),
    "half of a head": (HEAD, "closes", BROKE),
    "no HTTP": (b"garbage\r\n\r\n", "closes", BROKE),
    "an invalid length": (HEAD + b"content-length: x\r\n\r\n", "closes", BROKE),
    "headers that are too long": (HEAD + b"a: " + b"x" * 200_000, "closes", BROKE),
    "half of a body with a length": (PART, "closes", BROKE),
    "half of a chunk": (CHUNKED + b"5\r\nhi", "closes", BROKE),
    "chunks without an end": (CHUNKED + b"2\r\nhi\r\n", "closes", BROKE),
    "no chunk": (CHUNKED + b"zz\r\nhi", "closes", BROKE),
    "a reset before the reply": (b"", "resets", BROKE),
    "a reset in a body with a length": (PART, "resets", BROKE),
    "a reset in chunks": (CHUNKED + b"2\r\nhi\r\n", "resets", BROKE),
    "a reset in a body without a length": (HEAD + b"\r\nhi", "resets", BROKE),
    "no reply in time": (b"", "hangs", STOPPED),
    "no rest of the body in time": (PART, "hangs", STOPPED),
}


def is_error(found, expected):
    return found[0] is expected[0] and re.match(expected[1], found[1])


@for_each("reply, then, expected", FAILURES.values())
async def test_a_failure_of_the_server_raises_an_error_that_names_the_host(
    network, tls, reply, then, expected
):
    timeouts = QUICK if then == "hangs" else None
    async with running(Server(reply, then=then), tls) as url:
        found = await outcome(network(), url, timeouts)
    assert is_error(found, expected), found
    assert "Connection lost" not in found[1] or then == "resets"


@for_each("host", ["127.0.0.1", "localhost", "[::1]"])
async def test_a_refused_connection_raises_an_error_that_names_the_host_and_the_port(network, host):
    with unused_address(host) as server:
        kind, text = await outcome(network(), f"http://{server}/v1")
    assert kind is ConnectionFailed
    assert text.startswith(f"Could not connect to {server} (")


async def test_an_unknown_host_raises_an_error_that_names_it(network, monkeypatch):
    async def unknown(*host, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    found = await outcome(network(), "http://nowhere.test/v1")
    assert is_error(found, (ConnectionFailed, r"Could not connect to nowhere\.test:80 \(")), found


async def test_a_server_that_does_not_accept_a_connection_is_a_timeout(network, monkeypatch):
    async def never(*address):
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", never)
    found = await outcome(network(), "http://127.0.0.1:9/v1", Timeouts(0.02, 5.0, 5.0))
    assert is_error(found, NOT_CONNECTED), found


async def test_a_server_that_does_not_finish_the_tls_handshake_is_a_timeout(
    network, no_certificates
):
    async with running(Server(b"", then="hangs", reads=False)) as url:
        found = await outcome(network(), url.replace("http:", "https:"), Timeouts(0.02, 5.0, 5.0))
    assert is_error(found, NOT_CONNECTED), found


@for_each("then", ["closes", "resets"])
async def test_a_server_without_tls_is_a_failed_connection(network, no_certificates, then):
    server = Server(b"hello\r\n" if then == "closes" else b"", then=then, reads=False)
    async with running(server) as url:
        found = await outcome(network(), url.replace("http:", "https:"))
    assert is_error(found, REFUSED), found


@for_each(
    "name, reason", [("here", "self-signed certificate"), ("elsewhere", "IP address mismatch")]
)
async def test_an_untrusted_certificate_and_a_certificate_of_another_host_are_rejected(
    network, server_tls, name, reason
):
    async with running(Server(HI), server_tls(name, trusted="elsewhere")) as url:
        found = await outcome(network(), url)
    assert is_error(found, REFUSED), found
    assert reason in found[1]


async def test_damaged_tls_in_a_body_is_a_failed_connection(network, server_tls):
    class Damaged(Server):
        """Uses TLS over a plain connection, so that it can add invalid bytes."""

        async def reply(self, reader, writer):
            incoming, encode_request = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(incoming, encode_request, server_side=True)
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(encode_request.read())
                    incoming.write(await reader.read(65536))
            tls.write(PART)
            writer.write(encode_request.read() + b"\x17\x03\x03\x00\x20" + bytes(32))

    context = server_tls("here", trusted="here")
    async with running(Damaged(then="hangs")) as url:
        found = await outcome(network(), url.replace("http:", "https:"))
    assert is_error(found, BROKE), found


async def test_a_server_that_does_not_read_the_body_is_a_timeout_and_the_rest_is_not_sent(network):
    class Stalling(Server):
        async def reply(self, reader, writer):
            await self.over.wait()
            while piece := await reader.read(1_000_000):
                self.replies.append(piece)

    server = Stalling(then="closes")
    async with running(server) as url:
        found = await outcome(network(), url, QUICK, LARGE)
    assert is_error(found, STOPPED), found
    assert sum(map(len, server.replies)) < len(LARGE)


async def test_a_reply_that_is_sent_before_a_large_body_was_read_is_used(network):
    class Refusing(Server):
        async def reply(self, reader, writer):
            writer.write(
                b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 3\r\n\r\nno!"
            )
            writer.write_eof()
            while await reader.read(1_000_000):  # closing at once would discard the reply
                pass

    async with running(Refusing(then="closes")) as url, connected(network()) as client:
        exchange = await client.post(url, {}, LARGE)
        assert (exchange.status, await exchange.read()) == (413, b"no!")
        await exchange.aclose()


# ---- size and encoding


def body_of(text):
    """Return the bytes of a whole reply."""
    return json.dumps(completion(text)).encode()


async def content(method, url, transport, **options):
    """Return the text of the reply of a server."""
    options = {"transport": transport, "max_retries": 0, "base_url": url, **options}
    async with Gateway("openai:m", api_key="sk-1", **options) as gateway:
        return (await ask(gateway, method)).content


@each_method
@for_each(
    "status",
    [
        # reply
        b"200 OK",
        # error
        b"500 Internal Server Error",
    ],
)
async def test_a_reply_above_the_size_limit_is_malformed_and_ends_the_connection(
    network, method, status
):
    server = Server(b"HTTP/1.1 " + status + b"\r\n\r\n" + b" " * 300_000, then="hangs")
    text = r"more than 200,000 bytes.*max_reply_bytes"
    async with running(server) as url:
        with pytest.raises(MalformedResponse, match=text) as caught:
            await content(method, url, network(), max_reply_bytes=200_000)
        server.over.set()
        await server.closed.wait()
    assert not caught.value.retryable


@each_method
async def test_a_reply_of_exactly_the_size_limit_is_read(network, method):
    body = body_of("yes")
    async with running(Server(with_length(body))) as url:
        assert await content(method, url, network(), max_reply_bytes=len(body)) == "yes"
        with pytest.raises(MalformedResponse, match=f"more than {len(body) - 1} bytes"):
            await content(method, url, network(), max_reply_bytes=len(body) - 1)


@for_each("method", METHODS)
@for_each("encoding", ["gzip", "br", "gzip, deflate"])
async def test_a_reply_with_an_encoding_that_was_not_requested_is_malformed(
    network, method, encoding
):
    reply = HEAD + b"content-encoding: %b\r\ncontent-length: 2\r\n\r\n\x1f\x8b" % encoding.encode()
    text = f"content encoding '{encoding}', which was not requested"
    async with running(Server(reply)) as url:
        with pytest.raises(MalformedResponse, match=text):
            await content(method, url, network())


@each_method
async def test_the_status_of_an_error_decides_even_if_its_body_is_encoded(network, method):
    head = b"HTTP/1.1 %b\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b"
    for status, kind in ((b"401 No", AuthenticationFailed), (b"503 No", ServerFailed)):
        async with running(Server(head % status)) as url:
            with pytest.raises(kind, match="content encoding 'gzip', which was not requested"):
                await content(method, url, network())


async def test_the_content_encoding_identity_is_accepted(network):
    reply = HEAD + b"content-encoding: Identity\r\ncontent-length: 2\r\n\r\nhi"
    async with running(Server(reply)) as url:
        assert await outcome(network(), url) == b"hi"


# ---- reuse of connections


async def test_a_connection_is_reused(network, tls):
    server = Server(HI)
    async with running(server, tls) as url, connected(network()) as client:
        assert [await post(client, url) for _ in range(3)] == [b"hi"] * 3
    assert server.accepted == 1


async def test_a_connection_that_the_server_closed_is_replaced(network, tls):
    server = Server(HI, then="closes")
    async with running(server, tls) as url, connected(network()) as client:
        for _ in range(3):
            assert await post(client, url) == b"hi"
            await server.closed.wait()
            server.closed.clear()
            await run_other_tasks()
    assert server.accepted == 3


async def test_a_connection_that_was_idle_too_long_is_replaced(network, monkeypatch):
    monkeypatch.setattr("stage0_gateway.http.pool.KEEP_ALIVE", 0.0)
    monkeypatch.setattr("stage0_gateway.http.fast.KEEP_ALIVE", 0.0)
    server = Server(HI)
    async with running(server) as url, connected(network()) as client:
        assert [await post(client, url) for _ in range(2)] == [b"hi"] * 2
    assert server.accepted == 2


async def test_connections_that_were_idle_too_long_are_closed_by_the_next_request(monkeypatch):
    server = Server(HI)
    async with running(server) as url, connected(Pool()) as client:
        await asyncio.gather(*(post(client, url) for _ in range(2)))
        assert len(server.connections) == 2
        monkeypatch.setattr("stage0_gateway.http.pool.KEEP_ALIVE", 0.0)
        await post(client, url)
        await server.closed.wait()
        assert len(server.connections) == 1


async def test_a_reply_that_is_closed_before_its_end_closes_the_connection(network):
    server = Server(PART, HI)
    async with running(server) as url, connected(network()) as client:
        exchange = await client.post(url, {}, b"{}")
        await exchange.aclose()
        await server.closed.wait()
        assert await post(client, url) == b"hi"
    assert server.accepted == 2


async def test_cookies_are_not_sent_back(network):
    server = Server(HEAD + b"set-cookie: session=1\r\ncontent-length: 2\r\n\r\nhi")
    async with running(server) as url, connected(network()) as client:
        url = url.replace("127.0.0.1", "localhost")  # aiohttp takes no cookies from an IP address
        await post(client, url)
        await post(client, url)
    assert b"cookie" not in server.heads[1].lower()


async def test_more_than_a_hundred_requests_run_at_once(network):
    all_arrived = asyncio.Event()

    class Waiting(Server):
        async def request(self, reader):
            await super().request(reader)
            if len(self.heads) == 110:
                all_arrived.set()
            await all_arrived.wait()

    server = Waiting(HI)
    async with running(server) as url, connected(network()) as client:
        for number in (110, 20):
            replies = await asyncio.gather(*(post(client, url) for _ in range(number)))
            assert replies == [b"hi"] * number
    assert server.accepted == 110


class KeepAlive(BaseHTTPRequestHandler):
    """Keeps connections open, and reports in `closed` when the client closes one."""

    protocol_version = "HTTP/1.1"
    closed: Queue

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = body_of("hi")
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def finish(self):
        super().finish()
        self.closed.put(self.client_address)

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("closes", [False, True], ids=["left open", "closed"])
def test_a_gateway_works_in_several_event_loops_and_each_of_them_closes_its_connections(
    network, monkeypatch, closes
):
    monkeypatch.setattr("stage0_gateway.http.client.find_spec", lambda name: network is not Pool)
    handler = type("Handler", (KeepAlive,), {"closed": Queue()})
    together = Barrier(2)

    async def contents():
        async with gateway if closes else nullcontext():
            replies = [(await gateway.chat(QUESTION)).content for _ in range(2)]
            together.wait()  # so both loops have open connections
        async with gateway if closes else nullcontext():
            return [*replies, (await gateway.chat(QUESTION)).content]

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, ThreadPoolExecutor(2) as threads:
        server.block_on_close = False
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        gateway = Gateway("openai:m", base_url=f"http://127.0.0.1:{server.server_port}/v1")
        try:
            for _ in range(2):
                assert [*threads.map(asyncio.run, (contents(), contents()))] == [["hi"] * 3] * 2
                closed = {handler.closed.get() for _ in range(4 if closes else 2)}
                assert len(closed) == (4 if closes else 2)
            assert handler.closed.empty()
        finally:
            server.shutdown()


def test_a_gateway_stays_open_until_every_event_loop_that_entered_it_has_left_it():
    gateway = Gateway("offline:teacher")
    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(gateway.__aenter__())
        second.run(gateway.__aenter__())
        second.run(gateway.aclose())
        assert first.run(gateway.chat(QUESTION)).content
        first.run(gateway.aclose())
        for runner in (first, second):
            with pytest.raises(ConfigurationError, match="This gateway was closed"):
                runner.run(gateway.chat(QUESTION))


def test_a_gateway_drops_an_event_loop_that_was_closed_without_its_generators(collect):
    gateway = Gateway("openai:m", transport=ScriptedModel(["One.", "Two."]))
    first, second = (asyncio.new_event_loop() for _ in range(2))
    first.run_until_complete(gateway.chat(QUESTION))
    first.close()
    loop = ref(first)
    del first
    second.run_until_complete(gateway.chat(QUESTION))
    second.close()
    collect()
    assert loop() is None


# A TLS record holds 16 KiB. Data after such a reply in the same packet is a record of its own.
ANSWER = with_length(b"x" * (16384 - len(with_length(b"x" * 10_000)) + 10_000))
INJECTED = with_length(b"injected")


class WithSurplus(Server):
    """Sends extra bytes after the first reply."""

    def __init__(self, surplus, *, answered=None):
        super().__init__(ANSWER)
        self.surplus, self.answered, self.sent = surplus, answered, asyncio.Event()

    async def reply(self, reader, writer):
        await self.request(reader)
        if len(self.heads) > 1:
            writer.write(ANSWER)
        elif self.answered is None:
            writer.write(ANSWER + self.surplus)
        else:
            writer.write(ANSWER)
            await self.answered.wait()
            writer.write(self.surplus)
            await writer.drain()
            self.sent.set()


each_surplus = for_each(
    "surplus", [INJECTED, INJECTED[:20], b"\r\n", b"HTTP/1.1 408 No\r\ncontent-length: 0\r\n\r\n"]
)


@each_surplus
async def test_surplus_bytes_in_the_same_packet_are_not_read_as_the_next_reply(
    network, tls, surplus
):
    server = WithSurplus(surplus)
    async with running(server, tls) as url, connected(network()) as client:
        for _ in range(3):
            assert await post(client, url) == ANSWER.partition(b"\r\n\r\n")[2]


@each_surplus
async def test_surplus_bytes_on_an_idle_connection_are_not_read_as_the_next_reply(
    network, tls, surplus
):
    server = WithSurplus(surplus, answered=asyncio.Event())
    async with running(server, tls) as url, connected(network()) as client:
        for _ in range(3):
            assert await post(client, url) == ANSWER.partition(b"\r\n\r\n")[2]
            server.answered.set()
            await server.sent.wait()
            await run_other_tasks()
    assert server.accepted == 2


async def test_a_connection_whose_surplus_cannot_be_detected_is_not_reused(monkeypatch):
    monkeypatch.delattr("httpcore.AsyncConnectionPool.connections")
    server = Server(HI)
    async with running(server) as url, connected(Pool()) as client:
        assert [await post(client, url) for _ in range(2)] == [b"hi"] * 2
    assert server.accepted == 2


# ---- cancellation


async def test_cancelling_a_request_at_any_point_closes_its_connection(network, tls, collect):
    server = Server(HI)
    async with running(server, tls) as url, connected(network()) as client:
        for steps in count():
            task = asyncio.create_task(post(client, url, bytes(500_000)))
            for _ in range(steps):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await task == b"hi"
    collect()  # reports unclosed sockets
    assert steps > 10


@for_each(
    "reply",
    [
        # before the reply
        b"",
        # in the body
        PART,
    ],
)
async def test_cancelling_a_waiting_request_closes_the_connection(network, reply):
    server = Server(reply)
    async with running(server) as url, connected(network()) as client:
        task = asyncio.create_task(post(client, url))
        await server.replied.wait()
        await run_other_tasks()
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.closed.wait()
