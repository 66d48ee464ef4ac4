"""`MessageStream`: a streamed reply to iterate over, to listen to, or to wait for.

Nothing runs in the background. A task that iterates, waits for an event or waits for the final
message reads the next step of the reply, and all iterators and listeners receive its events. The
gateway creates streams. This module knows no format and no HTTP: it reads an `IncomingReply`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, Self

from stage0_gateway.errors import GatewayError, StreamInterrupted
from stage0_gateway.messages import Message
from stage0_gateway.response import ChatResponse
from stage0_gateway.streaming.events import (
    EVENT_NAMES,
    AbortEvent,
    ConnectEvent,
    EndEvent,
    ErrorEvent,
    FinalMessageEvent,
    MessageEvent,
    StreamEvent,
)

Listener = Callable[[Any], object]
"""Called with the event of the name for which it was added, such as `TextEvent` for "text"."""


class IncomingReply(Protocol):
    """A reply while it arrives: the interface of `http/streaming_response.py`."""

    connected: ConnectEvent

    def take(self) -> list[StreamEvent]:
        """Decode the next event of the server, and return the events that follow from it."""

    async def read_on(self) -> bool:
        """Wait for more of the reply; return False at its end."""

    def message(self) -> Message:
        """Return the message received so far."""

    def response(self) -> ChatResponse:
        """Return the complete reply."""

    async def aclose(self) -> None:
        """Close the reply."""


class MessageStream:
    """One streamed reply. The request is sent when reading begins.

    Iterate over it (`async for event in stream`), register listeners, await `final_message()`, or
    all of these. As an async context manager it closes the connection at the end of the block.

    Args:
        open_reply: Sends the request and waits for the first event of the reply.
    """

    def __init__(self, open_reply: Callable[[], Awaitable[IncomingReply]]) -> None:
        self._open_reply = open_reply
        # Each listener, and whether it is called only once.
        self._listeners: dict[str, list[tuple[Listener, bool]]] = {}
        # The event names and the queue of each iterator, by the id of the queue.
        self._queues: dict[int, tuple[frozenset[str], deque[StreamEvent]]] = {}
        self._lock = asyncio.Lock()
        self._reading: asyncio.Task[object] | None = None  # the task that reads the next step
        self._steps = 0  # number of steps that were read
        self._iterator: AsyncGenerator[StreamEvent, None] | None = None
        self._reply: IncomingReply | None = None
        self._response: ChatResponse | None = None
        self._error: Exception | None = None
        self._aborted = self._interrupted = False
        self._reason: str | None = None
        self._ended = False  # no further step is read
        self._finished = False  # the last events were emitted, too

    # ---- events

    async def events(self, *names: str) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events from now on: all, or those with these names.

        Raises:
            GatewayError: The stream failed. The earlier events are yielded first.
            ValueError: An event name is unknown.
        """
        chosen = frozenset(names) or EVENT_NAMES
        for name in chosen:
            _check_event_name(name)
        queue: deque[StreamEvent] = deque()
        self._queues[id(queue)] = (chosen, queue)
        try:
            while True:
                while queue:
                    yield queue.popleft()
                if not await self._advance():
                    break
        finally:
            del self._queues[id(queue)]
        if self._error is not None:
            raise self._error

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self.events()

    async def __anext__(self) -> StreamEvent:
        self._iterator = self._iterator or self.events()
        return await anext(self._iterator)

    def on(self, name: str, listener: Listener) -> Self:
        """Call a function with each event of this name.

        Exceptions from listeners propagate to the stream's reader.
        """
        _check_event_name(name)
        self._listeners.setdefault(name, []).append((listener, False))
        return self

    def once(self, name: str, listener: Listener) -> Self:
        """Call a function with the next event of this name only."""
        _check_event_name(name)
        self._listeners.setdefault(name, []).append((listener, True))
        return self

    def off(self, name: str, listener: Listener) -> Self:
        """Remove a listener that `on` or `once` added."""
        waiting = self._listeners.get(name, [])
        for entry in [entry for entry in waiting if entry[0] == listener][:1]:
            waiting.remove(entry)
        return self

    async def emitted(self, name: str) -> StreamEvent:
        """Wait for the next event of this name.

        Raises:
            GatewayError: The stream failed before it.
            LookupError: The stream ended without this event.
        """
        events: list[StreamEvent] = []
        self.once(name, events.append)
        try:
            while not events:
                if not await self._advance():
                    ended = LookupError(f"The stream ended without another {name!r} event.")
                    raise self._error or ended
        finally:
            self.off(name, events.append)
        return events[0]

    # ---- the reply

    @property
    def current_message(self) -> Message:
        """The message received so far."""
        return self._reply.message() if self._reply else Message.assistant("")

    async def final_message(self) -> ChatResponse:
        """Read to the end, and return the same `ChatResponse` as `chat`.

        Raises:
            GatewayError: The stream failed; StreamInterrupted if it was aborted.
        """
        while await self._advance():
            pass
        if self._response is not None:
            return self._response
        if self._error is not None:
            raise self._error
        why = f": {self._reason}" if self._reason else ""
        raise StreamInterrupted(f"The stream was aborted before its end{why}.", retryable=False)

    def abort(self, reason: str | None = None) -> None:
        """Close the connection now, and end with the events `abort` and `end`.

        Args:
            reason: Shown in the `abort` event and in the error of `final_message`.
        """
        if self._aborted or self._ended:
            return
        self._aborted, self._reason = True, reason
        if self._reading is not None and self._reading is asyncio.current_task():
            # Called during a step, for example by `on_event`. The task is interrupted when it
            # waits again.
            asyncio.get_running_loop().call_soon(self._interrupt)
        else:
            self._interrupt()

    def _interrupt(self) -> None:
        if self._reading is not None and not self._ended:
            self._interrupted = True
            self._reading.cancel()

    async def aclose(self) -> None:
        """Close the connection; the rest of the reply is not read."""
        self.abort("closed")
        while await self._advance():
            pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    # ---- steps

    async def _advance(self) -> bool:
        """Read one step, or wait until another task has read one; return False at the end."""
        if not self._lock.locked() and self._take_step():
            return True
        steps = self._steps
        async with self._lock:
            if self._steps > steps:
                return True  # another task has read it
            return not self._finished and await self._read_step()

    def _take_step(self) -> bool:
        """Emit the events of one server event that arrived; return False if there is none."""
        if self._reply is None or self._aborted or self._ended:
            return False
        if not (events := self._reply.take()):
            return False
        self._steps += 1
        self._emit(events)
        return True

    async def _read_step(self) -> bool:
        task = self._reading = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            events = await (self._end_aborted() if self._aborted or self._ended else self._read())
        except asyncio.CancelledError:
            if not self._interrupted or (task and task.uncancel() > before):
                # The task was cancelled, with or without `abort`. For other readers the stream
                # ends like an aborted one.
                self._reason = self._reason if self._aborted else "cancelled"
                self._aborted, self._interrupted = True, False
                await self._close()
                raise
            events = await self._end_aborted()
        except Exception as error:
            self._error = error
            await self._close()
            raise
        finally:
            self._reading = None
            self._steps += 1
        self._finished = self._ended
        self._emit(events)
        return True

    async def _end_aborted(self) -> list[StreamEvent]:
        await self._close()
        return [EndEvent()] if self._error else [AbortEvent(self._reason), EndEvent()]

    async def _read(self) -> list[StreamEvent]:
        """Return the next events: the connection, those of one server event, or the end."""
        reply = self._reply
        try:
            if reply is None:
                reply = self._reply = await self._open_reply()
                return [reply.connected]
            while True:
                if events := reply.take():
                    return events
                if not await reply.read_on():
                    break
            self._response = reply.response()
            last = [MessageEvent(self._response.message), FinalMessageEvent(self._response)]
        except GatewayError as error:
            self._error = error
            last = [ErrorEvent(error)]
        await self._close()
        return [*(reply.take() if reply else ()), *last, EndEvent()]

    async def _close(self) -> None:
        self._ended = True
        if self._reply is not None:
            await self._reply.aclose()

    def _emit(self, events: list[StreamEvent]) -> None:
        for chosen, queue in self._queues.values():
            all_chosen = chosen is EVENT_NAMES
            queue.extend(
                events if all_chosen else [event for event in events if event.name in chosen]
            )
        if self._listeners:
            self._call_listeners(events)

    def _call_listeners(self, events: list[StreamEvent]) -> None:
        """Call all listeners, and then raise the first error of one."""
        raised: Exception | None = None
        for event in events:
            waiting = self._listeners.get(event.name, [])
            for listener, once in tuple(waiting):
                if once and (listener, once) in waiting:
                    waiting.remove((listener, once))
                try:
                    listener(event)
                except Exception as error:
                    raised = raised or error
        if raised is not None:
            raise raised


def _check_event_name(name: str) -> None:
    if name not in EVENT_NAMES:
        known = ", ".join(sorted(EVENT_NAMES))
        raise ValueError(f"Unknown event {name!r}. The events are {known}.")
