"""A model server for benchmarks of clients, as fast as plain Python allows: replies are prepared.

    python tests/benchmarks/side_by_side/server.py [core]

Prints its port and serves until it is stopped. The path selects the reply, and the tool results in
the request select the round; the rest of the request is ignored:

    /calls/N/…       N rounds of tool calls, then text
    /decisions/N/…   the same as decisions in JSON text
    /three/N/…       one round with three calls, then text
    /stream/N/…      N pieces of a reply, half of them text, half arguments of one call; 32 to a
                     packet

A path that ends in /messages is answered in Anthropic's format, any other path in OpenAI's, as a
stream if the request asks for one. Needs only Python.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

ANSWER = "All sums are done."
"""The text after the last round."""

_RESULT = re.compile(rb'"tool_call_id"|"tool_result"|"\[Tool result for|"Observation:\\n')
_STREAMED = re.compile(rb'"stream": ?true')
# smolagents ends a conversation with a call of its own.
_ENDS_WITH_A_CALL = re.compile(rb'"name": ?"final_answer"')
_THREE = ("wait_100", "wait_200", "wait_150")
_HEAD = b"HTTP/1.1 200 OK\r\nx-request-id: req_1\r\ncontent-type: "
_WHOLE = _HEAD + b"application/json\r\ncontent-length: %d\r\n\r\n%b"
_CHUNKED = _HEAD + b"text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_AT_ONCE = 32  # events in a packet

Call = tuple[str, str, dict[str, Any]]
"""An id, a tool's name, and its arguments."""


def reply(way: str, rounds: int, body: bytes) -> tuple[str | None, list[Call]]:
    """Return the reply of the model: text, or calls."""
    done = len(_RESULT.findall(body))
    if way == "three" and not done:
        return None, [(f"call_{name}", name, {}) for name in _THREE]
    over, arguments = done >= rounds, {"a": done, "b": 1}
    if way == "decisions":
        decision = (
            {"tool": None, "reply": ANSWER} if over else {"tool": "add", "arguments": arguments}
        )
        return json.dumps(decision), []
    if over and _ENDS_WITH_A_CALL.search(body):
        return None, [("call_final", "final_answer", {"answer": ANSWER})]
    return (ANSWER, []) if over else (None, [(f"call_{done:024}", "add", arguments)])


def list_in_pieces(count: int) -> Iterator[str]:
    """Return the arguments of the streamed call: one JSON object in this number of pieces."""
    yield '{"items":['
    for number in range(count - 2):
        yield ("," if number else "") + f'{{"k":{number},"v":"w{number}"}}'
    yield "]}"


class OpenAIFormat:
    """Replies of an OpenAI-compatible server, with all their fields."""

    def whole(self, text: str | None, calls: list[Call], tokens: int) -> bytes:
        """Return a whole reply."""
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message["tool_calls"] = [self._call(*call) for call in calls]
        reason = "tool_calls" if calls else "stop"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return json.dumps(
            self._envelope("chat.completion", [choice]) | {"usage": self._usage(tokens)}
        ).encode()

    def events(self, text: str | None, calls: list[Call], tokens: int) -> Iterator[bytes]:
        """Return the same reply as a stream."""
        yield self._delta({"role": "assistant", "content": ""})
        if text:
            yield self._delta({"content": text})
        for index, call in enumerate(calls):
            yield self._delta({"tool_calls": [{"index": index, **self._call(*call)}]})
        yield from self._end("tool_calls" if calls else "stop", tokens)

    def pieces(self, count: int) -> Iterator[bytes]:
        """Return a long stream: words, then the arguments of a call."""
        yield self._delta({"role": "assistant", "content": ""})
        for number in range(count // 2):
            yield self._delta({"content": f"word{number} "})
        begins = {
            "id": "call_0",
            "type": "function",
            "function": {"name": "store", "arguments": ""},
        }
        yield self._delta({"tool_calls": [{"index": 0, **begins}]})
        for piece in list_in_pieces(count - count // 2):
            yield self._delta({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield from self._end("tool_calls", 100)

    def _end(self, reason: str, tokens: int) -> Iterator[bytes]:
        yield self._delta({}, reason)
        yield self._event(
            self._envelope("chat.completion.chunk", []) | {"usage": self._usage(tokens)}
        )
        yield b"data: [DONE]\n\n"

    def _call(self, call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }

    def _usage(self, tokens: int) -> dict[str, int]:
        return {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}

    def _delta(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return self._event(self._envelope("chat.completion.chunk", [choice]))

    def _envelope(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        head = {
            "id": "chatcmpl-0123456789abcdef",
            "object": kind,
            "created": 1760000000,
            "model": "gpt-4o",
        }
        return {
            **head,
            "service_tier": "default",
            "system_fingerprint": "fp_0123456789",
            "choices": choices,
        }

    def _event(self, data: dict[str, Any]) -> bytes:
        return b"data: " + json.dumps(data).encode() + b"\n\n"


class AnthropicFormat:
    """Replies of Anthropic's server."""

    def whole(self, text: str | None, calls: list[Call], tokens: int) -> bytes:
        """Return a whole reply."""
        blocks: list[Any] = [{"type": "text", "text": text}] if text else []
        blocks += [self._call(*call) for call in calls]
        return json.dumps(
            self._message(blocks, "tool_use" if calls else "end_turn", tokens)
        ).encode()

    def events(self, text: str | None, calls: list[Call], tokens: int) -> Iterator[bytes]:
        """Return the same reply as a stream."""
        yield self._event("message_start", message=self._message([], None, tokens))
        if text:
            yield from self._text([text])
        for index, (call_id, name, arguments) in enumerate(calls, start=bool(text)):
            yield from self._arguments(index, call_id, name, [json.dumps(arguments)])
        yield from self._end("tool_use" if calls else "end_turn")

    def pieces(self, count: int) -> Iterator[bytes]:
        """Return a long stream: words, then the arguments of a call."""
        yield self._event("message_start", message=self._message([], None, 100))
        yield from self._text(f"word{number} " for number in range(count // 2))
        yield from self._arguments(1, "toolu_0", "store", list_in_pieces(count - count // 2))
        yield from self._end("tool_use")

    def _text(self, pieces: Any) -> Iterator[bytes]:
        yield self._event(
            "content_block_start", index=0, content_block={"type": "text", "text": ""}
        )
        for piece in pieces:
            yield self._event(
                "content_block_delta", index=0, delta={"type": "text_delta", "text": piece}
            )
        yield self._event("content_block_stop", index=0)

    def _arguments(self, index: int, call_id: str, name: str, pieces: Any) -> Iterator[bytes]:
        yield self._event(
            "content_block_start", index=index, content_block=self._call(call_id, name, {})
        )
        for piece in pieces:
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield self._event("content_block_delta", index=index, delta=delta)
        yield self._event("content_block_stop", index=index)

    def _end(self, reason: str) -> Iterator[bytes]:
        stop = {"stop_reason": reason, "stop_sequence": None}
        yield self._event("message_delta", delta=stop, usage={"output_tokens": 20})
        yield self._event("message_stop")

    def _call(self, call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}

    def _message(self, content: list[Any], reason: str | None, tokens: int) -> dict[str, Any]:
        head = {
            "id": "msg_0123456789abcdef",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5",
        }
        usage = {"input_tokens": tokens, "output_tokens": 20}
        return {
            **head,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": usage,
        }

    def _event(self, kind: str, **data: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


Format = OpenAIFormat | AnthropicFormat


def answer(path: str, body: bytes) -> bytes:
    """Return a complete HTTP answer: a pure function of the request."""
    form: Format = AnthropicFormat() if path.endswith("/messages") else OpenAIFormat()
    _, way, count, *_ = path.split("/")
    if way == "stream":
        return long_stream(form.__class__, int(count))
    # A plausible number of tokens for the text; otherwise a client may warn about a truncated prompt.
    sent_text = *reply(way, int(count), body), len(body) // 4
    if _STREAMED.search(body):
        return _CHUNKED + chunked(form.events(*sent_text))
    whole = form.whole(*sent_text)
    return _WHOLE % (len(whole), whole)


@cache
def long_stream(form: type[Format], count: int) -> bytes:
    """Return a long stream, cached because it is the same each time."""
    return _CHUNKED + chunked(form().pieces(count))


def chunked(events: Iterator[bytes]) -> bytes:
    """Return events as HTTP chunks, one event per chunk, as servers send them."""
    return b"".join([b"%x\r\n%b\r\n" % (len(event), event) for event in events]) + b"0\r\n\r\n"


class Server(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self) -> None:
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of a new connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer as soon as a request is complete."""
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not end:
            return
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if len(body) >= size:
            self._got = b""
            path = head.split(b" ", 2)[1].decode().partition("?")[0]
            self._transport.write(answer(path, body))


async def main(cores: list[str]) -> None:
    """Serve forever, on these cores if any are given."""
    if cores:
        os.sched_setaffinity(0, map(int, cores))
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
