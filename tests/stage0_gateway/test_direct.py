"""Connections of our own say and do what httpx's do; servers on loopback, plain and TLS."""

import asyncio
import socket
import ssl
import struct
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from itertools import count

import httpx
import pytest

from stage0_gateway import ConnectionFailed, GatewayError, RequestTimeout, Timeouts
from stage0_gateway.connection import Connection, Pool
from stage0_gateway.direct import DirectTransport

HEAD = b"HTTP/1.1 200 OK\r\n"
OK = HEAD + b"content-length: 2\r\n\r\nhi"


class Server:
    """Answers each request with the next of its answers, then with the last of them again.

    Attributes:
        accepted: How many connections there were.
        heads: What was asked.
        open: The connections that the client has not closed yet.
        hung_up: Set whenever a connection is over.
    """

    def __init__(self, *answers, then=None, reads=True):
        self.answers, self.then, self.reads = list(answers), then, reads
        self.accepted, self.heads, self.open = 0, [], set()
        self.hung_up, self.over = asyncio.Event(), asyncio.Event()

    async def serve(self, reader, writer):
        self.accepted += 1
        self.open.add(task := asyncio.current_task())
        try:
            while True:
                await self.one(reader, writer)
                if self.then is not None:
                    break
            await self.end(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self.open.discard(task)
            self.hung_up.set()

    async def one(self, reader, writer):
        if self.reads:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            await reader.readexactly(int(length))
        writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        await writer.drain()

    async def end(self, reader, writer):
        if self.then == "hangs":
            await self.over.wait()
        if self.then == "resets":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


@asynccontextmanager
async def running(server, tls=None):
    """The URL of a server."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    finally:
        listening.close()
        server.over.set()
        await asyncio.gather(*server.open)


async def asked(transport, url, timeouts=None, body=b"{}"):
    """Status and body, or the error's kind and text."""
    connection = Connection(transport, timeouts or Timeouts(5.0, 5.0, 5.0))
    try:
        exchange = await connection.post(url, {}, body)
        try:
            return exchange.status, await exchange.read()
        finally:
            await exchange.aclose()
    except GatewayError as error:
        return type(error), str(error)
    finally:
        await connection.aclose()


# ---- the same as httpx's -----------------------------------------------------------------------------------

BODY_OF_9 = HEAD + b"content-length: 9\r\n\r\nhi"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
ANSWERS = {
    "an answer": (OK, None),
    "nothing": (b"", "closes"),
    "half a head": (HEAD, "closes"),
    "no HTTP": (b"garbage\r\n\r\n", "closes"),
    "a wrong header": (HEAD + b"content-length: x\r\n\r\n", "closes"),
    "an endless head": (HEAD + b"a: " + bytes(200_000), "closes"),
    "half a body": (BODY_OF_9, "closes"),
    "half a chunk": (CHUNKED + b"5\r\nhi", "closes"),
    "no chunk": (CHUNKED + b"zz\r\nhi", "closes"),
    "a body that ends with the line": (HEAD + b"\r\nhi", "closes"),
    "no body": (b"HTTP/1.1 204 No Content\r\n\r\n", None),
    "an older HTTP": (b"HTTP/1.0 200 OK\r\n\r\nhi", "closes"),
    "an answer after another": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, None),
    "two answers": (OK + OK, None),
    "a reset": (b"", "resets"),
    "silence": (b"", "hangs"),
    "silence in the body": (BODY_OF_9, "hangs"),
}
SOON = Timeouts(5.0, 0.05, 5.0)


@pytest.mark.parametrize("how", ["plain", "tls"])
@pytest.mark.parametrize(("answer", "then"), ANSWERS.values(), ids=ANSWERS)
async def test_whatever_a_server_does_is_told_as_httpxs_own_connections_tell_it(
    answer, then, how, certificate
):
    tls = None if how == "plain" else certificate()
    timeouts = SOON if then == "hangs" else None
    async with running(Server(answer, then=then), tls) as url:
        ours = await asked(Pool(), url, timeouts)
        assert ours == await asked(httpx.AsyncHTTPTransport(), url, timeouts)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
async def test_a_refused_connection_is_told_as_httpxs_tell_it(host):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://{host}:{unused.getsockname()[1]}/v1"
        ours = await asked(Pool(), url)
        assert ours == await asked(httpx.AsyncHTTPTransport(), url)
    assert ours[0] is ConnectionFailed


@pytest.mark.parametrize("url", ["ftp://x/v1", "//x/v1", "http://xn--a/v1", "http://:80/v1"])
async def test_a_url_that_cannot_be_used_is_told_as_httpxs_tell_it(url):
    assert await asked(Pool(), url) == await asked(httpx.AsyncHTTPTransport(), url)


async def test_an_answer_in_the_middle_of_a_large_body_is_read():
    async with running(Server(OK, then="closes", reads=False)) as url:
        assert await asked(Pool(), url, body=bytes(30_000_000)) == (200, b"hi")


async def test_a_server_that_takes_no_body_is_a_timeout():
    async with running(Server(b"", then="hangs", reads=False)) as url:
        told = await asked(Pool(), url, SOON, bytes(30_000_000))
    said = "127.0.0.1 stopped sending before the answer was complete. Raise timeout=…"
    assert told == (RequestTimeout, said)


# ---- certificates ------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def signed(tmp_path_factory):
    """`signed(name)` is a file with a certificate for a name that nobody vouches for, and its key."""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def make(names):
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "llm-stages test")])
        made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = tmp_path_factory.mktemp("tls") / "certificate.pem"
        file.write_bytes(private + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return file

    here = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("two.test")]
    return {"here": make(here), "elsewhere": make([x509.DNSName("elsewhere.test")])}


@pytest.fixture
def certificate(signed, monkeypatch):
    """`certificate()` is what a server needs for TLS; the environment says that it is to be trusted."""

    def make(name="here", *, trusted=True):
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(signed[name]))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(signed[name])
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    return make


@pytest.mark.parametrize(
    ("name", "trusted", "said"),
    [("here", False, "self-signed certificate"), ("elsewhere", True, "IP address mismatch")],
)
async def test_a_certificate_that_is_not_trusted_or_not_the_servers_is_refused(
    certificate, name, trusted, said, caplog
):
    async with running(Server(OK), certificate(name, trusted=trusted)) as url:
        kind, text = ours = await asked(Pool(), url)
        assert ours == await asked(httpx.AsyncHTTPTransport(), url)
    assert kind is ConnectionFailed
    assert said in text


async def test_a_request_can_say_whom_it_expects(certificate):
    async with running(Server(OK), certificate("elsewhere")) as url:
        request = httpx.Request("POST", url, content=b"{}", extensions={"sni_hostname": "elsewhere.test"})
        pool = Pool()
        response = await pool.handle_async_request(request)
        secured = response.extensions["network_stream"].get_extra_info("ssl_object")
        assert await response.aread() == b"hi"
        assert (secured.server_hostname, secured.selected_alpn_protocol()) == ("elsewhere.test", "http/1.1")
        await response.aclose()
        await pool.aclose()


@pytest.mark.parametrize("then", ["closes", "resets"])
async def test_a_server_that_speaks_no_tls_is_told_as_httpxs_own_connections_tell_it(then):
    said = b"hello\r\n" if then == "closes" else b""
    async with running(Server(said, then=then, reads=False)) as url:
        url = url.replace("http:", "https:")
        ours = await asked(Pool(), url)
        assert ours[0] is ConnectionFailed
        assert ours == await asked(httpx.AsyncHTTPTransport(), url)


async def test_a_server_that_does_not_finish_the_handshake_is_a_timeout_of_the_connection():
    async with running(Server(b"", then="hangs", reads=False)) as url:
        told = await asked(Pool(), url.replace("http:", "https:"), Timeouts(0.05, 5.0, 5.0))
    said = "127.0.0.1 did not take the connection in time. Is it up? Raise timeout=…"
    assert told == (RequestTimeout, said)


# ---- kept, ended, cancelled --------------------------------------------------------------------------------


async def posted(transport, url, body=b"{}"):
    response = await transport.handle_async_request(httpx.Request("POST", url, content=body))
    try:
        return await response.aread()
    finally:
        await response.aclose()


async def test_a_connection_is_used_again():
    server, pool = Server(OK), Pool()
    async with running(server) as url:
        assert [await posted(pool, url) for _ in range(3)] == [b"hi"] * 3
        await pool.aclose()
    assert server.accepted == 1


async def test_one_that_was_idle_for_long_is_not():
    server, direct = Server(OK), DirectTransport(ssl.create_default_context(), kept=-1.0)
    async with running(server) as url:
        assert [await posted(direct, url) for _ in range(2)] == [b"hi"] * 2
        await direct.aclose()
    assert server.accepted == 2


@pytest.mark.parametrize("how", ["plain", "tls"])
async def test_one_that_the_server_closed_meanwhile_is_not(how, certificate):
    server, pool = Server(OK, then="closes"), Pool()
    tls = None
    if how == "tls":
        tls, pool = certificate(), Pool()
    async with running(server, tls) as url:
        for _ in range(3):
            assert await posted(pool, url) == b"hi"
            await server.hung_up.wait()
            server.hung_up.clear()
        await pool.aclose()
    assert server.accepted == 3


async def test_what_a_server_says_unasked_is_no_answer_to_the_next_request():
    server, pool, answered = Server(OK), Pool(), asyncio.Event()
    said = asyncio.Event()

    async def and_more(reader, writer):
        await server.one(reader, writer)
        await answered.wait()
        writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        said.set()
        await server.serve(reader, writer)

    listening = await asyncio.start_server(and_more, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    assert await posted(pool, url) == b"hi"
    answered.set()
    await said.wait()
    assert await posted(pool, url) == b"hi"
    await pool.aclose()
    listening.close()
    await server.hung_up.wait()


async def test_an_address_that_does_not_answer_is_passed_by(monkeypatch):
    loop, server, pool = asyncio.get_running_loop(), Server(OK), Pool()
    connect, tried = loop.sock_connect, []

    async def one_answers(sock, place):
        tried.append(place[0])
        if place[0] != "127.0.0.1":
            await asyncio.Event().wait()
        await connect(sock, place)

    async def several(host, port, **kinds):
        places = ("127.0.0.2", "127.0.0.3", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (place, port)) for place in places]

    monkeypatch.setattr(loop, "sock_connect", one_answers)
    monkeypatch.setattr(loop, "getaddrinfo", several)
    monkeypatch.setattr("stage0_gateway.direct._NEXT_ADDRESS", 0.001)
    async with running(server) as url:
        assert await posted(pool, url.replace("127.0.0.1", "several.test")) == b"hi"
        await pool.aclose()
    assert (tried, server.accepted) == (["127.0.0.2", "127.0.0.3", "127.0.0.1"], 1)


async def test_many_at_once_have_a_connection_each_and_keep_it():
    server, pool = Server(OK), Pool()
    async with running(server) as url:
        for _ in range(2):
            assert await asyncio.gather(*(posted(pool, url) for _ in range(100))) == [b"hi"] * 100
        await pool.aclose()
    assert server.accepted == 100


async def test_a_head_is_sent_as_httpxs_own_connections_send_it():
    server, pool = Server(OK), Pool()
    async with running(server) as url, httpx.AsyncHTTPTransport() as httpxs:
        await posted(pool, f"{url}/a%20b?c=d&e=%C3%A9")
        await posted(httpxs, f"{url}/a%20b?c=d&e=%C3%A9")
        await pool.aclose()
    assert server.heads[0] == server.heads[1]


@pytest.mark.parametrize("how", ["plain", "tls"])
async def test_a_large_body_comes_as_it_was_sent(how, certificate):
    tls = None if how == "plain" else certificate()
    body = b"".join(number.to_bytes(4, "big") for number in range(1_000_000))
    answer = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    async with running(Server(answer), tls) as url:
        pool = Pool()
        assert await posted(pool, url, body) == body
        await pool.aclose()


@pytest.fixture
async def two_addresses(monkeypatch):
    """The name of a host that has two addresses, the first of them of no use."""

    loop = asyncio.get_running_loop()
    look_up = loop.getaddrinfo

    async def both(host, port, **kinds):
        if host != "two.test":
            return await look_up(host, port, **kinds)
        kind = (socket.SOCK_STREAM, 6, "")
        return [(socket.AF_INET6, *kind, ("::1", port, 0, 0)), (socket.AF_INET, *kind, ("127.0.0.1", port))]

    monkeypatch.setattr(loop, "getaddrinfo", both)
    return "two.test"


@pytest.mark.parametrize("how", ["plain", "tls"])
async def test_wherever_a_request_is_cancelled_its_connection_is_closed(
    how, certificate, two_addresses, collect
):
    server = Server(OK)
    tls = certificate() if how == "tls" else None
    pool = Pool()
    async with running(server, tls) as url:
        for turns in count():
            asking = asyncio.create_task(
                posted(pool, url.replace("127.0.0.1", two_addresses), bytes(500_000))
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            if asking.done():
                break
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert await asking == b"hi"
        await pool.aclose()
        collect()  # a socket that was left open would be told of here
    assert turns > 10
