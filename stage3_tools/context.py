"""`ToolContext`: what a tool may know of the call it answers, and the model never sees.

A tool asks for it with a parameter of this type (`@tool`), or with a second argument (`Tool(...)`).
It works from the thread of a plain function as well. Knows no run: whoever runs the tool says where
progress goes.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class ToolContext:
    """One call, as the tool that answers it sees it. It is made where the event loop runs.

    Args:
        tool: The tool's name.
        call_id: The call that is answered; "" where a tool is run by hand.
        session_id: The session the call belongs to, or None.
        idempotency_key: The same for every try of this call, also when a run is resumed, and for no
            other call: for services that do a thing once per key.
        on_progress: Told what the tool reports.

    Attributes:
        attempt: Which try this is, from 1.
        abort: Is set when nobody waits for the result any more: the run was stopped, or the time is
            over. An async tool is cancelled then, too; a plain function should look at `aborted`
            now and then.
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
        self._open = True

    @property
    def aborted(self) -> bool:
        """Whether the tool should stop; may be asked from any thread."""
        return self.abort.is_set()

    def progress(self, value: Any) -> None:
        """Tell whoever watches how far the tool is; the model does not see it. From any thread.

        Args:
            value: Text, a number, anything. What is reported after the call has its result is
                dropped.
        """
        if threading.get_ident() == self._thread:
            self._report(value)
            return
        with suppress(RuntimeError):  # the loop is closed: nobody watches any more
            self._loop.call_soon_threadsafe(self._report, value)

    def _report(self, value: Any) -> None:
        if self._on_progress is not None and self._open:
            self._on_progress(value)

    def close(self, *, abort: bool) -> None:
        """The try is over; `abort` tells a function that may still be running that nobody waits for
        it.
        """
        self._open = False
        if abort:
            self.abort.set()

    def next_attempt(self) -> "ToolContext":
        """The context of the next try of the same call."""
        again = ToolContext(
            self.tool, self.call_id, self.session_id, self.idempotency_key, self._on_progress
        )
        again.attempt = self.attempt + 1
        return again
