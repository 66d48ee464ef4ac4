"""Servers of scripted replies: in the process, as the transport of a gateway, or over TCP."""

import asyncio
import socket
import struct
from contextlib import asynccontextmanager, contextmanager, suppress

import httpx

from tests.stage0_gateway import replies

# ---- in the process


class Body(httpx.AsyncByteStream):
    """A body that arrives in chunks, between which other tasks run.

    Args:
        chunks: The chunks. An exception among them is raised, an `asyncio.Event` is awaited, and
            None waits forever.
        at_close: The same, when the body is closed.

    Attributes:
        sent: The number of chunks that were read.
        closed: How often the body was closed.
        closing: Set when the body is closed for the first time.
    """

    def __init__(self, chunks, *, at_close=b""):
        self._chunks, self._at_close = chunks, at_close
        self.sent = self.closed = 0
        self.closing = asyncio.Event()

    async def __aiter__(self):
        for chunk in self._chunks:
            await asyncio.sleep(0)
            received = await self._received(chunk)
            self.sent += 1
            yield received

    async def aclose(self):
        self.closed += 1
        self.closing.set()
        await self._received(self._at_close)

    async def _received(self, chunk):
        if isinstance(chunk, BaseException):
            raise chunk
        if chunk is None or isinstance(chunk, asyncio.Event):
            await (chunk or asyncio.Event()).wait()
            return b""
        return chunk


class Answers(httpx.AsyncBaseTransport):
    """A transport that gives each request the next answer, and repeats the last one.

    Args:
        answers: Each is a response; the JSON of a reply; the chunks of a stream, or its `Body`; the
            status of an error; or an exception, which is raised.

    Attributes:
        requests: The requests, in their order.
        closed: How often the transport was closed.
    """

    def __init__(self, *answers):
        self._answers = list(answers)
        self.requests = []
        self.closed = 0

    async def handle_async_request(self, request):
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return as_response(answer)

    async def aclose(self):
        self.closed += 1


def as_response(answer):
    """Return the response of an answer."""
    match answer:
        case httpx.Response():
            return answer
        case int():
            return httpx.Response(answer, json=replies.failure("no"))
        case dict():
            return httpx.Response(200, json=answer)
        case Body():
            return httpx.Response(200, stream=answer)
    return httpx.Response(200, stream=Body(answer))


# ---- over TCP

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


def with_length(body):
    """Return a response whose head contains the length of its body."""
    return HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body)


def as_chunk(body):
    """Return bytes as a chunk of a chunked body; empty bytes are its end."""
    return b"%x\r\n%b\r\n" % (len(body), body)


@contextmanager
def unused_address(host="127.0.0.1"):
    """Yield the address of a server that is down; no other process can use its port meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"{host}:{bound.getsockname()[1]}"


async def run_other_tasks(number=20):
    """Run the other tasks until they wait for something that does not come.

    A client in the same event loop then has read all that was sent.
    """
    for _ in range(number):
        await asyncio.sleep(0)


class Server:
    """Sends one of its replies for each request, and the last of them repeatedly.

    Args:
        replies: Bytes to write.
        then: What happens after a reply: None waits for the next request; the others are "closes",
            "resets", "hangs".
        reads: Whether requests are read.

    Attributes:
        accepted: The number of connections that were opened.
        heads: The heads of the requests.
        connections: The open connections.
        replied: Set whenever a request was read and a reply was written.
        closed: Set whenever a connection is closed.
        over: Set at the end of the test; connections that hang are then closed.
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
                await run_other_tasks()  # a reset that arrives with the data may overtake it
                option = struct.pack("ii", 1, 0)
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
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
        """Read a request, and return its body."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
        return await reader.readexactly(int(length))


@asynccontextmanager
async def running(server, tls=None):
    """Yield the base URL of a running server."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls, backlog=200)
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    finally:
        listening.close()
        server.over.set()
        await asyncio.gather(*server.connections)
