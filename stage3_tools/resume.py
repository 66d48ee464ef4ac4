"""Go on with calls that an earlier run left without a result, or let them go.

An earlier run may have ended because a call waited for approval, or because its process died. What the journal
says decides: a call that was not begun is run now, after approval; a read or an idempotent one that was begun is run
again, with the same idempotency key; a write that was begun is never run again, and its result says that it may
have happened. Used by the loop.
"""

from stage0_gateway import Message, ToolCall
from stage1_context import MessageHistory, MessageRecord
from stage3_tools.answers import answer_calls, ran_tools
from stage3_tools.ending import Ending, awaiting
from stage3_tools.errors import ToolError
from stage3_tools.outcome import failed, interrupted
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolResult
from stage3_tools.run import Run
from stage3_tools.turn import FEEDBACK

_DIED = "The program ended before this call had a result."
_NOT_APPROVED = "The conversation went on without the approval that was waited for. This call was not run."


async def go_on(run: Run) -> Ending | None:
    """Answer the open calls; returns an ending if they wait again, or if there is nothing left to do.

    Raises:
        Exception: What a listener or an approver raises.
    """
    registry = run.deps.tool_registry
    opened = await run.transcript.open_calls()
    if opened is not None:
        known = {call.id: lost for call in opened.calls if (lost := _lost(call, opened.started, registry))}
        answers = await answer_calls(run, registry, opened.calls, seen=opened.records, known=known)
        if answers.waiting:
            return awaiting(answers.waiting, question=run.question is not None)
        run.tool_rounds += ran_tools(answers.records)
    if run.question is not None:
        return None
    history = await run.transcript.history()
    newest = history.recent(1)
    if newest and newest[0].role == "assistant":
        return Ending("completed", newest[0].text, "There was nothing left to do.")
    run.question = _last_question(history)
    return None


async def let_go(run: Run) -> None:
    """Close the open calls without running them."""
    opened = await run.transcript.open_calls()
    if opened is not None and opened.pending and not opened.started:
        error = ToolError("interrupted", _NOT_APPROVED)
        results = (failed(call, error).as_message() for call in opened.calls)
        await run.transcript.claims(opened.records).add(*map(MessageRecord, results))
    await run.transcript.close_open_calls()


def _lost(call: ToolCall, started: frozenset[str], registry: ToolRegistry) -> ToolResult | None:
    """The result of a call that may have happened and must not happen twice; None where it may be run."""
    if call.id not in started:
        return None
    if call.name not in registry:  # nobody knows any more what it did
        return failed(call, ToolError("interrupted", _DIED), "unknown_effect")
    tool = registry.get(call.name)
    return interrupted(call, tool, _DIED) if tool.effect == "write" else None


def _last_question(history: MessageHistory) -> Message | None:
    """What is being answered: the window keeps it in sight."""
    asked = history.by_role("user")
    return next((each for each in reversed(asked) if not each.text.startswith(FEEDBACK)), None)
