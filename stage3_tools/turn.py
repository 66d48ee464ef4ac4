"""`run_turn`: one model call and the tools it asks for. The heart; everything else is built around it.

    window the history ─▶ render ─▶ model ─▶ read ─┬─▶ calls     ─▶ run them, append call and results
                                                   ├─▶ reply     ─▶ append it; ask again if it is empty
                                                   └─▶ unusable  ─▶ append it and the feedback

Whatever happens, each call that was appended gets exactly one result: also when the task is cancelled in
the middle. Knows no limit of turns and no reason to stop: that is `loop.py`.
"""

from dataclasses import dataclass, replace
from typing import Literal

from stage0_gateway import ChatResponse, Message, ToolCall
from stage3_tools.answers import Answers, answer_calls, ran_tools
from stage3_tools.dialect import Calls, FinalReply, Reading, Unusable
from stage3_tools.events import DecisionMade, FeedbackGiven, TurnEnded, TurnStarted
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord
from stage3_tools.run import Run

FEEDBACK = "[Feedback]\n"
"""How a message begins that tells the model why its reply could not be used."""

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
        """Whether at least one tool was run, or its answer known; calls that were refused do not count."""
        return ran_tools(self.records)


async def run_turn(run: Run, registry: ToolRegistry) -> Turn:
    """Ask the model once, and do what it says.

    Args:
        run: The run this turn belongs to.
        registry: The tools of this turn; if it is empty, the model must answer.

    Returns:
        What it led to; all of it is in the history.

    Raises:
        GatewayError: The model could not be asked; the history is as it was.
        WindowTooSmall: Not even the newest exchange fits.
    """
    run.turns += 1
    await run.execution()  # now, so that nothing need be waited for between a call and its result
    reserve = run.options.max_tokens or 0
    history = await run.transcript.for_request(
        alongside=run.dialect.describe(registry), reserve_tokens=reserve, pinned=run.question
    )
    parts = run.dialect.render(history, registry)
    run.emit(TurnStarted(turn=run.turns, messages=parts.messages))
    response = await run.ask(parts)
    reading = _read(run, response, registry)
    answers = await _carry_out(run, registry, response, reading)
    turn = Turn(response, reading, answers.records, answers.waiting)
    run.tool_rounds += turn.ran_tools
    run.emit(TurnEnded(turn=run.turns, usage=response.usage))
    return turn


def _read(run: Run, response: ChatResponse, registry: ToolRegistry) -> Reading | Stopped:
    why = response.finish_reason
    if why == "refusal" or (why == "pause" and not response.tool_calls):
        said = response.message.content or response.refusal or ""
        message = Message.assistant(said)
        return Stopped(replace(message, raw_text=message.text), why)
    reading = run.dialect.read(response)
    if len(registry):
        return reading
    # Without tools there is nothing to decide: a stray call is dropped, and any text is the answer.
    match reading:
        case Calls(message):
            return FinalReply(Message.assistant(message.content))
        case Unusable(message) if why != "length":
            return FinalReply(message)
    return reading


async def _carry_out(
    run: Run, registry: ToolRegistry, response: ChatResponse, reading: Reading | Stopped
) -> Answers:
    text = response.content
    match reading:
        case Calls(message, repairs):
            message = await _with_ids(run, message)
            seen = await run.transcript.append(message)
            decision = DecisionMade(turn=run.turns, text=text, calls=message.tool_calls, repairs=repairs)
            return await answer_calls(run, registry, message.tool_calls, seen=seen, decision=decision)
        case FinalReply(message) if not message.text.strip():
            await run.transcript.append(Message.user(FEEDBACK + _EMPTY))
            run.emit(FeedbackGiven(turn=run.turns, text=text, feedback=_EMPTY))
        case FinalReply(message, repairs):
            await run.transcript.append(message)
            run.emit(DecisionMade(turn=run.turns, text=text, reply=message.text, repairs=repairs))
        case Unusable(message, feedback):
            said = [message] if message.text else []  # servers refuse an empty message in the history
            await run.transcript.append(*said, Message.user(FEEDBACK + feedback))
            run.emit(FeedbackGiven(turn=run.turns, text=text, feedback=feedback))
        case Stopped(message) if message.text:
            await run.transcript.append(message)
    return Answers()


async def _with_ids(run: Run, message: Message) -> Message:
    """Servers leave ids out or repeat them; a history needs one for each call."""
    calls = [replace(call, id=await run.transcript.unused_call_id(call.id)) for call in message.tool_calls]
    return replace(message, tool_calls=tuple(calls))
