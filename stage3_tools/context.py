"""`ToolContext`: data about the current call for the tool's function.

A function receives it in a parameter of this type (`@tool`), or as its second argument
(`Tool(...)`). It can be used from the thread of a plain function. The model never sees it. The
module does not know the run; the caller decides where progress reports go.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class ToolContext:
    """One attempt of one call, as the tool's function sees it. Created in the event loop.

    Args:
        tool: The tool's name.
        call_id: The id of the call; "" for a tool that is executed without a call.
        session_id: The session of the call, or None.
        idempotency_key: A key for services that perform an action once per key. All attempts of a
            call share it, also in a resumed run; no other call has it.
        on_progress: Called with each progress report.

    Attributes:
        attempt: Number of the attempt, counted from 1.
        abort: Set when the result is no longer needed: the run was stopped, or the time limit was
            reached. An async function is cancelled as well. A plain function should check `aborted`
            regularly.
    """

    def __init__(
        self,
        tool: str,
        call_id: str = "",
        session_id: str | None = None,
        idempotency_key: str = "",
        on_progress: Callable[[Any], None] | None = None,
    ) -> None:
        self.tool = tool
        self.call_id = call_id
        self.session_id = session_id
        self.idempotency_key = idempotency_key
        self.attempt = 1
        self.abort = asyncio.Event()
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._is_open = True

    @property
    def aborted(self) -> bool:
        """Whether the function should stop. Can be read from any thread."""
        return self.abort.is_set()

    def progress(self, value: Any) -> None:
        """Report progress to listeners, not to the model. Can be called from any thread.

        Args:
            value: Any value. Reports after the end of the attempt are dropped.
        """
        if threading.get_ident() == self._thread:
            self._report(value)
            return
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._report, value)

    def close(self, *, abort: bool) -> None:
        """End the attempt; `abort` asks a function that is still running to stop."""
        self._is_open = False
        if abort:
            self.abort.set()

    def next_attempt(self) -> "ToolContext":
        """Create the context of the next attempt of the same call."""
        context = ToolContext(
            self.tool, self.call_id, self.session_id, self.idempotency_key, self._on_progress
        )
        context.attempt = self.attempt + 1
        return context

    def _report(self, value: Any) -> None:
        if self._on_progress is not None and self._is_open:
            self._on_progress(value)
