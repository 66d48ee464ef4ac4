"""Answer the calls of a message: run them as a batch, write down each result, tell whoever watches.

Each call gets exactly one result in the history: in call order, and also when the run is stopped or breaks in the
middle. Where a call waits for consent nothing is run; that it waits is written down instead. Used by `turn` and,
for calls that an earlier run left open, by `resume`.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stage0_gateway import ToolCall
from stage1_context import ApprovalPendingRecord, CallStartedRecord, SessionConflict
from stage3_tools.batch import Batch
from stage3_tools.events import ApprovalPending, DecisionMade, ToolAnswered, ToolCalled
from stage3_tools.execution import WaitingCall
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord, ToolResult
from stage3_tools.run import Run


@dataclass(frozen=True, slots=True)
class Answers:
    """What became of the calls of one message.

    Attributes:
        records: Each call with its result; empty where some wait.
        waiting: The calls that wait for consent.
    """

    records: tuple[ToolCallRecord, ...] = ()
    waiting: tuple[ToolCall, ...] = ()


async def answer_calls(
    run: Run,
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    decision: DecisionMade | None = None,
    *,
    known: Mapping[str, ToolResult] | None = None,
    seen: int | None = None,
) -> Answers:
    """Run the calls and add their results to the history.

    Args:
        run: The run they belong to.
        registry: The tools.
        calls: Calls of the newest message, each with an id of its own.
        decision: To be told first; None where it was told in another run.
        known: Results that are there already, by call id.
        seen: How many records the journal had when the calls were found open, where another process may have
            found them, too: only one of the two begins.

    Raises:
        SessionConflict: Somebody else has begun to answer them.
        Exception: What a listener or an approver raises. Every call has its result then, too.
    """
    book, most = _Book(run, calls), run.options.max_parallel_tools
    batch = Batch(registry, calls, await run.execution(), max_parallel=most, known=known)
    try:
        if decision is not None:
            run.emit(decision)
        await batch.prepare(book.begin)
        if waiting := batch.waiting:
            return await book.wait(waiting)
        conflict = None if seen is None else await _claim(run, calls[0], seen)
        if conflict is None:
            await batch.run(book.enter)
    except BaseException as stopped:
        left = (await batch.stop())[len(book.records) :]
        await book.close(left, tell=isinstance(stopped, asyncio.CancelledError))
        raise
    if conflict is not None:
        raise conflict
    return Answers(tuple(book.records))


async def _claim(run: Run, call: ToolCall, seen: int) -> SessionConflict | None:
    """Be the one who goes on with open calls; returns the conflict where somebody else is."""
    try:
        await run.transcript.note(CallStartedRecord(call.id, call.name), expected=seen)
    except SessionConflict as conflict:
        return conflict
    return None


class _Book:
    """Where it is written what became of each call."""

    def __init__(self, run: Run, calls: Sequence[ToolCall]) -> None:
        self.records: list[ToolCallRecord] = []
        self._run = run
        self._calls = calls
        self._started: list[float] = []

    def begin(self, call: ToolCall) -> None:
        """A call is about to be looked up."""
        self._started.append(time.time())
        self._run.emit(ToolCalled(turn=self._run.turns, call=call))

    async def enter(self, result: ToolResult) -> None:
        """The next call has its result."""
        await self._append(result)
        self._run.emit(ToolAnswered(turn=self._run.turns, result=result))

    async def wait(self, waiting: Sequence[WaitingCall]) -> Answers:
        """These calls wait for consent."""
        calls = tuple(each.ready.call for each in waiting)
        await self._run.transcript.note(
            *(ApprovalPendingRecord(call.id, call.name, call.arguments) for call in calls)
        )
        for call in calls:
            self._run.emit(ApprovalPending(turn=self._run.turns, call=call))
        return Answers(waiting=calls)

    async def close(self, left: Sequence[ToolResult], *, tell: bool) -> None:
        """The rest of the calls have their results; written to the end, whoever cancels once more."""
        await self._append(*left)
        if tell:
            for result in left:
                self._run.emit_safely(ToolAnswered(turn=self._run.turns, result=result))

    async def _append(self, *results: ToolResult) -> None:
        most, now = self._run.options.max_result_chars, time.time()
        await self._run.transcript.append(*(each.as_message(most) for each in results))
        for result in results:
            place = len(self.records)
            call, started = self._calls[place], self._started[place] if place < len(self._started) else now
            record = ToolCallRecord(
                call.id, call.name, call.arguments, result, self._run.tool_rounds + 1, started, now
            )
            self.records.append(record)
            self._run.records.append(record)
