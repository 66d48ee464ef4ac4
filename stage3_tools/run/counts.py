"""`RunCounts`: what a run has used so far, and whether it may continue.

A model that repeats a call is stopped: the third equal call in a row gets a note, and the fifth one
is rejected.

A limit of the cost that is never reached, because no price is known, would be a silent mistake. It
is refused before the first request if the model has no prices; otherwise the first reply without a
cost ends the run. Used by `state.py`.
"""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from stage0_gateway import ChatModel, ChatResponse, ConfigurationError, ToolCall, Usage
from stage3_tools.abort import Abort, RunStopped
from stage3_tools.context import ParentRun
from stage3_tools.errors import ToolError
from stage3_tools.execution.arguments import canonical
from stage3_tools.options import RunLimits

NOTE_AT = 3
BLOCK_AT = 5


@dataclass(eq=False)
class Repeats:
    """Counts equal calls in a row."""

    _last: ToolCall | None = None
    _count: int = 0

    def note(self, call: ToolCall) -> str:
        """Count a call; return a note for the model, or "".

        Raises:
            ToolError: The call was repeated too often and must not be run ("rejected").
        """
        self._count = self._count + 1 if self._last and _are_equal(self._last, call) else 1
        self._last = call
        if self._count >= BLOCK_AT:
            raise _repeated_too_often(call, self._count)
        if self._count >= NOTE_AT:
            return f"\nNote: this is call {self._count} in a row with the same arguments."
        return ""


@dataclass(eq=False)
class RunCounts:
    """The counts of a run, and its limits.

    Attributes:
        parent: The outer run, if this run belongs to a tool of it: its limits are limits here, too.
        limits: The limits of the run; None for none.
        aborts: What stops the run when it is set: the abort of its options, and of the outer run.
        started: When the run started, by `time.perf_counter`.
        requests: The number of requests so far.
        tool_rounds: The number of turns that ran a tool.
        usage: The tokens of all replies, of compactions, and of runs inside of tools.
        cost: Their cost in US dollars; None if no price is known.
        unknown_cost: Why a limit of the cost ends the run although the cost is unknown; None if it
            is known, or not limited.
        repeats: Counts equal calls in a row.
    """

    parent: ParentRun | None = None
    limits: RunLimits | None = None
    aborts: Sequence[Abort | asyncio.Event] = ()
    started: float = field(default_factory=time.perf_counter)
    requests: int = 0
    tool_rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    unknown_cost: str | None = None
    repeats: Repeats = field(default_factory=Repeats)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def use(self, limits: RunLimits | None, abort: Abort | asyncio.Event | None) -> None:
        """Use these limits from now on."""
        outer = None if self.parent is None else self.parent.abort
        self.limits, self.aborts = limits, [stop for stop in (abort, outer) if stop is not None]

    def add(self, reply: ChatResponse) -> None:
        """Add the tokens and the cost of a reply. Any thread may call this."""
        with self._lock:
            if reply.usage is not None:
                self.usage += reply.usage
            if reply.cost is not None:
                self.cost = (self.cost or 0.0) + reply.cost
            elif self.limits is not None and self.limits.cost is not None:
                self.unknown_cost = _unknown_cost(self.limits.cost, reply)
        if self.parent is not None:
            self.parent.add_reply(reply)

    def limit_reached(self) -> str | None:
        """The limit of tokens or money that was reached, as a sentence; None if none was."""
        own = self.unknown_cost or (self.limits and self.limits.reached(self.usage, self.cost))
        return own or (None if self.parent is None else self.parent.limit_reached())

    def seconds_left(self) -> float | None:
        """Seconds until the time limit; None without a limit."""
        if self.limits is None or self.limits.seconds is None:
            return None
        return self.started + self.limits.seconds - time.perf_counter()

    def stop_reason(self) -> Literal["aborted", "timeout"] | None:
        """Why no further request or call may begin; None if the run was not stopped."""
        for abort in self.aborts:
            if abort.is_set():
                return "aborted"
        seconds = self.seconds_left()
        return "timeout" if seconds is not None and seconds <= 0 else None

    def is_stopped(self) -> bool:
        """Whether the run was aborted, or took too long."""
        return self.stop_reason() is not None

    def checkpoint(self) -> None:
        """Raise RunStopped if the run was stopped or a limit was reached, before each request.

        A stopped run is cancelled only once, and a function of the user may suppress that.
        """
        if reason := self.stop_reason() or ("limit" if self.limit_reached() else None):
            raise RunStopped(reason)


def check_prices(limits: RunLimits, gateway: ChatModel | None) -> None:
    """Refuse a limit of the cost if the model of a run is known to have no prices.

    Raises:
        ConfigurationError: The gateway has no prices.
    """
    if limits.cost is not None and gateway is not None and not gateway.has_prices:
        raise ConfigurationError(
            f"The limit of {limits.cost:g} dollars needs prices, and {gateway.model!r} has none. "
            f"{_add_prices(gateway.model)}"
        )


def _unknown_cost(dollars: float, reply: ChatResponse) -> str:
    """Return why a limit of the cost cannot be applied after a reply."""
    model = reply.model or "the model"
    problem = (
        f"The limit of {dollars:g} dollars cannot be applied, because the cost of a reply of "
        f"{model!r} is unknown"
    )
    if reply.usage is None:
        return f"{problem}: the server reported no tokens."
    return f"{problem}. {_add_prices(model)}"


def _add_prices(model: str) -> str:
    table = f"PriceTable({{{model!r}: Price(0.25, 2.0)}})"
    return (
        f"Pass Gateway(…, prices={table}) with dollars per million tokens of input and output, "
        "Price(0, 0) for a model that costs nothing, or prices=GenaiPrices() for list prices."
    )


def _repeated_too_often(call: ToolCall, count: int) -> ToolError:
    message = f"{call.name} was called {count} times in a row with the same arguments, so it is not"
    hint = "Use the results above, call another tool, or answer."
    return ToolError("rejected", f"{message} run again.", hint=hint)


def _are_equal(first: ToolCall, second: ToolCall) -> bool:
    """Whether two calls have the same tool and arguments, in any spelling of the JSON."""
    if first.name != second.name:
        return False
    if first.arguments == second.arguments:
        return True
    try:
        return canonical(json.loads(first.arguments)) == canonical(json.loads(second.arguments))
    except (ValueError, RecursionError):
        return False
