"""The two network transports, `Pool` and `FastTransport`, behave alike with local servers, plain and
TLS."""

import asyncio
import json
import re
import socket
import ssl
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext, suppress
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
    Message,
    RequestTimeout,
    ScriptedModel,
    ServerFailed,
    Timeouts,
)
from stage0_gateway.http.client import HttpClient
from stage0_gateway.http.pool import Pool

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
LARGE = bytes(30_000_000)
QUICK = Timeouts(5.0, 0.05, 5.0)


def ok(body=b"hi"):
    return HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body)


async def client_reads():
    """Let the client read what was sent. It runs in the same event loop, so it needs no time."""
    for _ in range(20):
        await asyncio.sleep(0)


class Server:
    """Sends one of its replies for each request, and the last of them repeatedly.

    Args:
        replies: Bytes to write.
        then: Action after the last reply of a connection: None waits for the next request; the
            others are "closes", "resets", "hangs".
        reads: Whether requests are read.

    Attributes:
        accepted: The number of connections that were opened.
        heads: The heads of the requests.
        connections: The open connections.
        replied: Set whenever a request was read and a reply was written.
        closed: Set whenever a connection is closed.
    """

    def __init__(self, *replies, then=None, reads=True):
        self.replies, self.then, self.reads = list(replies), then, reads
        self.accepted, self.heads, self.connections = 0, [], set()
        self.replied, self.closed, self.over = (asyncio.Event() for _ in range(3))

    async def serve(self, reader, writer):
        self.accepted += 1
        self.connections.add(task := asyncio.current_task())
        try:
            while True:
                await self.reply(reader, writer)
                if self.then is not None:
                    break
            if self.then == "hangs":
                await self.over.wait()
            if self.then == "resets":
                await client_reads()  # a reset that arrives with the data may overtake it
                reset = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, reset
                )
                writer.transport.abort()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self.connections.discard(task)
            self.closed.set()

    async def reply(self, reader, writer):
        if self.reads:
            await self.request(reader)
        writer.write(self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])
        await writer.drain()
        self.replied.set()

    async def request(self, reader):
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
        return await reader.readexactly(int(length))


@asynccontextmanager
async def running(server, tls=None):
    """Yield the URL of a running server."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls, backlog=200)
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1?key=sk-secret"
    finally:
        listening.close()
        server.over.set()
        await asyncio.gather(*server.connections)


@asynccontextmanager
async def connected(transport, timeouts=None, **options):
    connection = HttpClient(transport, timeouts or Timeouts(5.0, 5.0, 5.0), **options)
    try:
        yield connection
    finally:
        await connection.aclose()


async def posted(connection, url, body=b"{}"):
    """Return the body of the reply."""
    exchange = await connection.post(url, {}, body)
    try:
        return await exchange.read()
    finally:
        await exchange.aclose()


async def outcome(transport, url, timeouts=None, body=b"{}"):
    """Return the body of the reply, or the error; neither shows the query of the URL."""
    async with connected(transport, timeouts) as connection:
        try:
            return await posted(connection, url, body)
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
        made = x509.CertificateBuilder(
            subject, subject, key.public_key(), x509.random_serial_number()
        )
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(
            now + timedelta(days=1)
        )
        made = made.add_extension(x509.SubjectAlternativeName([name]), critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file = tmp_path_factory.mktemp("tls") / "certificate.pem"
        file.write_bytes(
            private + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        return file

    return {
        "here": make(x509.IPAddress(ip_address("127.0.0.1"))),
        "elsewhere": make(x509.DNSName("elsewhere.test")),
    }


@pytest.fixture
def server_tls(certificates, monkeypatch):
    """`server_tls()` returns the server's TLS context; SSL_CERT_FILE makes the client trust it."""

    def make(name="here", *, trusted=True):
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(certificates[name]))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates[name])
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    return make


@pytest.fixture(params=["plain", "TLS"])
def encryption(request):
    """`encryption()` returns None, or the same as `server_tls()`."""
    return (lambda: None) if request.param == "plain" else request.getfixturevalue("server_tls")


# ---- replies
# ---------------------------------------------------------------------------------------------


REPLIES = {
    "with a length": (ok(), None),
    "in chunks": (CHUNKED + b"1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", None),
    "ended by the connection": (HEAD + b"\r\nhi", "closes"),
    "in HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nhi", "closes"),
    "after an informational reply": (b"HTTP/1.1 100 Continue\r\n\r\n" + ok(), None),
    "with long headers": (HEAD + b"a: " + b"x" * 30_000 + b"\r\ncontent-length: 2\r\n\r\nhi", None),
}


@pytest.mark.parametrize(("reply", "then"), REPLIES.values(), ids=REPLIES)
async def test_a_reply_is_read(network, encryption, reply, then):
    async with running(Server(reply, then=then), encryption()) as url:
        assert await outcome(network(), url) == b"hi"


async def test_a_reply_without_a_body_is_read(network):
    async with running(Server(b"HTTP/1.1 204 No Content\r\n\r\n")) as url:
        assert await outcome(network(), url) == b""


async def test_a_reply_long_after_an_informational_reply_is_read(network):
    class Processing(Server):
        async def reply(self, reader, writer):
            await self.request(reader)
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
            await client_reads()
            writer.write(ok())

    async with running(Processing()) as url:
        assert await outcome(network(), url) == b"hi"


async def test_large_bodies_arrive_unchanged_in_both_directions(network, encryption):
    body = b"".join(number.to_bytes(4, "big") for number in range(1_000_000))

    class Echo(Server):
        async def reply(self, reader, writer):
            writer.write(ok(await self.request(reader)))

    async with running(Echo(), encryption()) as url:
        assert await outcome(network(), url, body=body) == body


async def test_a_request_has_a_host_header_and_accepts_only_the_identity_encoding(network):
    server = Server(ok())
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
# --------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize(("reply", "then", "expected"), FAILURES.values(), ids=FAILURES)
async def test_a_failure_of_the_server_raises_an_error_that_names_the_host(
    network, encryption, reply, then, expected
):
    timeouts = QUICK if then == "hangs" else None
    async with running(Server(reply, then=then), encryption()) as url:
        found = await outcome(network(), url, timeouts)
    assert is_error(found, expected), found
    assert "Connection lost" not in found[1] or then == "resets"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
async def test_a_refused_connection_raises_an_error_that_names_the_host_and_the_port(network, host):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server = f"{host}:{unused.getsockname()[1]}"
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
    found = await outcome(network(), "http://127.0.0.1:9/v1", Timeouts(0.05, 5.0, 5.0))
    assert is_error(found, NOT_CONNECTED), found


async def test_a_server_that_does_not_finish_the_tls_handshake_is_a_timeout(network):
    async with running(Server(b"", then="hangs", reads=False)) as url:
        found = await outcome(network(), url.replace("http:", "https:"), Timeouts(0.05, 5.0, 5.0))
    assert is_error(found, NOT_CONNECTED), found


@pytest.mark.parametrize("then", ["closes", "resets"])
async def test_a_server_without_tls_is_a_failed_connection(network, then):
    async with running(
        Server(b"hello\r\n" if then == "closes" else b"", then=then, reads=False)
    ) as url:
        found = await outcome(network(), url.replace("http:", "https:"))
    assert is_error(found, REFUSED), found


@pytest.mark.parametrize(
    ("name", "trusted", "reason"),
    [("here", False, "self-signed certificate"), ("elsewhere", True, "IP address mismatch")],
)
async def test_an_untrusted_certificate_and_a_certificate_of_another_host_are_rejected(
    network, server_tls, name, trusted, reason
):
    async with running(Server(ok()), server_tls(name, trusted=trusted)) as url:
        found = await outcome(network(), url)
    assert is_error(found, REFUSED), found
    assert reason in found[1]


async def test_damaged_tls_in_a_body_is_a_failed_connection(network, certificates, server_tls):
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

    context = server_tls()
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

    async with running(Refusing(then="closes")) as url, connected(network()) as connection:
        exchange = await connection.post(url, {}, LARGE)
        assert (exchange.status, await exchange.read()) == (413, b"no!")
        await exchange.aclose()


# ---- size and encoding
# -----------------------------------------------------------------------------------

ASK = [Message.user("hi")]
BOTH = pytest.mark.parametrize("ask", ["chat", "stream"])


def reply_of(text):
    return json.dumps(
        {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    ).encode()


async def asked(ask, url, transport, **options):
    options = {"transport": transport, "max_retries": 0, "base_url": url, **options}
    async with Gateway("openai:m", api_key="sk-1", **options) as gateway:
        reply = gateway.chat(ASK) if ask == "chat" else gateway.stream(ASK).final_message()
        return (await reply).content


@BOTH
@pytest.mark.parametrize(
    "status", [b"200 OK", b"500 Internal Server Error"], ids=["reply", "error"]
)
async def test_a_reply_above_the_size_limit_is_malformed_and_ends_the_connection(
    network, ask, status
):
    server = Server(b"HTTP/1.1 " + status + b"\r\n\r\n" + b" " * 300_000, then="hangs")
    async with running(server) as url:
        with pytest.raises(
            MalformedResponse, match=r"more than 200,000 bytes.*max_reply_bytes"
        ) as caught:
            await asked(ask, url, network(), max_reply_bytes=200_000)
        server.over.set()
        await server.closed.wait()
    assert not caught.value.retryable


@BOTH
async def test_a_reply_of_exactly_the_size_limit_is_read(network, ask):
    body = reply_of("yes")
    async with running(Server(ok(body))) as url:
        assert await asked(ask, url, network(), max_reply_bytes=len(body)) == "yes"
        with pytest.raises(MalformedResponse, match=f"more than {len(body) - 1} bytes"):
            await asked(ask, url, network(), max_reply_bytes=len(body) - 1)


@BOTH
@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, deflate"])
async def test_a_reply_with_an_encoding_that_was_not_requested_is_malformed(network, ask, encoding):
    reply = HEAD + b"content-encoding: %b\r\ncontent-length: 2\r\n\r\n\x1f\x8b" % encoding.encode()
    async with running(Server(reply)) as url:
        with pytest.raises(
            MalformedResponse, match=f"content encoding '{encoding}', which was not requested"
        ):
            await asked(ask, url, network())


@BOTH
async def test_the_status_of_an_error_decides_even_if_its_body_is_encoded(network, ask):
    head = b"HTTP/1.1 %b\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b"
    for status, kind in ((b"401 No", AuthenticationFailed), (b"503 No", ServerFailed)):
        async with running(Server(head % status)) as url:
            with pytest.raises(kind, match="content encoding 'gzip', which was not requested"):
                await asked(ask, url, network())


async def test_the_content_encoding_identity_is_accepted(network):
    reply = HEAD + b"content-encoding: Identity\r\ncontent-length: 2\r\n\r\nhi"
    async with running(Server(reply)) as url:
        assert await outcome(network(), url) == b"hi"


# ---- reuse of connections
# ---------------------------------------------------------------------


async def test_a_connection_is_reused(network, encryption):
    server = Server(ok())
    async with running(server, encryption()) as url, connected(network()) as connection:
        assert [await posted(connection, url) for _ in range(3)] == [b"hi"] * 3
    assert server.accepted == 1


async def test_a_connection_that_the_server_closed_is_replaced(network, encryption):
    server = Server(ok(), then="closes")
    async with running(server, encryption()) as url, connected(network()) as connection:
        for _ in range(3):
            assert await posted(connection, url) == b"hi"
            await server.closed.wait()
            server.closed.clear()
            await client_reads()
    assert server.accepted == 3


async def test_a_connection_that_was_idle_too_long_is_replaced(network, monkeypatch):
    monkeypatch.setattr("stage0_gateway.http.pool.KEEP_ALIVE", 0.0)
    monkeypatch.setattr("stage0_gateway.http.fast.KEEP_ALIVE", 0.0)
    server = Server(ok())
    async with running(server) as url, connected(network()) as connection:
        assert [await posted(connection, url) for _ in range(2)] == [b"hi"] * 2
    assert server.accepted == 2


async def test_connections_that_were_idle_too_long_are_closed_by_the_next_request(monkeypatch):
    server = Server(ok())
    async with running(server) as url, connected(Pool()) as connection:
        await asyncio.gather(*(posted(connection, url) for _ in range(2)))
        assert len(server.connections) == 2
        monkeypatch.setattr("stage0_gateway.http.pool.KEEP_ALIVE", 0.0)
        await posted(connection, url)
        await server.closed.wait()
        assert len(server.connections) == 1


async def test_a_reply_that_is_closed_before_its_end_closes_the_connection(network):
    server = Server(PART, ok())
    async with running(server) as url, connected(network()) as connection:
        exchange = await connection.post(url, {}, b"{}")
        await exchange.aclose()
        await server.closed.wait()
        assert await posted(connection, url) == b"hi"
    assert server.accepted == 2


async def test_cookies_are_not_sent_back(network):
    server = Server(HEAD + b"set-cookie: session=1\r\ncontent-length: 2\r\n\r\nhi")
    async with running(server) as url, connected(network()) as connection:
        url = url.replace("127.0.0.1", "localhost")  # aiohttp takes no cookies from an IP address
        await posted(connection, url)
        await posted(connection, url)
    assert b"cookie" not in server.heads[1].lower()


async def test_more_than_a_hundred_requests_run_at_once(network):
    everyone = asyncio.Event()

    class Waiting(Server):
        async def request(self, reader):
            await super().request(reader)
            if len(self.heads) == 110:
                everyone.set()
            await everyone.wait()

    server = Waiting(ok())
    async with running(server) as url, connected(network()) as connection:
        for _ in range(2):
            assert (
                await asyncio.gather(*(posted(connection, url) for _ in range(110)))
                == [b"hi"] * 110
            )
    assert server.accepted == 110


class Remembering(BaseHTTPRequestHandler):
    """Keeps connections open, and reports in `closed` when the client closes one."""

    protocol_version = "HTTP/1.1"
    closed: Queue

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"choices": [{"message": {"content": "hi"}}]}).encode()
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
    handler = type("Handler", (Remembering,), {"closed": Queue()})
    together = Barrier(2)

    async def ask():
        async with gateway if closes else nullcontext():
            replies = [(await gateway.chat(ASK)).content for _ in range(2)]
            together.wait(5)  # so both loops have open connections
        async with gateway if closes else nullcontext():
            return [*replies, (await gateway.chat(ASK)).content]

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, ThreadPoolExecutor(2) as threads:
        server.block_on_close = False
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        gateway = Gateway("openai:m", base_url=f"http://127.0.0.1:{server.server_port}/v1")
        try:
            for _ in range(2):
                assert [*threads.map(asyncio.run, (ask(), ask()))] == [["hi"] * 3] * 2
                closed = {handler.closed.get(timeout=2) for _ in range(4 if closes else 2)}
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
        assert first.run(gateway.chat(ASK)).content
        first.run(gateway.aclose())
        for runner in (first, second):
            with pytest.raises(ConfigurationError, match="This gateway was closed"):
                runner.run(gateway.chat(ASK))


def test_a_gateway_drops_an_event_loop_that_was_closed_without_its_generators(collect):
    gateway = Gateway("openai:m", transport=ScriptedModel(["One.", "Two."]))
    first, second = (asyncio.new_event_loop() for _ in range(2))
    first.run_until_complete(gateway.chat(ASK))
    first.close()
    loop = ref(first)
    del first
    second.run_until_complete(gateway.chat(ASK))
    second.close()
    collect()
    assert loop() is None


# A TLS record holds 16 KiB. Data after such a reply in the same packet is a record of its own.
ANSWER = ok(b"x" * (16384 - len(ok(b"x" * 10_000)) + 10_000))
INJECTED = ok(b"injected")


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


SURPLUS = pytest.mark.parametrize(
    "surplus", [INJECTED, INJECTED[:20], b"\r\n", b"HTTP/1.1 408 No\r\ncontent-length: 0\r\n\r\n"]
)


@SURPLUS
async def test_surplus_bytes_in_the_same_packet_are_not_read_as_the_next_reply(
    network, encryption, surplus
):
    server = WithSurplus(surplus)
    async with running(server, encryption()) as url, connected(network()) as connection:
        for _ in range(3):
            assert await posted(connection, url) == ANSWER.partition(b"\r\n\r\n")[2]


@SURPLUS
async def test_surplus_bytes_on_an_idle_connection_are_not_read_as_the_next_reply(
    network, encryption, surplus
):
    server = WithSurplus(surplus, answered=asyncio.Event())
    async with running(server, encryption()) as url, connected(network()) as connection:
        for _ in range(3):
            assert await posted(connection, url) == ANSWER.partition(b"\r\n\r\n")[2]
            server.answered.set()
            await server.sent.wait()
            await client_reads()
    assert server.accepted == 2


async def test_a_connection_whose_surplus_cannot_be_detected_is_not_reused(monkeypatch):
    monkeypatch.delattr("httpcore.AsyncConnectionPool.connections")
    server = Server(ok())
    async with running(server) as url, connected(Pool()) as connection:
        assert [await posted(connection, url) for _ in range(2)] == [b"hi"] * 2
    assert server.accepted == 2


# ---- cancellation
# ----------------------------------------------------------------------------------------


async def test_cancelling_a_request_at_any_point_closes_its_connection(
    network, encryption, collect
):
    server = Server(ok())
    async with running(server, encryption()) as url, connected(network()) as connection:
        for steps in count():
            asking = asyncio.create_task(posted(connection, url, bytes(500_000)))
            for _ in range(steps):
                await asyncio.sleep(0)
            if asking.done():
                break
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert await asking == b"hi"
    collect()  # reports unclosed sockets
    assert steps > 10


@pytest.mark.parametrize("reply", [b"", PART], ids=["before the reply", "in the body"])
async def test_cancelling_a_waiting_request_closes_the_connection(network, reply):
    server = Server(reply)
    async with running(server) as url, connected(network()) as connection:
        asking = asyncio.create_task(posted(connection, url))
        await server.replied.wait()
        await client_reads()
        assert not asking.done()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.closed.wait()
