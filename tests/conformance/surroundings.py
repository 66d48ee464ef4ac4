"""What surrounds a subject while a case runs: a model, tools, a server, and a file.

The fields of a case's input decide what is prepared:

    replies   a model: `ask(messages, tools)` returns the next reply; the outcome gets `requests`
    tools     functions: `run(name, arguments)` does what `behavior` says; the outcome gets `ran`.
              The tools of stage 0 are only descriptions
    server    an HTTP server at `url`, with one answer for each request; the outcome gets `requests`
    file      a file at `path` with this text; null means that it does not exist yet

All other fields are passed on unchanged. A long text is written as `{"$text": [["[", 1000]]}`: parts,
each with the number of its repetitions.
"""

import asyncio
import contextlib
import json
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Set
from pathlib import Path
from typing import Any

PARTS = frozenset({"replies", "tools", "server", "file"})
"""The fields of an input that prepare something."""

MOST_REQUESTS = 60
"""More requests of one case are a run without end."""


class Failure(Exception):
    """An error that a subject reports, or that surrounds it.

    Attributes:
        kind: The kind of error; README.md lists the kinds of each operation.
    """

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(message or kind)
        self.kind = kind


class EndlessRun(BaseException):
    """The subject does not stop. `except Exception` does not catch it, because it is none.

    A bare `except` does; then the time limit of the case ends the run.
    """


class Model:
    """A model that gives prepared replies.

    A reply is a text, or an object with `content`, `tool_calls`, `finish_reason`; or with `error`,
    the kind of the failure that is raised instead. The last reply is repeated if `repeat` is set.
    """

    def __init__(self, replies: list[Any], repeat: bool) -> None:
        self.replies = replies
        self.repeat = repeat
        self.requests: list[dict[str, Any]] = []

    async def ask(self, messages: Any, tools: Any = ()) -> dict[str, Any]:
        """Return the next reply: `message` in OpenAI's format, and `finish_reason`."""
        request = {"messages": list(messages), "tools": list(tools)}
        self.requests.append(json.loads(json.dumps(request)))  # later changes do not count
        at = len(self.requests) - 1
        if at >= MOST_REQUESTS:
            raise EndlessRun(f"more than {MOST_REQUESTS} requests")
        if at >= len(self.replies) and not self.repeat:
            raise Failure("no_reply", f"The case has {len(self.replies)} replies only.")
        reply = self.replies[min(at, len(self.replies) - 1)]
        if isinstance(reply, str):
            reply = {"content": reply}
        if "error" in reply:
            raise Failure(reply["error"], reply.get("text", "The server is not available."))
        message: dict[str, Any] = {"role": "assistant", "content": reply.get("content", "")}
        if calls := reply.get("tool_calls"):
            message["tool_calls"] = [openai_call(call) for call in calls]
        reason = reply.get("finish_reason", "tool_calls" if calls else "stop")
        return {"message": message, "finish_reason": reason}


def openai_call(call: dict[str, Any]) -> dict[str, Any]:
    """A call in OpenAI's format; arguments that are not a text are written as JSON."""
    arguments = call.get("arguments", "{}")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": call["name"], "arguments": text}
    return {"id": call["id"], "type": "function", "function": function}


class Tools:
    """Functions that record their calls.

    A behavior is an object with `returns` (a value), `raises` (the text of an error) or `echo` (the
    arguments are returned), and `seconds` (how long it takes). The value of a tool with `async` is
    an awaitable.
    """

    def __init__(self, tools: list[dict[str, Any]]) -> None:
        self.behaviors = {tool["name"]: tool.get("behavior", {"echo": True}) for tool in tools}
        self.async_names = {tool["name"] for tool in tools if tool.get("async")}
        self.ran: list[dict[str, Any]] = []
        self.together = 0
        self._running = 0
        self._lock = threading.Lock()

    def run(self, name: str, arguments: dict[str, Any]) -> Any:
        """Do what the behavior of a tool says. It may be called in any thread."""
        behavior = self.behaviors[name]
        if name in self.async_names:
            return Later(lambda: self._run_later(name, arguments, behavior))
        self._start(name, arguments)
        try:
            time.sleep(behavior.get("seconds", 0))
            return result_of(behavior, arguments)
        finally:
            self._end()

    async def _run_later(
        self, name: str, arguments: dict[str, Any], behavior: dict[str, Any]
    ) -> Any:
        self._start(name, arguments)
        try:
            await asyncio.sleep(behavior.get("seconds", 0))
            return result_of(behavior, arguments)
        finally:
            self._end()

    def _start(self, name: str, arguments: dict[str, Any]) -> None:
        with self._lock:
            self.ran.append(json.loads(json.dumps({"name": name, "arguments": arguments})))
            self._running += 1
            self.together = max(self.together, self._running)

    def _end(self) -> None:
        with self._lock:
            self._running -= 1


def result_of(behavior: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """Return or raise what a behavior says."""
    if "raises" in behavior:
        raise RuntimeError(behavior["raises"])
    return behavior.get("returns", arguments)


class Later:
    """An awaitable; unlike a coroutine, it may stay unused without a warning."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, Any]:
        return self._work().__await__()


class Server:
    """An HTTP server on the loopback interface, with one prepared answer for each request.

    An answer has `status` (200), `headers`, and one of `json`, `text`, `chunks` (texts or lists of
    bytes that are sent one after the other) or `events` (server-sent events: JSON values, or texts
    such as "[DONE]"). `drop` closes the connection, before the answer or after its chunks.
    """

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self.answers = answers
        self.requests: list[dict[str, Any]] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve while the block runs; the value is the URL."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            headers = dict(
                line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line
            )
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _ = head.split(" ", 2)
            self.requests.append({"method": method, "path": path, "body": json_or_text(body)})
            await self._answer(writer)
        except (ConnectionError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass  # the client has closed the connection, or does not speak HTTP
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        number = len(self.requests)
        if number > MOST_REQUESTS:
            return
        answer: dict[str, Any] = {"status": 500, "text": f"There are {len(self.answers)} answers."}
        if number <= len(self.answers):
            answer = self.answers[number - 1]
        drops, is_stream = answer.get("drop", False), "events" in answer or "chunks" in answer
        if drops and not is_stream:
            return
        kind = "text/event-stream" if is_stream else "application/json"
        headers = {"content-type": kind, "connection": "close", **answer.get("headers", {})}
        parts = parts_of(answer)
        if drops or not is_stream:  # a dropped answer is shorter than its header states
            headers["content-length"] = str(sum(map(len, parts)) + 100 * drops)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.get('status', 200)} -\r\n{lines}\r\n".encode())
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.002 if "chunks" in answer else 0)  # the parts arrive separately


def json_or_text(body: bytes) -> Any:
    """Return the value of the body of a request; a body that is not JSON remains a text."""
    try:
        return json.loads(body or b"null")
    except ValueError:
        return body.decode("utf-8", "replace")


def parts_of(answer: dict[str, Any]) -> list[bytes]:
    """Return the parts of the body of a prepared answer."""
    if "events" in answer:
        parts = [server_sent_event(data) for data in answer["events"]]
    elif "json" in answer:
        parts = [json.dumps(answer["json"])]
    else:
        parts = answer.get("chunks", [answer.get("text", "")])
    return [part.encode() if isinstance(part, str) else bytes(part) for part in parts]


def server_sent_event(data: Any) -> str:
    """An event of a stream; a text is sent as it is."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"data: {text}\n\n"


def expanded(value: Any) -> Any:
    """Return a copy of a JSON value, with each `{"$text": …}` as the text that it describes."""
    if isinstance(value, dict):
        if list(value) == ["$text"]:
            return "".join(part * times for part, times in value["$text"])
        return {name: expanded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [expanded(each) for each in value]
    return value


@contextlib.asynccontextmanager
async def prepared(
    fields: dict[str, Any], parts: Set[str] = PARTS
) -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Prepare the surroundings of a case.

    Args:
        fields: The input of the case.
        parts: The fields that prepare something; other fields are passed on unchanged.

    Yields:
        The arguments of the subject, and what the surroundings add to the outcome afterwards.
    """
    arguments = expanded(fields)  # a copy, because a subject may change its arguments
    seen: dict[str, Any] = {}
    async with contextlib.AsyncExitStack() as stack:
        if "replies" in parts & fields.keys():
            model = Model(arguments.pop("replies"), arguments.pop("repeat", False))
            arguments["ask"], seen["requests"] = model.ask, model.requests
        if "tools" in parts & fields.keys():
            tools = Tools(arguments["tools"])
            for tool in arguments["tools"]:
                tool.pop("behavior", None)
            arguments["run"], seen["ran"] = tools.run, tools.ran
            stack.callback(lambda: seen.update(together=tools.together))
        if "server" in parts & fields.keys():
            server = Server(arguments.pop("server"))
            arguments["url"] = await stack.enter_async_context(server.running())
            seen["requests"] = server.requests
        if "file" in parts & fields.keys():
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            path = Path(folder) / "conversation.jsonl"
            text = arguments.pop("file")
            if text is not None:
                path.write_bytes(text.encode("utf-8", "surrogateescape"))
            arguments["path"] = str(path)
        yield arguments, seen
