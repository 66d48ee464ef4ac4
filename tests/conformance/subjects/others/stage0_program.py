"""A gateway as a program: JSON lines on stdin and stdout, only the standard library.

It is synchronous (`http.client`), and a reply is built by an object that is fed with chunks, whether
they come from a stream or from a whole answer. Run it: `python stage0_program.py`.
"""

import http.client
import json
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

ATTEMPTS = 3
WORDS = {"function_call": "tool_calls", "end_turn": "stop", "max_tokens": "length"}


class Failure(Exception):
    """An error with a kind: temporary, permanent or unsupported."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


# ---- replies


class ReplyBuilder:
    """The reply received so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: dict[Any, dict[str, Any]] = {}  # by index, in the order of their beginning
        self.reason: str | None = None

    def feed(self, choice: dict[str, Any], field: str) -> None:
        """Read a choice; `field` is "delta" in streams and "message" in whole answers."""
        message = choice.get(field)
        if message is None and field == "delta":
            message = {}
        if text := message.get("content"):
            self.texts.append(text)
        for piece in message.get("tool_calls") or []:
            self._feed_call(piece)
        self.reason = choice.get("finish_reason") or self.reason

    def _feed_call(self, piece: dict[str, Any]) -> None:
        index = piece.get("index")
        key = object() if index is None else index
        call = self.calls.setdefault(key, {"id": "", "name": "", "arguments": []})
        function = piece.get("function") or {}
        call["id"] = call["id"] or piece.get("id") or ""
        call["name"] = call["name"] or function.get("name") or ""
        arguments = function.get("arguments") or ""
        call["arguments"].append(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def result(self) -> dict[str, Any]:
        """Return the reply in OpenAI's format."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.texts)}
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call["id"] or f"generated-{number}",
                    "type": "function",
                    "function": {
                        "name": call["name"],
                        "arguments": "".join(call["arguments"]) or "{}",
                    },
                }
                for number, call in enumerate(self.calls.values())
            ]
        reason = self.reason or "stop"
        return {"message": message, "finish_reason": WORDS.get(reason, reason)}


def encode(model: str, messages: Any, tools: Any = ()) -> dict[str, Any]:
    """Return the body of a request."""
    body = {"model": model, "messages": messages}
    functions = [{"type": "function", "function": tool} for tool in tools]
    return {**body, "tools": functions} if functions else body


def decode(body: Any) -> dict[str, Any]:
    """Return the reply in the body of an answer."""
    builder = ReplyBuilder()
    try:
        builder.feed(body["choices"][0], "message")
    except (LookupError, TypeError, AttributeError):
        raise Failure("permanent", f"not a chat completion: {json.dumps(body)[:300]}") from None
    return builder.result()


# ---- HTTP


class Exchange:
    """One request and its answer, whose body is read in parts."""

    def __init__(self, url: str, body: dict[str, Any]) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)
        try:
            headers = {"content-type": "application/json"}
            path = f"{parts.path}/chat/completions"
            self._connection.request("POST", path, json.dumps(body), headers)
            self._answer = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Failure("temporary", f"no answer: {error!r}") from error
        if self._answer.status != 200:
            self._refuse(self._answer.status)

    def _refuse(self, status: int) -> None:
        text = b"".join(self.parts()).decode(errors="replace")
        kind = "temporary" if status in (408, 429) or status > 499 else "permanent"
        raise Failure(kind, f"status {status}: {text[:1000]}")

    def parts(self) -> Iterator[bytes]:
        """Yield the parts of the body; an incomplete body is an error."""
        announced = self._answer.getheader("content-length")
        received = 0
        try:
            while part := self._answer.read1(65536):
                received += len(part)
                yield part
        except (OSError, http.client.HTTPException) as error:
            raise Failure("temporary", f"the connection broke: {error!r}") from error
        finally:
            self._connection.close()
        if announced is not None and received < int(announced):
            raise Failure("temporary", "the connection broke: the body is incomplete")


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send one request, and return its reply."""
    content = b"".join(Exchange(url, body).parts())
    try:
        answer = json.loads(content)
    except ValueError:
        raise Failure("temporary", f"not JSON: {content[:300]!r}") from None
    return decode(answer)


def chat(url: str, messages: Any, tools: Any = (), wait: float = 0.001) -> dict[str, Any]:
    """Return the reply to messages, after a few attempts."""
    attempt = 1
    while True:
        try:
            return post(url, encode("m", messages, tools))
        except Failure as failure:
            if failure.kind != "temporary" or attempt == ATTEMPTS:
                raise
        time.sleep(wait * 2 ** (attempt - 1))
        attempt += 1


# ---- streams


def events(parts: Iterator[bytes]) -> Iterator[str]:
    """Yield the data of server-sent events. Bytes are split, so characters stay whole."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                yield value.decode(errors="replace").strip()


def stream(url: str, messages: Any, tools: Any = ()) -> dict[str, Any]:
    """Return the pieces of text and the reply of a stream."""
    exchange = Exchange(url, {**encode("m", messages, tools), "stream": True})
    builder = ReplyBuilder()
    for data in events(exchange.parts()):
        if data == "[DONE]":
            continue
        try:
            for choice in json.loads(data)["choices"]:
                builder.feed(choice, "delta")
        except (ValueError, LookupError, TypeError, AttributeError):
            raise Failure("permanent", f"an invalid event in the stream: {data[:300]}") from None
    if builder.reason is None:
        raise Failure("temporary", "the stream ended before the reply was complete")
    return {"texts": builder.texts, **builder.result()}


# ---- the protocol of the suite

HANDLERS = {"encode": encode, "decode": decode, "chat": chat, "stream": stream}


def answer(operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the field `value` or `error` for an operation."""
    try:
        if arguments.pop("format", "openai") != "openai" or operation not in HANDLERS:
            raise Failure("unsupported", "only OpenAI's format is known")
        return {"value": HANDLERS[operation](**arguments)}
    except Failure as failure:
        return {"error": {"kind": failure.kind, "message": str(failure)}}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        outcome = answer(request["operation"], request["input"])
        sys.stdout.write(json.dumps({"id": request["id"], **outcome}) + "\n")
        sys.stdout.flush()
