"""`Connection`: a program that exchanges lines of JSON with the suite over stdin and stdout.

The program is a session of its own, so that it ends together with all programs that it started.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence

LONGEST_LINE = 10_000_000
"""The bytes of a message."""

MOST_PRINTED = 1_000_000
"""The bytes that a program may print during one operation, if its output is kept."""

KEPT = 4_000
"""The bytes of this output that are kept."""

SECONDS_TO_END = 3.0
"""The time limit of a program to end, after its connection was closed."""


class Connection(asyncio.SubprocessProtocol):
    """A program that was started.

    Attributes:
        printed: The beginning of what the program wrote to stderr since `forget_output`.
        has_printed_too_much: Whether the program was killed, because it wrote too much.
    """

    def __init__(self) -> None:
        self.printed = b""
        self.has_printed_too_much = False
        self._printed_bytes = 0
        self._lines = asyncio.StreamReader(limit=LONGEST_LINE)
        self._has_ended = asyncio.Event()
        self._is_open = True

    @classmethod
    async def to(cls, command: Sequence[str], *, keeps_output: bool) -> "Connection":
        """Start a program.

        Args:
            command: The program and its arguments.
            keeps_output: Whether stderr is kept; otherwise it is that of the suite.

        Raises:
            OSError: The program does not exist, or cannot be started.
        """
        stderr = asyncio.subprocess.PIPE if keeps_output else None
        _, connection = await asyncio.get_running_loop().subprocess_exec(
            cls, *command, stderr=stderr, start_new_session=True
        )
        return connection

    def send(self, line: bytes) -> None:
        """Send a line. If the program has ended, reading reports it."""
        pipe = self._transport.get_pipe_transport(0)
        if isinstance(pipe, asyncio.WriteTransport) and not pipe.is_closing():
            pipe.write(line + b"\n")

    async def receive(self) -> bytes:
        """Return the next line; empty if the program has ended.

        Raises:
            ValueError: The line is too long.
        """
        return await self._lines.readline()

    def forget_output(self) -> None:
        """Begin the output of the next operation."""
        self.printed, self._printed_bytes = b"", 0

    async def status(self) -> int | None:
        """Return the exit status of a program that has closed its output; None if it still runs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await self._has_ended.wait()
        return self._transport.get_returncode()

    async def ends(self) -> bool:
        """Close stdin, and return whether the program ends by itself."""
        if (pipe := self._transport.get_pipe_transport(0)) is not None:
            pipe.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_TO_END):
                await self._has_ended.wait()
        return self._has_ended.is_set()

    async def kill(self) -> None:
        """End the program, and the programs that it started."""
        self._kill()
        await self._has_ended.wait()
        self._transport.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.kill()
            else:
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    # ---- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Read lines from stdout, and output from stderr."""
        if fd == 1:
            if self._is_open:
                self._lines.feed_data(data)
            return
        self.printed += data[: KEPT - len(self.printed)]
        self._printed_bytes += len(data)
        if self._printed_bytes > MOST_PRINTED:
            self.has_printed_too_much = True
            self._kill()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """End the lines."""
        if fd == 1:
            self._close()

    def process_exited(self) -> None:
        """End the lines soon, because a copy of the process may keep stdout open."""
        self._has_ended.set()
        asyncio.get_running_loop().call_later(0.2, self._close)

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._lines.feed_eof()
