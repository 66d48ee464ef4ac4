"""Resume or close calls that an earlier run left without results.

The earlier run ended because a call waited for approval, or because its process died. The journal
decides what happens:

    not started                   it is run now, after approval
    started, read or idempotent   it is run again, with the same idempotency key
    started, write                it is not run again; its result: it may have happened

Used by `loop.py` and by the runner.
"""

from typing import cast

from stage0_gateway import Message, ToolCall
from stage1_context import MessageHistory, MessageRecord, OpenCalls
from stage3_tools.dialects.escaping import feedback_message, is_from_framework
from stage3_tools.dialects.protocol import FinalReply
from stage3_tools.errors import ToolError
from stage3_tools.execution.results import failed, interrupted
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ResultStatus, ToolResult
from stage3_tools.run.calls import run_calls
from stage3_tools.run.state import RunState
from stage3_tools.run.stop_policy import Ending, awaiting_approval
from stage3_tools.variables.long_values import READ_VARIABLE

_DIED = "The program ended before this call had a result."
_NOT_APPROVED = "The conversation continued before this call was approved. It was not run."


async def resume_open_calls(run: RunState) -> Ending | None:
    """Run the open calls of the newest exchange.

    Returns:
        An ending if calls wait for approval again, or if the conversation already ends with a reply
        and there is no new question.

    Raises:
        Exception: A listener or an approver raised.
    """
    ending = await run_open_calls(run)
    if ending is not None or run.question is not None:
        return ending
    history = await run.transcript.history()
    newest = history.recent(1)
    if newest and newest[0].role == "assistant":
        final = FinalReply(newest[0])
        reply = run.typed.check(final) if run.typed else final
        if isinstance(reply, FinalReply):
            reason = "All calls had results already."
            return Ending("completed", reply.text, reason, output=reply.output)
        await run.transcript.append(feedback_message(reply.feedback))
    run.question = last_question(history)
    return None


async def run_open_calls(run: RunState) -> Ending | None:
    """Run the open calls, and repair the exchanges before them.

    Returns:
        An ending if calls wait for approval again.

    Raises:
        Exception: A listener or an approver raised.
    """
    open_calls = await run.transcript.open_calls()
    waiting = () if open_calls is None else await _run(run, open_calls)
    await run.transcript.repair_closed_exchanges()
    if not waiting:
        return None
    return awaiting_approval(waiting, unasked=run.question is not None)


async def _run(run: RunState, open_calls: OpenCalls) -> tuple[ToolCall, ...]:
    if any(call.name == READ_VARIABLE for call in open_calls.calls):
        run.variables.has_references = True
    registry = run.tools()
    results = {call.id: _known_result(call, open_calls, registry) for call in open_calls.calls}
    finished = open_calls.finished.items()
    await run.settings()
    return await run_calls(
        run,
        registry,
        open_calls.calls,
        since=open_calls.records,
        known={call_id: result for call_id, result in results.items() if result is not None},
        messages={id: (end.message, None) for id, end in finished if end.message is not None},
    )


async def close_open_calls(run: RunState, open_calls: OpenCalls) -> None:
    """Append a result for each open call without running it. Stored outcomes become results."""
    if open_calls.finished or (open_calls.pending and not open_calls.started):
        records = [_closing_record(run, call, open_calls) for call in open_calls.calls]
        await run.transcript.append(*records, since=open_calls.records)
    await run.transcript.close_open_calls()


def _closing_record(run: RunState, call: ToolCall, open_calls: OpenCalls) -> MessageRecord:
    """The result message of a call that is not run."""
    if (end := open_calls.finished.get(call.id)) and end.message is not None:
        return MessageRecord(end.message, end.details)
    if result := _known_result(call, open_calls, run.deps.tool_registry):
        return MessageRecord(result.as_message())
    reason = _NOT_APPROVED if open_calls.pending and not open_calls.started else _DIED
    return MessageRecord(failed(call, ToolError("interrupted", reason)).as_message())


def _known_result(
    call: ToolCall, open_calls: OpenCalls, registry: ToolRegistry
) -> ToolResult | None:
    """The result of a call that has ended or must not be run again; None if it may be run."""
    if (end := open_calls.finished.get(call.id)) and end.message is not None:
        return ToolResult(
            call.id,
            call.name,
            end.message.content,
            end.details,
            is_error=end.message.is_error,
            attempts=1,
            status=cast(ResultStatus, end.status),
        )
    if call.id not in open_calls.started:
        return None
    if call.name not in registry:  # its effect is unknown
        return failed(call, ToolError("interrupted", _DIED), "unknown_effect")
    tool = registry.get(call.name)
    return interrupted(call, tool, _DIED) if tool.effect == "write" else None


def last_question(history: MessageHistory) -> Message | None:
    """The newest message of the user that is neither feedback nor a summary."""
    messages = reversed(history.by_role("user"))
    return next((message for message in messages if not is_from_framework(message)), None)
