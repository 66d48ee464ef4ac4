"""`run_turn`: one model call and the tools it asks for. The heart; everything else is built around
it.

    window the history ─▶ render ─▶ model ─▶ read ─┬─▶ calls     ─▶ run them, append call and
    results
                                                   ├─▶ reply     ─▶ append it; ask again if it is
                                                   empty └─▶ unusable  ─▶ append it and the feedback

A turn can be taken in two steps: `begin_turn` asks, and `OpenTurn.finish` does what the reply says,
once, whoever asks for it first. Whatever happens, each call that was appended gets exactly one
result: also when the task is cancelled in the middle. Knows no limit of turns and no reason to
stop: that is `loop.py`.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Literal

from stage0_gateway import ChatResponse, Message, MessageStream, ToolCall
from stage3_tools.dialects.escaping import feedback_message
from stage3_tools.dialects.protocol import Calls, FinalReply, Reading, Unusable
from stage3_tools.events import DecisionMade, FeedbackGiven, TurnEnded
from stage3_tools.execution.results import interrupted
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord
from stage3_tools.run.recorder import answer_calls, ran_tools
from stage3_tools.run.request import ask
from stage3_tools.run.state import Run

_FAILED = "Your reply ended with the error {raw}, so nothing in it was used. Answer again."
_EMPTY = "Your reply was empty. Answer the user."


@dataclass(frozen=True, slots=True)
class Stopped:
    """The provider ended the reply itself: it refused, or paused and wants to be asked to go on."""

    message: Message
    why: Literal["refusal", "pause"]


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn led to.

    Attributes:
        response: The model's reply.
        reading: What it meant.
        records: The calls it asked for, each with its result.
        waiting: Calls that wait for consent; where there are any, nothing was run.
    """

    response: ChatResponse
    reading: Reading | Stopped
    records: tuple[ToolCallRecord, ...] = ()
    waiting: tuple[ToolCall, ...] = ()

    @property
    def ran_tools(self) -> bool:
        """Whether at least one tool was run, or its answer known; calls that were refused do not
        count.
        """
        return ran_tools(self.records)


class OpenTurn:
    """A turn whose request was made, and whose reply has not been acted upon.

    Args:
        run: The run it belongs to.
        registry: The tools of this turn.
        reply: The model's reply, or the stream it arrives in.
        reading: What it means, where that is known; None reads it in the dialect of the run.
        last: Whether tools could not be called in the request, so that stray calls in its reply are
            dropped.

    Attributes:
        stream: The stream, or None where the reply came whole.
    """

    def __init__(
        self,
        run: Run,
        registry: ToolRegistry,
        reply: ChatResponse | MessageStream,
        reading: Calls | None = None,
        *,
        last: bool = False,
    ) -> None:
        self.stream = reply if isinstance(reply, MessageStream) else None
        self._response = None if isinstance(reply, MessageStream) else reply
        self._run = run
        self._registry = registry
        self._can_call = len(registry) > 0 and not last
        self._known = reading
        self._reading: Reading | Stopped | None = None
        self._turn: Turn | None = None
        self._one_at_a_time = asyncio.Lock()

    async def response(self) -> ChatResponse:
        """The whole reply.

        Raises:
            GatewayError: Its stream failed.
        """
        if self._response is None and self.stream is not None:
            response = await self.stream.final_message()
            self._response = self._response or self._run.took(
                response
            )  # another may have waited, too
        assert self._response is not None
        return self._response

    async def reading(self) -> Reading | Stopped:
        """What the reply means; its calls have the ids that they will have in the history."""
        if self._reading is None:
            reading = self._known or _read(
                self._run, await self.response(), can_call=self._can_call
            )
            if isinstance(reading, Calls):
                reading = Calls(await _with_ids(self._run, reading.message), reading.repairs)
            self._reading = reading
        return self._reading

    async def understood(self) -> ChatResponse:
        """The reply, with the message it was understood as: the same in every dialect."""
        response, reading = await self.response(), await self.reading()
        understood = isinstance(reading, Calls | FinalReply)
        return replace(response, message=reading.message) if understood else response

    async def finish(self, refusal: str = "") -> Turn:
        """Do what the reply says, unless that was done before.

        Args:
            refusal: Why its calls are not to be run; the model is told so. "" runs them.

        Returns:
            What the turn led to; all of it is in the history.

        Raises:
            GatewayError: The stream of the reply failed; nothing was done.
            Exception: What a listener or an approver raises. Every call has its result then, and
                asking once more returns them.
        """
        async with self._one_at_a_time:
            if self._turn is None:
                self._turn = await self._finish(
                    await self.response(), await self.reading(), refusal
                )
            return self._turn

    async def _finish(
        self, response: ChatResponse, reading: Reading | Stopped, refusal: str
    ) -> Turn:
        run, before = self._run, len(self._run.records)
        waiting, told = tuple[ToolCall, ...](), None
        if isinstance(reading, Calls):
            message = await run.storable(reading.message)
            seen = await run.transcript.append(message, seen=run.seen)
            try:
                waiting = await self._answer(response, reading, seen, refusal)
            finally:
                turn = Turn(response, reading, tuple(run.records[before:]), waiting)
                self._turn = turn
        else:
            told = await _enter(run, response.content, reading)
            turn = self._turn = Turn(response, reading)  # written, whatever a listener raises
        if told is not None:
            run.emit(told)
        run.tell(TurnEnded, usage=response.usage)
        return turn

    async def _answer(
        self, response: ChatResponse, reading: Calls, seen: int, refusal: str
    ) -> tuple[ToolCall, ...]:
        run, calls = self._run, reading.message.tool_calls
        known = {call.id: interrupted(call, None, refusal) for call in calls} if refusal else None
        decision = DecisionMade(
            turn=run.turns, text=response.content, calls=calls, repairs=reading.repairs
        )
        return await answer_calls(
            run, self._registry, calls, seen=seen, decision=decision, known=known
        )


async def run_turn(run: Run, registry: ToolRegistry, *, last: bool = False) -> Turn:
    """Ask the model once, and do what it says.

    Args:
        run: The run this turn belongs to.
        registry: The tools of this turn; if it is empty, the model must answer.
        last: Whether this is the final request: the tools are described, but cannot be called.

    Returns:
        What it led to; all of it is in the history.

    Raises:
        GatewayError: The model could not be asked; the history is as it was.
        WindowTooSmall: Not even the newest exchange fits.
        RunStopped: The run was aborted or has no time left; nothing was sent.
    """
    return await (await begin_turn(run, registry, last=last)).finish()


async def begin_turn(run: Run, registry: ToolRegistry, *, last: bool = False) -> OpenTurn:
    """Ask the model; the first step of `run_turn`, with the same arguments and errors."""
    run.checkpoint()
    run.turns += 1
    await run.execution()  # now, so that nothing need be waited for between a call and its result
    reply, registry = await ask(run, registry, last=last)
    return OpenTurn(run, registry, reply, last=last)


def _read(run: Run, response: ChatResponse, *, can_call: bool) -> Reading | Stopped:
    why = response.finish_reason
    if why == "refusal" or (why == "pause" and not response.tool_calls):
        said = response.message.content or response.refusal or ""
        message = Message.assistant(said)
        return Stopped(replace(message, raw_text=message.text or None), why)
    if why == "error":
        raw = response.raw_finish_reason or why
        return Unusable(Message.assistant(response.content), _FAILED.format(raw=raw))
    reading = run.dialect.read(response)
    if can_call:
        return reading
    # Without tools there is nothing to decide: a stray call is dropped, and any text is the answer.
    match reading:
        case Calls(message):
            return FinalReply(Message.assistant(message.content))
        case Unusable(message) if why != "length":
            return FinalReply(message)
    return reading


async def _enter(
    run: Run, text: str, reading: FinalReply | Unusable | Stopped
) -> DecisionMade | FeedbackGiven | None:
    """Write down a reply that asks for no tool; returns what to tell of it."""
    match reading:
        case FinalReply(message) if not message.text.strip():
            await run.transcript.append(feedback_message(_EMPTY), seen=run.seen)
            return FeedbackGiven(turn=run.turns, text=text, feedback=_EMPTY)
        case FinalReply(message, repairs):
            await run.transcript.append(message, seen=run.seen)
            return DecisionMade(turn=run.turns, text=text, reply=message.text, repairs=repairs)
        case Unusable(message, feedback):
            said = (
                [message] if message.text else []
            )  # servers refuse an empty message in the history
            await run.transcript.append(*said, feedback_message(feedback), seen=run.seen)
            return FeedbackGiven(turn=run.turns, text=text, feedback=feedback)
        case Stopped(message) if message.content:
            await run.transcript.append(message, seen=run.seen)
    return None


async def _with_ids(run: Run, message: Message) -> Message:
    """Servers leave ids out or repeat them; a history needs one for each call."""
    ids = await run.transcript.unused_call_ids([call.id for call in message.tool_calls])
    if ids == [call.id for call in message.tool_calls]:
        return message
    calls = [replace(call, id=id) for call, id in zip(message.tool_calls, ids, strict=True)]
    return replace(message, tool_calls=tuple(calls))
