"""A gateway on asyncio streams, with its own HTTP client, and with patterns instead of checks.

HTTP is a status line, headers and a body. Failures are values, not exceptions, until they leave the
gateway: a request returns a reply or a `Problem`.
"""

import asyncio
import codecs
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlsplit


class GatewayFailure(Exception):
    """A failure for the caller."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Problem:
    """Why there is no reply.

    Attributes:
        text: The reason, with the text of the server.
        may_pass: Whether the same request may succeed later.
    """

    text: str
    may_pass: bool

    def failure(self) -> GatewayFailure:
        return GatewayFailure("temporary" if self.may_pass else "permanent", self.text)


# ---- messages


@dataclass
class Call:
    """A tool call; streams write its fields one after the other."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    index: int | None = None


@dataclass
class Reply:
    """A reply; streams write its fields one after the other."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    reason: str = ""

    def as_fields(self) -> dict[str, Any]:
        """Return the reply in OpenAI's format."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text, "tool_calls": []}
        ids = {call.id for call in self.calls}
        unused = (name for name in map("id-{}".format, count()) if name not in ids)
        for call in self.calls:
            function = {"name": call.name, "arguments": call.arguments or "{}"}
            entry = {"id": call.id or next(unused), "type": "function", "function": function}
            message["tool_calls"].append(entry)
        return {"message": message, "finish_reason": usual_word(self.reason)}


def usual_word(reason: str) -> str:
    match reason:
        case "" | "end_turn":
            return "stop"
        case "max_tokens":
            return "length"
        case "function_call":
            return "tool_calls"
    return reason


def encode(model: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
    """Return the body of a request."""
    only_openai(format)
    body = {"model": model, "messages": messages}
    if tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
    return body


def decode(body: Any, format: str = "openai") -> Any:
    """Return the reply in the body of an answer."""
    only_openai(format)
    match read(body):
        case Problem() as problem:
            raise problem.failure()
        case reply:
            return reply.as_fields()


def read(body: Any) -> Reply | Problem:
    match body:
        case {"choices": [{"message": {**message}, **choice}, *_]}:
            reply = Reply(reason=choice.get("finish_reason") or "")
            write(reply, message)
            return reply
    return Problem(f"This is no chat completion: {json.dumps(body)[:500]}", may_pass=False)


def write(reply: Reply, message: dict[str, Any]) -> None:
    """Add a message, or a piece of one, to a reply."""
    match message:
        case {"content": str(text)}:
            reply.text += text
    match message:
        case {"tool_calls": [*pieces]}:
            for piece in pieces:
                write_call(reply.calls, piece)


def write_call(calls: list[Call], piece: dict[str, Any]) -> None:
    index = piece.get("index")
    known = [call for call in calls if index is not None and call.index == index]
    call = known[0] if known else Call(index=index)
    if not known:
        calls.append(call)
    match piece:
        case {"id": str(id)} if not call.id:
            call.id = id
    match piece:
        case {"function": {"name": str(name)}} if not call.name:
            call.name = name
    match piece:
        case {"function": {"arguments": str(text)}}:
            call.arguments += text
        case {"function": {"arguments": {**values}}}:
            call.arguments += json.dumps(values)


# ---- HTTP


@dataclass
class Answer:
    """An answer whose body was not read yet."""

    status: int
    length: int | None
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body.

        Raises:
            EOFError: The body is shorter than announced.
        """
        received = 0
        try:
            while part := await self.reader.read(4096):
                received += len(part)
                yield part
        finally:
            self.writer.close()
        if self.length is not None and received < self.length:
            raise EOFError("the connection closed before the end of the body")

    async def text(self) -> str:
        return b"".join([part async for part in self.parts()]).decode(errors="replace")


async def send(url: str, body: Any) -> Answer:
    """Post a body, and return the answer when its head arrived.

    Raises:
        OSError, EOFError: There is no answer.
    """
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    content = json.dumps(body).encode()
    head = (
        f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        "Connection: close\r\n\r\n"
    )
    writer.write(head.encode() + content)
    await writer.drain()
    try:
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except BaseException:
        writer.close()
        raise
    headers = dict(line.lower().split(": ", 1) for line in lines if line)
    length = headers.get("content-length")
    return Answer(int(status.split()[1]), int(length) if length else None, reader, writer)


async def problem_of(answer: Answer) -> Problem:
    """Return the reason why the server refused a request."""
    may_pass = answer.status in {408, 429} or answer.status // 100 == 5
    return Problem(f"Status {answer.status}: {(await answer.text())[:1000]}", may_pass)


# ---- whole replies


async def attempt(url: str, body: Any) -> Reply | Problem:
    """Send one request."""
    try:
        answer = await send(url, body)
        if answer.status != 200:
            return await problem_of(answer)
        text = await answer.text()
    except (OSError, EOFError) as error:
        return Problem(f"The connection broke: {error!r}", may_pass=True)
    try:
        return read(json.loads(text))
    except ValueError:
        return Problem(f"The answer is not JSON: {text[:500]}", may_pass=True)


async def chat(
    url: str, messages: Any, tools: Any = (), format: str = "openai", wait: float = 0.001
) -> Any:
    """Return the reply to messages, after three attempts at most."""
    body = encode("m", messages, tools, format)
    for pause in (wait, 2 * wait, None):
        match await attempt(url, body):
            case Reply() as reply:
                return reply.as_fields()
            case Problem(may_pass=True) if pause is not None:
                await asyncio.sleep(pause)
            case Problem() as problem:
                raise problem.failure()
    return None


# ---- streams


async def stream(url: str, messages: Any, tools: Any = (), format: str = "openai") -> Any:
    """Return the pieces of text and the whole reply."""
    body = {**encode("m", messages, tools, format), "stream": True}
    reply, texts = Reply(), []
    try:
        answer = await send(url, body)
        if answer.status != 200:
            raise (await problem_of(answer)).failure()
        async for event in events(answer):
            match event:
                case {"choices": [*choices]}:
                    for choice in choices:
                        texts += write_choice(reply, choice)
                case _:
                    text = f"The stream contains an error: {json.dumps(event)[:500]}"
                    raise GatewayFailure("permanent", text)
    except (OSError, EOFError, ValueError) as error:
        raise GatewayFailure("temporary", f"The stream is broken: {error!r}") from error
    if not reply.reason:
        raise GatewayFailure("temporary", "The stream ended before the reply was complete.")
    return {"texts": texts, **reply.as_fields()}


def write_choice(reply: Reply, choice: Any) -> list[str]:
    """Add a choice to a reply, and return its text in a list, if there is one."""
    before = len(reply.text)
    match choice:
        case {"delta": {**delta}}:
            write(reply, delta)
    match choice:
        case {"finish_reason": str(reason)} if reason:
            reply.reason = reason
    return [reply.text[before:]] if len(reply.text) > before else []


async def events(answer: Answer) -> AsyncIterator[Any]:
    """Yield the JSON of each event. A character at a time, as the standard describes it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    line = ""
    async for part in answer.parts():
        for character in decoder.decode(part):
            if character not in "\r\n":
                line += character
                continue
            name, _, value = line.partition(":")
            line = ""
            if name == "data" and value.strip() != "[DONE]":
                yield json.loads(value)


def only_openai(format: str) -> None:
    if format != "openai":
        raise GatewayFailure("unsupported", f"The format {format!r} is unknown.")


OPERATIONS = {"encode": encode, "decode": decode, "chat": chat, "stream": stream}
