"""Python files as subjects: each runs in a process of its own, which ends when it does not answer.

`child.py` is that process. It prepares the model and the tools of a case itself, so that they behave
as in one process; only the server and the file of a case remain in the process of the suite.
"""

import asyncio
import re
import secrets
import sys
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from tests.conformance.connection import Connection
from tests.conformance.grade import SECONDS
from tests.conformance.program import MalformedMessage, Program, checked
from tests.conformance.subject import SubjectError, described_place
from tests.conformance.surroundings import EndlessRun

CHILD = Path(__file__).parent / "child.py"

GRACE = 1.5
"""The further seconds until the process is killed; before, it reports where it was."""

SECONDS_TO_LOAD = 5.0
"""The time limit to import a file."""


class PythonFile(Program):
    """A file of the course, or a Python file with OPERATIONS.

    Attributes:
        has_operations: Whether it is a file with OPERATIONS.
        operations: The names of its operations, after the start.
    """

    noun = "Your file"
    prepared_parts: Set[str] = frozenset({"server", "file"})
    needs_time_limit = False

    def __init__(
        self,
        path: Path,
        stage: str,
        others: Mapping[str, Path] | None = None,
        has_operations: bool = False,
        seconds: float = SECONDS,
    ) -> None:
        """Describe a file; `start` imports it.

        Args:
            path: The file.
            stage: The stage, or "demo".
            others: The learner's files of other stages, which replace the finished ones.
            has_operations: Whether it has OPERATIONS, and is not a file of the course.
            seconds: The time limit of an operation.
        """
        super().__init__(path.name, [sys.executable, str(CHILD)])
        self.has_operations = has_operations
        self.operations: list[str] = []
        self._path = path.absolute()
        self._load = {
            "path": str(self._path),
            "stage": stage,
            "has_operations": has_operations,
            "others": {name: str(other.absolute()) for name, other in (others or {}).items()},
        }
        self._seconds = seconds
        self._limit = seconds

    async def perform(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Let the file perform an operation; `printed` of the outcome is what it has printed."""
        try:
            connection = await self._started()
        except SubjectError as error:  # the file was imported before, so this is its fault
            return {"crash": str(error), "stopped": True}
        self._limit = self._seconds
        arguments = {"seconds": self._seconds, "fields": arguments}
        try:
            async with asyncio.timeout(self._seconds + GRACE):
                outcome = await super().perform(operation, arguments)
        except TimeoutError:
            outcome = {"crash": f"It does not stop: no outcome within {self._seconds:g} seconds."}
        if connection.printed:  # since the last operation, or since the import
            outcome["printed"] = connection.printed.decode("utf-8", "replace")
            connection.forget_output()
        return outcome

    async def finish(self) -> None:
        """Let the process end, and note a defect if the file prevents that."""
        if self._connection is not None and not await self._connection.ends():
            reason = "a thread or an exit handler does not stop"
            self.defect = f"{self.name} does not let the program end: {reason}."

    def _next_id(self) -> str:
        return secrets.token_hex(8)  # a line that the file prints by accident has another one

    async def _started(self) -> Connection:
        if self._connection is None:
            self._connection = await Connection.to(self._command, keeps_output=True)
            try:
                await self._loaded(self._connection)
            except SubjectError:
                await self.stop()
                raise
        return self._connection

    async def _loaded(self, connection: Connection) -> None:
        """Import the file.

        Raises:
            SubjectError: The file cannot be imported, or does not end.
        """
        self._id, self._limit = self._next_id(), SECONDS_TO_LOAD
        self._send(connection, {"operation": "$load", "input": self._load})
        try:
            async with asyncio.timeout(SECONDS_TO_LOAD + GRACE):
                message = await self._receive(connection)
        except TimeoutError:
            raise SubjectError(f"{self.name} does not stop while it is imported.") from None
        except EndlessRun as error:
            raise SubjectError(f"{self.name} does not stop while it is imported: {error}") from None
        except MalformedMessage as error:
            raise SubjectError(f"{self.name} cannot be imported: {error}") from None
        if "error" in message:
            raise SubjectError(message["error"]["message"])
        value = message["value"]
        self.operations = value["operations"]
        self.unwritten = {int(step): names for step, names in value["unwritten"].items()}

    async def _receive(self, connection: Connection) -> dict[str, Any]:
        line = await self._line(connection)
        if not line.startswith(b"Timeout ("):
            return checked(line, self._id, self.noun)
        dump = []
        while line := await connection.receive():
            dump.append(line.decode())
        place = self._place("".join(dump))
        raise EndlessRun(f"no outcome within {self._limit:g} seconds{place}")

    def _place(self, dump: str) -> str:
        """Where the file was, in words, in what faulthandler wrote about all threads."""
        own = str(self._path).encode("ascii", "backslashreplace").decode()
        threads = dump.split("Thread 0x")  # the main thread is the last one
        for file, line, function in re.findall(r'File "(.+)", line (\d+) in (.+)', threads[-1]):
            if file == own:
                return f" ({described_place(self._path, int(line), function)})"
        return ""
