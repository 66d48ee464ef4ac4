"""Report one request and its reply to the listeners of a run.

    report_request   the request, which is sent next
    report_stream    the stream in which the reply arrives
    read_stream      a streamed reply, and its words while they arrive
    report_reply     the complete reply; its words, if it was not streamed
    report_failure   the request has no reply

The dialect states which part of an unfinished reply is meant for people. With an `output_type`,
that part is JSON, and the partial value is reported. Used by `turn.py`.
"""

import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from stage0_gateway import ChatResponse, Message, MessageStream, TextEvent
from stage3_tools.dialects.protocol import visible_text
from stage3_tools.events import (
    ReplyReceived,
    ReplyStreamed,
    ReplyText,
    RequestFailed,
    RequestSent,
)
from stage3_tools.run.state import RunState, Turn
from stage3_tools.run.typed_reply import partial_value

_FEWEST, _PART = 8, 8
"""A text is examined again when it has grown by 8 characters and by an eighth."""


async def report_request(
    run: RunState, turn: Turn, messages: tuple[Message, ...], keywords: Mapping[str, Any]
) -> None:
    """Report a request; a listener may stop the run.

    Raises:
        Exception: A listener raised.
    """
    selection, before = run.transcript.last_request, run.last_selection
    run.last_selection = selection
    await run.events.emit(
        RequestSent,
        messages=messages,
        keywords=keywords,
        tools=tuple(turn.tools),
        dialect=run.dialect,
        gateway=run.deps.gateway,
        last=turn.last,
        selection=selection,
        previous=(before, run.last_request),
    )


async def report_failure(run: RunState, turn: Turn, error: BaseException) -> None:
    """Report that a request has no reply; the next event raises what a listener raises."""
    message = None if turn.stream is None else turn.stream.current_message
    seconds = 0.0 if turn.sent is None else time.perf_counter() - turn.sent
    await run.events.emit_safely(
        RequestFailed,
        error=error,
        message=message if message and message.content else None,
        seconds=seconds,
        sent=turn.sent is not None,
    )


async def read_stream(run: RunState, stream: MessageStream) -> ChatResponse:
    """Read a stream to its end, and report its words while they arrive.

    Raises:
        GatewayError: The stream failed.
        Exception: A listener raised.
    """
    if not run.events.receivers(ReplyText):
        return await stream.final_message()
    words = _Words(run)
    async with aclosing(stream.events("text")) as pieces:
        async for piece in pieces:
            assert isinstance(piece, TextEvent)
            await words.add(piece.delta)
    response = await stream.final_message()
    await words.finish(response.content)
    return response


async def report_reply(run: RunState, turn: Turn, response: ChatResponse) -> None:
    """Report a complete reply.

    Raises:
        Exception: A listener raised.
    """
    if turn.stream is None and run.events.receivers(ReplyText):
        await _Words(run).finish(response.content)
    if turn.sent is not None:  # the first reply of a chain answers a request of the program
        seconds = time.perf_counter() - turn.sent
        await run.events.emit(ReplyReceived, response=response, seconds=seconds)


async def report_stream(run: RunState, stream: MessageStream) -> None:
    """Report a reply that arrives as a stream; a listener may stop the run.

    Raises:
        Exception: A listener raised.
    """
    await run.events.emit(ReplyStreamed, stream=stream)
    if run.counts.is_stopped():
        await stream.aclose()
    run.counts.checkpoint()


class _Words:
    """The words of one reply for people."""

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._text = ""  # as the model wrote it
        self._shown = ""
        self._value: Any = None
        self._next = 0  # the length at which the text is examined again

    async def add(self, delta: str) -> None:
        """Add a piece of a streamed reply."""
        self._text += delta
        if len(self._text) >= self._next:
            visible = visible_text(self._run.dialect, self._text)
            # Each look at the text takes time in proportion to its length, so the distances grow
            # with it. A dialect that shows the whole text does not look, and a value is parsed.
            is_plain = self._run.typed is None and visible == self._text
            distance = 0 if is_plain else max(_FEWEST, len(self._text) // _PART)
            self._next = len(self._text) + distance
            if fields := self._new_words(visible):
                await self._run.events.emit(ReplyText, **fields)

    async def finish(self, text: str) -> None:
        """Report the rest of a complete reply; the next event raises what a listener raises."""
        if fields := self._new_words(visible_text(self._run.dialect, text)):
            await self._run.events.emit_safely(ReplyText, **fields)

    def _new_words(self, visible: str) -> dict[str, Any] | None:
        """The fields of an event; None if there is nothing new."""
        if self._run.typed is not None:
            value = partial_value(visible)
            if value is None or value == self._value:
                return None
            self._value = value
            return {"text": visible, "delta": "", "value": value}
        if visible == self._shown:
            return None
        is_longer = visible.startswith(self._shown)
        delta = visible[len(self._shown) :] if is_longer else visible
        self._shown = visible
        return {"text": visible, "delta": delta}
