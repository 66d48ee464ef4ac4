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
import inspect
import json
import os
import shlex
from collections.abc import Sequence, Set
from typing import Any

from tests.conformance.connection import LONGEST_LINE, MOST_PRINTED, Connection
from tests.conformance.subject import SubjectError, error_outcome
from tests.conformance.surroundings import PARTS, EndlessRun


class MalformedMessage(Exception):
    """The program wrote something else than a message of the protocol, or nothing."""


class Program:
    """A program that answers operations. It is a subject, like `Subject`."""

    noun = "The program"
    prepared_parts: Set[str] = PARTS
    needs_time_limit = True

    def __init__(self, name: str, command: Sequence[str] = ()) -> None:
        self.name = name
        self.unwritten: dict[int, list[str]] = {}
        self.defect = ""
        self._command = command or words(name)
        self._connection: Connection | None = None
        self._id: int | str = 0

    async def start(self) -> None:
        """Start the program.

        Raises:
            SubjectError: The program cannot be started.
        """
        await self._started()

    async def perform(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Send an operation, answer the calls of the program, and return the outcome."""
        callbacks: dict[str, Any] = {
            name: arguments.pop(name) for name in ("ask", "run") if name in arguments
        }
        try:
            connection = await self._started()
            self._id = self._next_id()
            self._send(connection, {"operation": operation, "input": arguments})
            while True:
                message = await self._receive(connection)
                if "call" in message:
                    self._send(connection, await answered(callbacks, message))
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
            return {"crash": str(error), "stopped": True}
        except asyncio.CancelledError:  # the time limit; a late answer must not meet the next case
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the program; the next operation starts it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.kill()

    async def finish(self) -> None:
        """Do nothing: a program may wait for further operations."""

    def _next_id(self) -> int | str:
        assert isinstance(self._id, int)
        return self._id + 1

    async def _started(self) -> Connection:
        if self._connection is None:
            try:
                self._connection = await Connection.to(self._command, keeps_output=False)
            except OSError as error:
                raise SubjectError(f"{self.name} cannot be started: {error}") from error
        return self._connection

    def _send(self, connection: Connection, fields: dict[str, Any]) -> None:
        connection.send(json.dumps({"id": self._id, **fields}).encode())

    async def _receive(self, connection: Connection) -> dict[str, Any]:
        return checked(await self._line(connection), self._id, self.noun)

    async def _line(self, connection: Connection) -> bytes:
        try:
            line = await connection.receive()
        except ValueError as error:
            limit = f"{LONGEST_LINE:,} bytes"
            raise MalformedMessage(f"{self.noun} wrote a line of more than {limit}.") from error
        if not line:
            raise MalformedMessage(await self._reason_of_end(connection))
        return line

    async def _reason_of_end(self, connection: Connection) -> str:
        if connection.has_printed_too_much:
            return f"{self.noun} printed more than {MOST_PRINTED:,} bytes before it answered, and was stopped."
        status = await connection.status()
        if status is None:
            return f"{self.noun} closed its connection before it answered."
        return f"{self.noun} ended with status {status} before it answered."


def words(command: str) -> list[str]:
    """Split a command; a backslash is part of a path on Windows."""
    if os.name == "nt":
        return [word.strip('"') for word in shlex.split(command, posix=False)]
    return shlex.split(command)


def checked(line: bytes, id: int | str, noun: str) -> dict[str, Any]:
    """Return the message in a line of the program, which the noun names.

    Raises:
        MalformedMessage: The line is not a message of the protocol; the text states the reason.
    """
    shown = line[:200].decode("utf-8", "replace").rstrip()
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"{noun} wrote a line that is not JSON: {shown}") from error
    if not isinstance(message, dict):
        raise MalformedMessage(f"{noun} wrote JSON that is not an object: {shown}")
    if message.get("id") != id:
        raise MalformedMessage(f"{noun} answered with another id than {id}: {shown}")
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
