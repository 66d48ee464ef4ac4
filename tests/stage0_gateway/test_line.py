"""The other end is a plain socket in the same thread: what one end sends the other has at once, on loopback."""

import asyncio
import socket
import struct
import threading
import tracemalloc
from contextlib import contextmanager
from hashlib import sha256

import httpcore
import pytest

from stage0_gateway.line import Line


@pytest.fixture
async def ends():
    """A line and the socket at its other end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        loop, port = asyncio.get_running_loop(), listening.getsockname()[1]
        _, line = await loop.create_connection(lambda: Line(tls=False), "127.0.0.1", port)
        other, _ = listening.accept()
    with other:
        yield line, other
        await line.aclose()


async def turns(count=5):
    """Let the event loop do what it has to."""
    for _ in range(count):
        await asyncio.sleep(0)


def reset(end):
    """Close a socket so that the other end gets an error."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def sent_to(end):
    """What has arrived there; None for nothing."""
    end.setblocking(False)
    try:
        return end.recv(1000)
    except BlockingIOError:
        return None
    finally:
        end.setblocking(True)


async def test_what_comes_is_read_in_pieces_no_larger_than_asked_for(ends):
    line, other = ends
    other.sendall(b"abcdefg")
    assert [await line.read(3) for _ in range(3)] == [b"abc", b"def", b"g"]


async def test_reading_waits_until_something_comes(ends):
    line, other = ends
    reading = asyncio.create_task(line.read(10, 60.0))
    await turns()
    assert not reading.done()
    other.sendall(b"late")
    assert await reading == b"late"


async def test_a_head_is_sent_together_with_what_follows_it(ends):
    line, other = ends
    await line.write(b"head ")
    await turns()
    assert sent_to(other) is None
    await line.write(b"body")
    assert sent_to(other) == b"head body"
    await line.write(b" more")
    assert sent_to(other) == b" more"


async def test_a_head_that_nothing_follows_is_sent(ends):
    line, other = ends
    await line.write(b"head")
    await line.write(b"")
    assert sent_to(other) == b"head"


async def test_after_an_answer_the_next_head_waits_again(ends):
    line, other = ends
    await line.write(b"1")
    await line.write(b"")
    other.sendall(b"answer")
    await line.read(10)
    await line.write(b"2")
    assert sent_to(other) == b"1"
    await line.write(b"3")
    assert sent_to(other) == b"23"


async def test_at_the_end_there_is_nothing_again_and_again(ends):
    line, other = ends
    other.sendall(b"last")
    other.close()
    assert [await line.read(10) for _ in range(3)] == [b"last", b"", b""]


async def test_an_end_is_noticed_while_it_is_waited_for(ends):
    line, other = ends
    reading = asyncio.create_task(line.read(10))
    await turns()
    other.close()
    assert await reading == b""


async def test_a_broken_line_is_an_error_for_reader_and_writer(ends):
    line, other = ends
    reading = asyncio.create_task(line.read(10))
    await turns()
    reset(other)
    with pytest.raises(httpcore.ReadError):
        await reading
    with pytest.raises(httpcore.ReadError):
        await line.read(10)
    await line.write(b"head")
    with pytest.raises(httpcore.WriteError):
        await line.write(b"body")


async def test_what_came_before_the_line_broke_is_read_first(ends):
    line, other = ends
    other.sendall(b"refused")
    reading = asyncio.create_task(line.read(3))
    assert await reading == b"ref"
    reset(other)
    await turns()
    assert await line.read(10) == b"used"
    with pytest.raises(httpcore.ReadError):
        await line.read(10)


async def test_a_line_that_breaks_ends_the_writing_of_a_large_body_quietly(ends, caplog):
    line, other = ends
    await line.write(b"head")
    reset(other)  # which the event loop has not seen yet
    with pytest.raises(httpcore.WriteError):
        await line.write(bytes(30_000_000))
    assert caplog.messages == []


async def test_nothing_that_comes_in_time_is_a_timeout(ends):
    line, other = ends
    with pytest.raises(httpcore.ReadTimeout):
        await line.read(10, 0.01)
    other.sendall(b"late")
    assert await line.read(10, 0.01) == b"late"


async def test_a_server_that_takes_nothing_is_a_timeout(ends):
    line, _ = ends
    await line.write(b"head")
    with pytest.raises(httpcore.WriteTimeout):
        await line.write(bytes(30_000_000), 0.05)


async def test_an_idle_line_is_readable_once_the_server_said_or_ended_something(ends):
    line, other = ends
    assert line.get_extra_info("is_readable") is False
    other.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert line.get_extra_info("is_readable") is True  # before the event loop has seen it
    await turns()
    assert line.get_extra_info("is_readable") is True  # and after


async def test_a_line_the_server_ended_is_readable_before_and_after_the_event_loop_has_seen_it(ends):
    line, other = ends
    other.close()
    assert line.get_extra_info("is_readable") is True
    await turns()
    assert line.get_extra_info("is_readable") is True


async def test_closing_closes_the_socket_and_twice_is_once(ends):
    line, other = ends
    sock = line.get_extra_info("socket")
    await line.aclose()
    assert (sock.fileno(), other.recv(10), line.get_extra_info("is_readable")) == (-1, b"", True)
    await line.aclose()


async def test_closing_does_not_wait_for_a_server_that_takes_nothing(ends):
    line, _ = ends
    await line.write(b"head")
    writing = asyncio.create_task(line.write(bytes(30_000_000)))
    await turns()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    sock = line.get_extra_info("socket")
    await line.aclose()
    assert sock.fileno() == -1


async def test_a_cancelled_reader_takes_nothing_along(ends):
    line, other = ends
    reading = asyncio.create_task(line.read(10, 60.0))
    await turns()
    other.sendall(b"for the next")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await line.read(100) == b"for the next"


async def test_both_ends_are_told_by_their_names(ends):
    line, other = ends
    names = "client_addr", "server_addr", "ssl_object", "unheard of"
    told = tuple(line.get_extra_info(name) for name in names)
    assert told == (other.getpeername(), other.getsockname(), None, None)


async def test_a_server_that_sends_faster_than_it_is_read_has_to_wait(ends):
    line, other = ends
    offered, sent = 100_000_000, 0
    other.setblocking(False)
    for _ in range(2000):
        try:
            sent += other.send(bytes(65536))
        except BlockingIOError:
            await asyncio.sleep(0)
    assert 131072 < sent < offered / 2
    other.close()
    read = 0
    while piece := await line.read(65536):
        read += len(piece)
    assert read == sent


@contextmanager
def held():
    """`with held() as most:` and then `most()`: how many bytes were held at once meanwhile."""
    peak = []
    tracemalloc.start()
    try:
        yield lambda: peak[0]
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


async def test_a_large_body_arrives_as_it_was_and_is_not_held_twice(ends):
    line, other = ends
    body = b"".join(number.to_bytes(4, "big") for number in range(2_500_000))
    digest = sha256()

    def take():
        left = len(body)
        while left:
            piece = other.recv(65536)
            digest.update(piece)
            left -= len(piece)

    server = threading.Thread(target=take)
    server.start()
    await line.write(b"")
    with held() as most:
        await line.write(body)
    await asyncio.to_thread(server.join)
    assert digest.digest() == sha256(body).digest()
    assert most() < 1_000_000
