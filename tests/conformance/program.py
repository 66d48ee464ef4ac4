"""Programs of any language as subjects: JSON lines on stdin and stdout.

    suite    {"id": 1, "operation": "answer", "input": {"question": "…", "tools": […]}}
    program  {"id": 1, "call": "ask", "input": {"messages": […], "tools": […]}}
    suite    {"id": 1, "value": {"message": {…}, "finish_reason": "stop"}}
    program  {"id": 1, "value": {"answer": "…"}}

A program answers each operation with one `value` or `error`. Before, it may send calls: `ask` (the
model) and `run` (a tool), and each is answered with a `value` or an `error`. An error has a `kind`
and a `message`.
"""

import asyncio
import contextlib
import inspect
import json
import os
import shlex
from typing import Any

from tests.conformance.subject import error_outcome
from tests.conformance.surroundings import EndlessRun

LONGEST_LINE = 10_000_000


class MalformedMessage(Exception):
    """The program wrote something else than a message of the protocol."""


class Program:
    """A program that answers operations. It is a subject, like `Subject`."""

    def __init__(self, command: str) -> None:
        self.name = command
        self.unwritten: dict[int, list[str]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._id = 0

    async def perform(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Send an operation, answer the calls of the program, and return the outcome."""
        callbacks: dict[str, Any] = {
            name: arguments.pop(name) for name in ("ask", "run") if name in arguments
        }
        try:
            process = await self._started()
            self._id += 1
            await self._send(process, {"operation": operation, "input": arguments})
            while True:
                message = await self._receive(process)
                if "call" in message:
                    await self._send(process, await answered(callbacks, message))
                elif "error" in message:
                    return {"error": message["error"]}
                else:
                    value = message["value"]
                    return value if isinstance(value, dict) else {"value": value}
        except EndlessRun as error:
            await self.stop()
            return {"crash": f"It does not stop: {error}."}
        except MalformedMessage as error:
            await self.stop()
            return {"crash": str(error)}

    async def stop(self) -> None:
        """End the program; the next operation starts it again."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *words(self.name),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE,
            )
        return self._process

    async def _send(self, process: asyncio.subprocess.Process, fields: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"id": self._id, **fields}).encode() + b"\n")
        with contextlib.suppress(ConnectionError):  # it has ended; reading reports its status
            await process.stdin.drain()

    async def _receive(self, process: asyncio.subprocess.Process) -> dict[str, Any]:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise MalformedMessage(
                f"The program ended with status {await process.wait()} before it answered."
            )
        return checked(line, self._id)


def words(command: str) -> list[str]:
    """Split a command; a backslash is part of a path on Windows."""
    if os.name == "nt":
        return [word.strip('"') for word in shlex.split(command, posix=False)]
    return shlex.split(command)


def checked(line: bytes, id: int) -> dict[str, Any]:
    """Return the message in a line of the program.

    Raises:
        MalformedMessage: The line is not a message of the protocol; the text states the reason.
    """
    shown = line[:200].decode("utf-8", "replace").rstrip()
    try:
        message = json.loads(line)
    except ValueError as error:
        raise MalformedMessage(f"The program wrote a line that is not JSON: {shown}") from error
    if not isinstance(message, dict):
        raise MalformedMessage(f"The program wrote JSON that is not an object: {shown}")
    if message.get("id") != id:
        raise MalformedMessage(f"The program answered with another id than {id}: {shown}")
    if sum(name in message for name in ("value", "error", "call")) != 1:
        raise MalformedMessage(f"A message needs one of value, error and call: {shown}")
    reported = message.get("error", {"kind": ""})
    if not isinstance(reported, dict) or not isinstance(reported.get("kind"), str):
        raise MalformedMessage(f"An error needs a kind, which is a text: {shown}")
    return message


async def answered(callbacks: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a call of the program.

    Raises:
        MalformedMessage: The operation has no such call.
    """
    name, arguments = message["call"], message.get("input")
    if name not in callbacks:
        raise MalformedMessage(
            f"Unknown call {name!r}. The calls of this operation: {', '.join(callbacks) or 'none'}."
        )
    if not isinstance(arguments, dict):
        raise MalformedMessage(f"The input of the call {name!r} must be an object.")
    try:
        value = callbacks[name](**arguments)
        if inspect.isawaitable(value):
            value = await value
    except TypeError as error:
        raise MalformedMessage(f"The input of the call {name!r} is invalid: {error}") from error
    except Exception as error:
        outcome = error_outcome(error)
        failed = {"kind": "failed", "message": str(error)}
        return {"error": outcome.get("error", failed)}
    return {"value": value}
