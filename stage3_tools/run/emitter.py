"""`EventEmitter`: pass the events of one run to its listeners.

    emit         waits for async listeners, and raises what a listener raised
    emit_safely  where nothing may fail: the next `emit` raises it
    emit_soon    where nothing can be awaited, such as inside of a tool's progress report; the next
                 event waits for async listeners

Listeners are called in the order given, one after another. One that raises receives nothing more;
the others receive the event all the same. A run that was cancelled awaits no listener: a task
of its own then awaits the async ones, in their order. Used by `RunState`.
"""

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from stage3_tools.context import ParentRun
from stage3_tools.events import LoopEvent, RunStarted
from stage3_tools.options import Listener


async def call_back(callback: Callable[..., object] | None, *arguments: Any) -> None:
    """Call a function of the program, if there is one, and await what it returns."""
    if callback is not None:
        returned = callback(*arguments)
        if inspect.isawaitable(returned):
            await returned


def of_one_run(listener: Listener) -> Listener:
    """A listener that receives no events of runs inside of tools. The first event is its run's."""
    run_id: str | None = None

    def listen(event: LoopEvent) -> object:
        nonlocal run_id
        run_id = run_id or event.run_id
        return listener(event) if event.run_id == run_id else None

    return listen


@dataclass(eq=False)
class EventEmitter:
    """Passes the events of one run to its listeners.

    Attributes:
        parent: The outer run, if this run belongs to a tool of it. Its listeners come last.
        is_stopped: Whether the run was aborted, or took too long. Then it was not cancelled.
        run_id: The id of the run.
        turn: The number of the turn.
        is_over: Whether `loop_end` is emitted. An abandoned tool may still run.
        listeners: All listeners, also those that have raised.
    """

    parent: ParentRun | None
    is_stopped: Callable[[], bool]
    run_id: str = field(default_factory=lambda: uuid4().hex[:8])
    turn: int = 0
    is_over: bool = False
    listeners: tuple[Listener, ...] = ()
    _receivers: dict[type[LoopEvent], tuple[Listener, ...]] = field(default_factory=dict)
    _failed: list[Listener] = field(default_factory=list)
    _error: Exception | None = None  # of a listener; the next `emit` raises it
    _started: float = field(default_factory=time.perf_counter)
    _loop: asyncio.AbstractEventLoop | None = None
    _unfinished: deque[tuple[Listener, Awaitable[Any]]] = field(default_factory=deque)
    _finisher: asyncio.Task[None] | None = None  # awaits the unfinished async listeners

    def use(self, listeners: Iterable[Listener]) -> None:
        """Use these listeners from now on."""
        outer = [] if self.parent is None else [self.parent.listener]
        self.listeners = (*listeners, *outer)
        self._receivers.clear()

    def receivers(self, kind: type[LoopEvent]) -> tuple[Listener, ...]:
        """The listeners of the events of a class: not those that ignore it, or that have raised."""
        if kind not in self._receivers:
            self._receivers[kind] = tuple(
                listener
                for listener in self.listeners
                if kind.name not in getattr(listener, "ignores", ())
                and listener not in self._failed
            )
        return self._receivers[kind]

    def reopen(self) -> None:
        """Continue a run that has ended with an exception, and use all listeners again."""
        self.is_over, self._error = False, None
        self._failed.clear()
        self._receivers.clear()

    # ---- events of this run

    def begin(self) -> None:
        """Count the seconds of `at` from now on; called before `run_start` is emitted."""
        self._started, self._loop = time.perf_counter(), asyncio.get_running_loop()

    async def emit(self, kind: type[LoopEvent], **fields: Any) -> None:
        """Pass an event, a class with its own fields, to all listeners.

        Raises:
            Exception: A listener raised now, or earlier where nothing may fail.
        """
        if self.listeners and (receivers := self.receivers(kind)):
            await self._deliver(self._event(kind, fields), receivers)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    async def emit_safely(self, kind: type[LoopEvent], **fields: Any) -> None:
        """Pass an event to all listeners; the next `emit` raises what one of them raised."""
        if self.listeners and (receivers := self.receivers(kind)):
            await self._deliver(self._event(kind, fields), receivers)

    def emit_soon(self, kind: type[LoopEvent], **fields: Any) -> None:
        """Pass an event to all listeners without waiting for async ones."""
        if self.listeners and (receivers := self.receivers(kind)) and not self.is_over:
            self._deliver_soon(self._event(kind, fields), receivers)

    def _event(self, kind: type[LoopEvent], fields: dict[str, Any]) -> LoopEvent:
        parent = self.parent
        at = 0.0 if kind is RunStarted else time.perf_counter() - self._started
        if parent is not None:
            fields |= {"parent_run_id": parent.run_id, "parent_call_id": parent.call_id}
        event = kind.__new__(kind)  # a frozen dataclass sets each field alone, which takes longer
        vars(event).update(fields, turn=self.turn, run_id=self.run_id, at=at)
        return event

    # ---- events of runs inside of tools

    def forward(self, event: LoopEvent) -> Awaitable[None] | None:
        """Pass on an event of a run inside of a tool, which may use another event loop.

        An exception of a listener ends both runs.
        """
        receivers = self.receivers(type(event))
        if self.is_over or not receivers or self._loop is None:
            return None
        if self._loop is asyncio.get_running_loop():
            if self._waits():
                return self._forward(event)
            self._deliver_soon(event, receivers)
            return None
        with suppress(RuntimeError):  # the event loop is closed
            there = asyncio.run_coroutine_threadsafe(self._forward(event), self._loop)
            return asyncio.wrap_future(there)
        return None

    async def _forward(self, event: LoopEvent) -> None:
        await self._deliver(event, self.receivers(type(event)))
        if self._error is not None:
            raise self._error

    # ---- calling listeners

    async def _deliver(self, event: LoopEvent, receivers: tuple[Listener, ...]) -> None:
        """Call these listeners; wait for the async ones unless the run was cancelled."""
        interruption: BaseException | None = None
        if self._finisher is not None and self._waits():
            try:
                await asyncio.wait({self._finisher})
            except BaseException as error:
                interruption = error
        for listener in receivers:
            try:
                returned = listener(event)
                if returned is None or not inspect.isawaitable(returned):
                    continue
                if interruption is None and self._waits():
                    await returned
                else:
                    self._finish_later(listener, returned)
            except Exception as error:
                self._fail(listener, error)
            except BaseException as error:  # a cancellation: the other listeners are called
                interruption = error
        if interruption is not None:
            raise interruption

    def _deliver_soon(self, event: LoopEvent, receivers: tuple[Listener, ...]) -> None:
        for listener in receivers:
            try:
                returned = listener(event)
            except Exception as error:
                self._fail(listener, error)
            else:
                if inspect.isawaitable(returned):
                    self._finish_later(listener, returned)

    def _waits(self) -> bool:
        task = asyncio.current_task()
        return task is None or not task.cancelling() or self.is_stopped()

    def _finish_later(self, listener: Listener, returned: Awaitable[Any]) -> None:
        """Await an async listener in a task of its own, behind the ones before it."""
        self._unfinished.append((listener, returned))
        if self._finisher is None or self._finisher.done():
            self._finisher = asyncio.create_task(self._finish())

    async def _finish(self) -> None:
        while self._unfinished:
            listener, returned = self._unfinished.popleft()
            try:
                await returned
            except Exception as error:
                self._fail(listener, error)

    def _fail(self, listener: Listener, error: Exception) -> None:
        self._error = self._error or error
        if self.parent is not None and listener == self.parent.listener:
            return  # the outer run has dropped the listener that raised; its others receive more
        self._failed.append(listener)
        self._receivers.clear()
