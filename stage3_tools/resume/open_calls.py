"""Go on with calls that an earlier run left without a result, or let them go.

An earlier run may have ended because a call waited for approval, or because its process died. What
the journal says decides: a call that was not begun is run now, after approval; a read or an
idempotent one that was begun is run again, with the same idempotency key; a write that was begun is
never run again, and its result says that it may have happened. Used by the loop.
"""

from typing import cast

from stage0_gateway import Message, ToolCall
from stage1_context import MessageHistory, MessageRecord, OpenCalls
from stage3_tools.dialects.escaping import is_feedback
from stage3_tools.errors import ToolError
from stage3_tools.execution.results import failed, interrupted
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ResultStatus, ToolResult
from stage3_tools.run.recorder import answer_calls
from stage3_tools.run.state import Run
from stage3_tools.run.stop_policy import Ending, awaiting
from stage3_tools.variables.long_values import READ_VARIABLE

_DIED = "The program ended before this call had a result."
_NOT_APPROVED = (
    "The conversation went on without the approval that was waited for. This call was not run."
)


async def go_on(run: Run) -> Ending | None:
    """Answer the open calls; returns an ending if they wait again, or if there is nothing left to
    do.

    Raises:
        Exception: What a listener or an approver raises.
    """
    ending = await answer_open(run)
    if ending is not None or run.question is not None:
        return ending
    history = await run.transcript.history()
    newest = history.recent(1)
    if newest and newest[0].role == "assistant":
        return Ending("completed", newest[0].text, "There was nothing left to do.")
    run.question = last_question(history)
    return None


async def answer_open(run: Run) -> Ending | None:
    """Answer the open calls, and repair the exchanges before them.

    Returns:
        An ending if calls wait for approval again.

    Raises:
        Exception: What a listener or an approver raises.
    """
    opened = await run.transcript.open_calls()
    waiting = () if opened is None else await _answer(run, opened)
    await run.transcript.repair_closed_exchanges()
    return awaiting(waiting, question=run.question is not None) if waiting else None


async def _answer(run: Run, opened: OpenCalls) -> tuple[ToolCall, ...]:
    """Answer the open calls; returns those that wait for consent again."""
    if any(call.name == READ_VARIABLE for call in opened.calls):
        run.reads_variables = True
    run.expands = True  # the earlier run may have stored long arguments as references
    registry = run.tools(run.deps.tool_registry)
    known = {call.id: result for call in opened.calls if (result := _known(call, opened, registry))}
    written = {id: end.message for id, end in opened.finished.items() if end.message is not None}
    return await answer_calls(
        run, registry, opened.calls, seen=opened.records, known=known, written=written
    )


async def let_go(run: Run) -> None:
    """Close the open calls without running them; what has ended keeps its result."""
    opened = await run.transcript.open_calls()
    if opened is None:
        return
    if opened.finished or (opened.pending and not opened.started):
        messages = [_let_go(run, call, opened) for call in opened.calls]
        await run.transcript.claims(opened.records).add(*map(MessageRecord, messages))
    await run.transcript.close_open_calls()


def _let_go(run: Run, call: ToolCall, opened: OpenCalls) -> Message:
    """The answer to a call that nobody will run any more."""
    if (end := opened.finished.get(call.id)) and end.message is not None:
        return end.message
    if known := _known(call, opened, run.deps.tool_registry):
        return known.as_message()
    why = _NOT_APPROVED if opened.pending and not opened.started else _DIED
    return failed(call, ToolError("interrupted", why)).as_message()


def _known(call: ToolCall, opened: OpenCalls, registry: ToolRegistry) -> ToolResult | None:
    """What came of a call that has ended, or may have happened and must not happen twice; None
    where it may be run.
    """
    if (end := opened.finished.get(call.id)) and end.message is not None:
        status = cast(ResultStatus, end.status)
        return ToolResult(
            call.id,
            call.name,
            end.message.content,
            is_error=end.message.is_error,
            attempts=1,
            status=status,
        )
    if call.id not in opened.started:
        return None
    if call.name not in registry:  # nobody knows any more what it did
        return failed(call, ToolError("interrupted", _DIED), "unknown_effect")
    tool = registry.get(call.name)
    return interrupted(call, tool, _DIED) if tool.effect == "write" else None


def last_question(history: MessageHistory) -> Message | None:
    """What is being answered: the window keeps it in sight."""
    asked = history.by_role("user")
    return next((each for each in reversed(asked) if not is_feedback(each)), None)
