"""`ToolContext`: data about the current call for the tool's function.

A function receives it in a parameter of this type (`@tool`), or as its second argument
(`Tool(...)`). It can be used from the thread of a plain function. The model never sees it. The
module does not know the run; the caller decides where progress reports go, and what `sub_run` is.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypedDict

from stage0_gateway import ChatResponse
from stage3_tools.abort import Abort


@dataclass(frozen=True, eq=False)
class ParentRun:
    """The run that a run inside of a tool belongs to: the keyword of `ToolContext.sub_run`.

    Attributes:
        run_id: The id of the outer run.
        call_id: The id of the call.
        abort: Set when the result of the call is no longer needed.
        listener: Passes an event to the listeners of the outer run.
        add_reply: Counts the tokens and the cost of a reply in the outer run.
        limit_reached: The limit of the outer run that was reached, as a sentence; None if none was.
    """

    run_id: str
    call_id: str
    abort: Abort
    listener: Callable[[Any], Awaitable[None] | None]
    add_reply: Callable[[ChatResponse], None]
    limit_reached: Callable[[], str | None]


class SubRun(TypedDict, total=False):
    """The keywords of a run inside of a tool."""

    parent: ParentRun


class ToolContext:
    """One attempt of one call, as the tool's function sees it. Created in the event loop.

    Args:
        tool: The tool's name.
        call_id: The id of the call; "" for a tool that is executed without a call.
        session_id: The session of the call, or None.
        idempotency_key: A key for services that perform an action once per key. All attempts of a
            call share it, also in a resumed run; no other call has it.
        on_progress: Called with each progress report.
        parent: Creates the value with which a run inside of the call names its own run.

    Attributes:
        attempt: Number of the attempt, counted from 1.
        abort: Set when the result is no longer needed: the run was stopped, or the time limit was
            reached. An async function is cancelled as well. A plain function should check `aborted`
            regularly. Any thread may read it or wait for it.
    """

    def __init__(
        self,
        tool: str,
        call_id: str = "",
        session_id: str | None = None,
        idempotency_key: str = "",
        on_progress: Callable[[Any], None] | None = None,
        parent: Callable[[Abort], ParentRun] | None = None,
    ) -> None:
        self.tool = tool
        self.call_id = call_id
        self.session_id = session_id
        self.idempotency_key = idempotency_key
        self.attempt = 1
        self.abort = Abort()
        self._on_progress, self._parent = on_progress, parent
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._is_open = True

    @property
    def aborted(self) -> bool:
        """Whether the function should stop. Can be read from any thread."""
        return self.abort.is_set()

    @property
    def sub_run(self) -> SubRun:
        """Keywords that make another run a part of this one: `await ask("…", **context.sub_run)`.

        The inner run has the limits of this run in addition to its own: its tokens and costs count
        here, and it ends when this call is stopped. The listeners of this run receive its events,
        which name this run and this call. Empty for a tool that is executed without a run.
        """
        return {} if self._parent is None else {"parent": self._parent(self.abort)}

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
            self.tool,
            self.call_id,
            self.session_id,
            self.idempotency_key,
            self._on_progress,
            self._parent,
        )
        context.attempt = self.attempt + 1
        return context

    def _report(self, value: Any) -> None:
        if self._on_progress is not None and self._is_open:
            self._on_progress(value)
