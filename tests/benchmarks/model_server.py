"""A fast model server for benchmarks of clients; its replies are always the same.

    python tests/benchmarks/model_server.py     prints its port and serves until it is stopped

The path selects the reply; the request body is ignored:

    /v1/…               a whole reply
    /after/MS/v1/…      the same after MS milliseconds
    /events/N/K/v1/…    a stream of N pieces of text, K of them in each packet; with K = 1 there is a
                        millisecond between them, as with a model
    /megabytes/N/v1/…   a stream of N MB with very little text

A path that ends in /messages is answered in Anthropic's format, any other path in OpenAI's. Started
by `loopback.py`.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

_HEAD = b"HTTP/1.1 200 OK\r\nx-request-id: req_1\r\ncontent-type: "
_CHUNKED = _HEAD + b"text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_TEXT = "All is well. " * 15
_EMPTY_EVENTS = 200  # between two words of a stream of megabytes


class OpenAIFormat:
    """Replies of an OpenAI-compatible server, with all fields around a piece of text."""

    comment = b": keep-alive\n\n"

    def begins(self) -> bytes:
        """Return the first event of a stream."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, piece: str) -> bytes:
        """Return one piece of text."""
        return self._chunk({"content": piece})

    def stops(self) -> bytes:
        """Return the last events of a stream."""
        return self._chunk({}, "stop") + b"data: [DONE]\n\n"

    def whole(self) -> bytes:
        """Return a whole reply."""
        message = {"role": "assistant", "content": _TEXT, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        usage = {"prompt_tokens": 21, "completion_tokens": 42, "total_tokens": 63}
        return json.dumps(self._envelope("chat.completion", choice) | {"usage": usage}).encode()

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        envelope = self._envelope("chat.completion.chunk", choice) | {"obfuscation": "abcdefgh"}
        return b"data: " + json.dumps(envelope).encode() + b"\n\n"

    def _envelope(self, kind: str, choice: dict[str, Any]) -> dict[str, Any]:
        head = {
            "id": "chatcmpl-0123456789abcdef",
            "object": kind,
            "created": 1760000000,
            "model": "m",
        }
        return {
            **head,
            "service_tier": "default",
            "system_fingerprint": "fp_0123456789",
            "choices": [choice],
        }


class AnthropicFormat:
    """Replies of Anthropic's server."""

    comment = b'event: ping\ndata: {"type": "ping"}\n\n'

    def begins(self) -> bytes:
        """Return the first events of a stream."""
        block = {"index": 0, "content_block": {"type": "text", "text": ""}}
        message = self._message([], None)
        return self._event("message_start", message=message) + self._event(
            "content_block_start", **block
        )

    def text(self, piece: str) -> bytes:
        """Return one piece of text."""
        return self._event(
            "content_block_delta", index=0, delta={"type": "text_delta", "text": piece}
        )

    def stops(self) -> bytes:
        """Return the last events of a stream."""
        ended = {
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 42},
        }
        stop = self._event("content_block_stop", index=0)
        return stop + self._event("message_delta", **ended) + self._event("message_stop")

    def whole(self) -> bytes:
        """Return a whole reply."""
        return json.dumps(self._message([{"type": "text", "text": _TEXT}], "end_turn")).encode()

    def _event(self, kind: str, **data: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()

    def _message(self, content: list[Any], reason: str | None) -> dict[str, Any]:
        head = {"id": "msg_0123456789abcdef", "type": "message", "role": "assistant", "model": "m"}
        rest = {
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 21, "output_tokens": 1},
        }
        return {**head, "content": content, **rest}


Format = OpenAIFormat | AnthropicFormat


async def pieces_of_text(form: Format, count: int, at_once: int) -> AsyncIterator[bytes]:
    """Generate the packets of a stream; each event is a chunk of its own, as servers send them."""
    events = [_chunk(form.text(f"word{number} ")) for number in range(count)]
    yield _chunk(form.begins())
    for first in range(0, count, at_once):
        await asyncio.sleep(0.001 if at_once == 1 else 0)
        yield b"".join(events[first : first + at_once])
    yield _chunk(form.stops())


async def megabytes(form: Format, size: int) -> AsyncIterator[bytes]:
    """Generate a stream of comments or pings and empty events, with a word now and then."""
    packet = _chunk((form.comment + form.text("")) * _EMPTY_EVENTS + form.text("word "))
    yield _chunk(form.begins())
    for _ in range(size * 1_000_000 // len(packet)):
        yield packet
    yield _chunk(form.stops())


def _whole(body: bytes) -> bytes:
    return _HEAD + b"application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


async def answer(path: str, writer: asyncio.StreamWriter) -> None:
    """Answer one request."""
    form = AnthropicFormat() if path.endswith("/messages") else OpenAIFormat()
    match path.split("/")[1:]:
        case ["events", count, at_once, *_]:
            packets = pieces_of_text(form, int(count), int(at_once))
        case ["megabytes", size, *_]:
            packets = megabytes(form, int(size))
        case ["after", milliseconds, *_]:
            await asyncio.sleep(int(milliseconds) / 1000)
            writer.write(_whole(form.whole()))
            return
        case _:
            writer.write(_whole(form.whole()))
            return
    writer.write(_CHUNKED)
    async for packet in packets:
        writer.write(packet)
        await writer.drain()
    writer.write(b"0\r\n\r\n")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection until the client closes it."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
            await answer(head.split(b" ", 2)[1].decode().partition("?")[0], writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    """Serve forever."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
