"""A model server that asks for tools: so many rounds with a call each, then a reply.

    python tests/benchmarks/tool_server.py     prints its port and serves until it is ended

It knows a request by its path, and how far the talk has come by the results in it:

    /calls/N/v1/…        N rounds of tool calls, then text
    /decisions/N/v1/…    the same as decisions in JSON text

Everything is answered in OpenAI's format. Used by `loop_turn.py`; `model_server.py` measures single requests.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ANSWER = "All sums are done."
"""What is said after the last round."""

RESULT = "[Tool result for add]"
"""How a message begins that brings the result of a decision."""

_RESULTS = {"calls": b'"tool_call_id"', "decisions": RESULT.encode()}
_HEAD = b"HTTP/1.1 200 OK\r\nx-request-id: req_1\r\ncontent-type: application/json\r\n"


def reply(path: str, body: bytes) -> bytes:
    """The body of an answer: a pure function of the request."""
    _, way, rounds, *_ = path.split("/")
    done = body.count(_RESULTS[way])
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER, "refusal": None}
    arguments, reason = {"a": done, "b": 1}, "stop"
    if way == "decisions":
        over = done >= int(rounds)
        decision = {"tool": None, "reply": ANSWER} if over else {"tool": "add", "arguments": arguments}
        message["content"] = json.dumps(decision)
    elif done < int(rounds):
        function = {"name": "add", "arguments": json.dumps(arguments)}
        call = {"id": f"call_{done:024}", "type": "function", "function": function}
        message, reason = message | {"content": None, "tool_calls": [call]}, "tool_calls"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    # As many tokens as there may be in so much text, or a client might think that the server cut it.
    usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 20, "total_tokens": len(body) // 4 + 20}
    head = {"id": "chatcmpl-0123456789abcdef", "object": "chat.completion", "created": 1760000000}
    rest = {"model": "m", "service_tier": "default", "system_fingerprint": "fp_0123456789"}
    return json.dumps({**head, **rest, "choices": [choice], "usage": usage}).encode()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer what comes over one connection, until the client hangs up."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            content = reply(head.split(b" ", 2)[1].decode(), await reader.readexactly(size))
            writer.write(_HEAD + b"content-length: %d\r\n\r\n" % len(content) + content)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@contextmanager
def tool_server() -> Iterator[str]:
    """The URL of a server that runs meanwhile, on a core of its own if there are two.

    The proxies of the environment are passed by.
    """
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            del os.environ[name]
    with (
        _apart() as cores,
        subprocess.Popen([sys.executable, __file__, *cores], stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


@contextmanager
def _apart() -> Iterator[list[str]]:
    """Keep this process to one core meanwhile; gives the others, or none where that cannot be said."""
    ours = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    if len(ours) < 2:
        yield []
        return
    os.sched_setaffinity(0, {max(ours)})
    try:
        yield [str(core) for core in ours - {max(ours)}]
    finally:
        os.sched_setaffinity(0, ours)


async def main(cores: list[str]) -> None:
    """Serve for ever."""
    if cores:
        os.sched_setaffinity(0, map(int, cores))
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
