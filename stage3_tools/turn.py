"""One turn: request a reply, read it, act on it.

    request   select the messages that fit, render them, call the model
    read      wait for the reply, interpret it, give each of its calls a unique id
    act       append the reply; run its calls and append their results, or append feedback

`loop.py` repeats the turn until a stop policy ends the run. `ToolRunner` pauses before `act`.
`execute_tool_chain` starts with a reply, at `read`. Whatever happens in `act`, each call that was
appended gets exactly one result, also if the task is cancelled.
"""

import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from stage0_gateway import ChatResponse, Message, MessageStream, as_messages, response_of
from stage1_context import SessionConflict
from stage3_tools.dialects.escaping import feedback_message
from stage3_tools.dialects.protocol import (
    LAST_REQUEST,
    FinalReply,
    InvalidReply,
    ReplyInterpretation,
    RequestParts,
    ToolCalls,
)
from stage3_tools.events import DecisionMade, FeedbackGiven, TurnEnded, TurnStarted
from stage3_tools.options import RequestInfo, type_error
from stage3_tools.registry import ToolRegistry
from stage3_tools.run.calls import run_calls
from stage3_tools.run.exchange import (
    read_stream,
    report_failure,
    report_reply,
    report_request,
    report_stream,
)
from stage3_tools.run.state import ProviderStop, RunState, Turn
from stage3_tools.run.tool_choice import ToolChoice
from stage3_tools.run.typed_reply import server_supports_schema

_SETTINGS = ("temperature", "max_tokens", "stop", "reasoning", "model", "provider_options")
_FAILED = "Your reply ended with the error {raw}, so nothing in it was used. Answer again."
EMPTY_REPLY_FEEDBACK = "Your reply was empty. Answer the user."


async def run_turn(run: RunState, *, last: bool = False) -> Turn:
    """Request a reply, read it, and act on it.

    Args:
        run: The run that this turn belongs to.
        last: Whether this is the final request: tools are described but cannot be called.

    Returns:
        The turn; its messages are in the history.

    Raises:
        GatewayError: The model could not be reached. The history is unchanged.
        RunStopped: The run was aborted, or a limit was reached. Nothing was sent.
        SessionConflict: Another run works on this conversation.
        WindowTooSmall: Not even the newest exchange fits into the window.
        Exception: A listener, an approver or `before_send` raised. Each call has its result.
    """
    turn = await request(run, last=last)
    await read(run, turn)
    await act(run, turn)
    return turn


# ---- request


async def request(run: RunState, *, last: bool = False) -> Turn:
    """Select the messages that fit, render them, and call the model, now or when `read` waits."""
    run.counts.checkpoint()
    run.events.turn += 1
    await run.events.emit(TurnStarted)
    await run.settings()  # now, because nothing may wait between appending calls and running them
    turn = Turn(run.tools(), last or run.tool_choice == "none")
    if run.tool_choice is not None and not turn.last:
        turn.choice = ToolChoice.of(run.tool_choice, turn.tools)
    messages = await _select_messages(run, turn)
    if run.variables.search(messages):  # the first reference: the model can read variables now
        turn.tools = run.tools()
        messages = await _select_messages(run, turn)
    run.counts.checkpoint()  # a summary of old messages takes time and tokens
    run.counts.requests += 1
    run.sent_at = run.transcript.length
    parts = run.dialect.render(messages, turn.tools, last=turn.last)
    parts = turn.choice.add_to(parts) if turn.choice else parts
    if run.options.before_send is not None:
        parts = await _edit_messages(run, turn, parts)
    await _send(run, turn, parts)
    return turn


async def _send(run: RunState, turn: Turn, parts: RequestParts) -> None:
    """Send a request, and wait for the reply unless it is streamed."""
    keywords = {name: getattr(run.options, name) for name in _SETTINGS}
    keywords |= {"tools": parts.tools, "tool_choice": parts.tool_choice, "cache_key": run.cache_key}
    keywords = {name: value for name, value in keywords.items() if value not in (None, ())}
    if parts.response_schema is not None and server_supports_schema(run.deps.gateway, parts):
        keywords |= {"response_schema": parts.response_schema, "schema_optional": True}
    try:
        if run.events.listeners:
            await report_request(run, turn, parts.messages, keywords)
            run.counts.checkpoint()
        if run.deps.stream is not None:  # it is sent when `read` waits for it
            stream = run.deps.stream(parts.messages, **keywords)
            if not isinstance(stream, MessageStream):
                raise type_error("The value of stream", stream, MessageStream)
            turn.stream = stream
            await report_stream(run, stream)
        run.last_request, turn.sent = parts.messages, time.perf_counter()
        if turn.stream is None:
            response = await response_of(run.deps.chat(parts.messages, **keywords))
    except BaseException as error:
        await report_failure(run, turn, error)
        raise
    if turn.stream is None:
        turn.response = response
        run.add_reply(response)


async def _select_messages(run: RunState, turn: Turn) -> list[Message]:
    """The messages of the conversation that fit into the window."""
    instruction = LAST_REQUEST if turn.last else turn.choice.instruction if turn.choice else ""
    select = partial(
        run.transcript.for_request,
        extra_text=run.dialect.describe(turn.tools) + instruction,
        reserve_tokens=run.options.max_tokens or 0,
        pinned=run.question,
        on_compaction=run.add_compaction,
    )
    messages = await select()
    return await _repaired(run, select) if _has_open_calls(messages) else messages


async def _repaired(run: RunState, select: Callable[[], Awaitable[list[Message]]]) -> list[Message]:
    """Select the messages after a repair of calls that share an id and a result."""
    if await run.transcript.open_calls() is None:
        await run.transcript.repair_closed_exchanges()
        messages = await select()
        if not _has_open_calls(messages):
            return messages
    raise SessionConflict(
        "The newest calls of this conversation have no results yet: another run works on them. "
        "If that run has ended, resume=True continues with its calls."
    )


def _has_open_calls(messages: list[Message]) -> bool:
    """Whether the newest calls have fewer results than there are calls."""
    results = 0
    for message in reversed(messages):
        if message.role == "assistant":
            return len(message.tool_calls) > results
        results += message.role == "tool"
    return False


async def _edit_messages(run: RunState, turn: Turn, parts: RequestParts) -> RequestParts:
    """Let `before_send` replace the messages of a request."""
    assert run.options.before_send is not None
    info = RequestInfo(run.events.turn, turn.tools.specs(), turn.last)
    edited = run.options.before_send([*parts.messages], info)
    if inspect.isawaitable(edited):
        edited = await edited
    if edited is None:
        return parts
    messages = as_messages(edited)
    if not messages:
        raise ValueError(
            "before_send returned an empty list. Return the messages to send, or None to send the "
            "messages that it received."
        )
    return replace(parts, messages=messages)


# ---- read


async def read(run: RunState, turn: Turn) -> None:
    """Wait for the reply, report it, and interpret it. Reading a turn again has no effect."""
    if turn.was_read:
        return
    response = turn.response
    if response is None:
        response = await _read_stream(run, turn)
    if run.events.listeners and not turn.was_reported:
        turn.was_reported = True
        await report_reply(run, turn, response)
    if turn.interpretation is None:
        turn.interpretation = _interpret(run, turn, response)
    if isinstance(turn.interpretation, ToolCalls):
        turn.interpretation = await _with_unique_ids(run, turn.interpretation)
    elif isinstance(turn.interpretation, FinalReply) and run.typed is not None:
        turn.interpretation = run.typed.check(turn.interpretation)
    turn.was_read = True


async def _read_stream(run: RunState, turn: Turn) -> ChatResponse:
    """Read a streamed reply to its end."""
    assert turn.stream is not None
    try:
        response = await read_stream(run, turn.stream)
    except BaseException as error:
        await report_failure(run, turn, error)
        raise
    turn.response = response
    run.add_reply(response)
    return response


def _interpret(
    run: RunState, turn: Turn, response: ChatResponse
) -> ReplyInterpretation | ProviderStop:
    reason = response.finish_reason
    if reason in ("refusal", "error") or (reason == "pause" and not response.tool_calls):
        return _stopped_reply(response)
    tools = ToolRegistry() if turn.last else turn.tools
    interpretation = run.dialect.read(response, tools)
    if len(tools):
        return turn.choice.check(interpretation) if turn.choice else interpretation
    match interpretation:  # without tools, calls are dropped and any text is the answer
        case ToolCalls(message):
            return FinalReply(Message.assistant(message.content))
        case InvalidReply(message) if reason != "length":
            return FinalReply(message)
    return interpretation


def _stopped_reply(response: ChatResponse) -> InvalidReply | ProviderStop:
    """Interpret a reply that the provider ended."""
    if response.finish_reason == "error":
        feedback = _FAILED.format(raw=response.raw_finish_reason or "error")
        return InvalidReply(Message.assistant(response.content), feedback)
    message = Message.assistant(response.message.content or response.refusal or "")
    reason: Literal["refusal", "pause"]
    reason = "refusal" if response.finish_reason == "refusal" else "pause"
    return ProviderStop(replace(message, raw_text=message.text or None), reason)


async def _with_unique_ids(run: RunState, calls: ToolCalls) -> ToolCalls:
    """Replace ids that are missing or that an earlier call has."""
    message = calls.message
    ids = [call.id for call in message.tool_calls]
    unused = await run.transcript.unused_call_ids(ids)
    if unused == ids:
        return calls
    renamed = [replace(call, id=id) for call, id in zip(message.tool_calls, unused, strict=True)]
    return replace(calls, message=replace(message, tool_calls=tuple(renamed)))


# ---- act


async def act(run: RunState, turn: Turn, skip_reason: str = "") -> None:
    """Append the reply and carry it out. Acting on a turn again has no effect.

    With a `skip_reason`, a sentence for the model, the calls are not run.

    Raises:
        SessionConflict: Another run has replied in this conversation.
        Exception: A listener or an approver raised. Each call has its result.
    """
    if turn.acted:
        return
    assert turn.response is not None
    text = turn.response.content
    if isinstance(turn.interpretation, ToolCalls | FinalReply):
        run.tool_choice = None
    match turn.interpretation:
        case ToolCalls(message, repairs):
            length = await run.transcript.append(message, since=run.sent_at)
            before = len(run.records)
            try:
                turn.waiting = await run_calls(
                    run,
                    turn.tools,
                    message.tool_calls,
                    since=length,
                    decision={"text": text, "repairs": repairs},
                    skip_reason=skip_reason,
                )
            finally:
                turn.acted, turn.records = True, tuple(run.records[before:])
        case FinalReply(message, repairs) as final if final.text.strip():
            await _append_reply(run, turn, message)
            await run.events.emit(DecisionMade, text=text, reply=final.text, repairs=repairs)
        case FinalReply():
            await _append_reply(run, turn, feedback_message(EMPTY_REPLY_FEEDBACK))
            await run.events.emit(FeedbackGiven, text=text, feedback=EMPTY_REPLY_FEEDBACK)
        case InvalidReply(message, feedback, issues):
            reply = [message] if message.text else []  # servers reject empty messages
            await _append_reply(run, turn, *reply, feedback_message(feedback))
            await run.events.emit(FeedbackGiven, text=text, feedback=feedback, issues=issues)
        case ProviderStop(message):
            await _append_reply(run, turn, *([message] if message.content else []))
    await run.events.emit(TurnEnded, usage=turn.response.usage)


async def _append_reply(run: RunState, turn: Turn, *messages: Message) -> None:
    if messages:
        await run.transcript.append(*messages, since=run.sent_at)
    turn.acted = True
