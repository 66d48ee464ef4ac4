"""Answer the calls of a message: run them as a batch, write down each result, tell whoever watches.

Each call gets exactly one result in the history: in call order, and also when the run is stopped or
breaks in the middle. Where a call waits for consent nothing is run; that it waits is written down
instead. Used by `turn` and, for calls that an earlier run left open, by `resume`.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from stage0_gateway import Message, ToolCall
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    Claims,
    MessageRecord,
)
from stage3_tools.events import ApprovalPending, DecisionMade, ToolAnswered, ToolCalled
from stage3_tools.execution.settings import ReadyCall
from stage3_tools.execution.several_calls import Batch
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord, ToolResult
from stage3_tools.run.state import Run


def ran_tools(records: Iterable[ToolCallRecord]) -> bool:
    """Whether any of these calls was run, or its answer known from before; a refused one does not
    count.
    """
    return any(each.result.attempts or each.result.cached for each in records)


async def answer_calls(
    run: Run,
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    *,
    seen: int,
    decision: DecisionMade | None = None,
    known: Mapping[str, ToolResult] | None = None,
    written: Mapping[str, Message] | None = None,
) -> tuple[ToolCall, ...]:
    """Run the calls, and add their results to the history and to the records of the run.

    Args:
        run: The run they belong to.
        registry: The tools.
        calls: Calls of the newest message, each with an id of its own.
        seen: How many records the journal had when nobody had begun them yet.
        decision: To be told first; None where it was told in another run.
        known: Results that are there already, by call id.
        written: The messages that were made of some of them.

    Returns:
        The calls that wait for consent; if there are any, nothing was run.

    Raises:
        SessionConflict: Somebody else answers them: what was begun here has its result, unless
            theirs was first; the rest is theirs.
        Exception: What a listener or an approver raises. Every call has its result then, too.
    """
    book = _Book(run, calls, run.transcript.claims(seen), known or {}, written or {})
    batch = Batch(
        registry,
        calls,
        replace(await run.execution(), on_start=book.tool_begins),
        max_parallel=run.options.max_parallel_tools,
        known=known,
        on_finish=book.tool_ended,
    )
    try:
        if decision is not None:
            run.emit(decision)
        await batch.prepare(book.called)
        if not run.waits:
            batch.refuse_waiting()
        elif waiting := batch.waiting:
            return await book.wait(waiting)
        await batch.run(book.answered)
    except BaseException:
        await book.answer_the_rest(await batch.stop(), batch.has_begun)
        raise
    run.tool_rounds += ran_tools(book.records)
    return ()


class _Book:
    """Where it is written what became of each call."""

    def __init__(
        self,
        run: Run,
        calls: Sequence[ToolCall],
        claims: Claims,
        known: Mapping[str, ToolResult],
        written: Mapping[str, Message],
    ) -> None:
        self.records: list[ToolCallRecord] = []
        self._claims = claims
        self._run = run
        self._calls = calls
        self._started: list[float] = []
        self._written: set[str] = set()
        self._answers: dict[str, tuple[ToolResult, tuple[Message, str | None]]] = {
            id: (known[id], (message, None)) for id, message in written.items()
        }

    def called(self, call: ToolCall) -> None:
        """A call is about to be looked up."""
        self._started.append(time.time())
        self._run.tell(ToolCalled, call=call)

    async def tool_begins(self, call: ToolCall) -> None:
        """A tool is about to run."""
        await self._claims.add(CallStartedRecord(call.id, call.name))

    async def answered(self, result: ToolResult) -> None:
        """The next call has its result."""
        place = len(self.records)
        await self._write(result)
        self._record(place, result)
        self._run.tell(ToolAnswered, result=result)

    async def wait(self, waiting: Sequence[ReadyCall]) -> tuple[ToolCall, ...]:
        """Note that calls wait for consent, and return them."""
        stored = [each.call for each in waiting]
        records = (ApprovalPendingRecord(call.id, call.name, call.arguments) for call in stored)
        await self._run.transcript.note(*records)
        # Whoever is asked later should see what would be run, with the values of references in it.
        calls = tuple(replace(each.call, arguments=each.arguments.text) for each in waiting)
        for call in calls:
            self._run.tell(ApprovalPending, call=call)
        return calls

    async def tool_ended(self, result: ToolResult) -> None:
        """A call has ended; that is written down before anything else begins, so that a crash
        cannot undo it.

        Where the calls before it have their results this is its result already, else a note of what
        came of it. Not so where somebody is asked about results first.
        """
        if self._run.options.approve_result is not None:
            return
        before = itertools.takewhile(lambda call: call.id != result.call_id, self._calls)
        if all(call.id in self._written for call in before):
            await self._write(result)
        else:
            message, _ = await self._answer(result)
            await self._claims.add(CallFinishedRecord(result.call_id, result.status, message))

    async def answer_the_rest(
        self, results: Sequence[ToolResult], has_begun: Callable[[int], bool]
    ) -> None:
        """Calls that were cut off have their results, too: written at once, to the end, whoever
        cancels once more.

        Args:
            results: Those of all calls.
            has_begun: Whether the call at a place was begun here; one that was not may be somebody
                else's to answer.
        """
        places = range(len(self.records), len(results))
        left = [place for place in places if not self._claims.lost or has_begun(place)]
        await self._write(*(results[place] for place in left), skip=True)
        for place in left:
            told = place < len(self._started)
            self._record(place, results[place])
            if told:
                self._run.emit_safely(ToolAnswered(turn=self._run.turns, result=results[place]))
        self._run.tool_rounds += ran_tools(self.records)

    async def _write(self, *results: ToolResult, skip: bool = False) -> None:
        """Write down the results that are not written yet."""
        new = [each for each in results if each.call_id not in self._written]
        messages = [(await self._answer(each))[0] for each in new]
        await self._claims.add(*map(MessageRecord, messages), skip=skip)
        self._written.update(each.call_id for each in new)

    async def _answer(self, result: ToolResult) -> tuple[Message, str | None]:
        """The message that answers a call, made once."""
        kept = self._answers.get(result.call_id)
        if kept is None or kept[0] != result:
            kept = self._answers[result.call_id] = (result, await self._run.answer(result))
        return kept[1]

    def _record(self, place: int, result: ToolResult) -> None:
        call, now = self._calls[place], time.time()
        started = self._started[place] if place < len(self._started) else now
        message, variable = self._answers[call.id][1]
        record = ToolCallRecord(
            call.id,
            call.name,
            call.arguments,
            result,
            round=self._run.tool_rounds + 1,
            started=started,
            ended=now,
            message=message,
            variable=variable,
            usage=self._run.asked_with,
        )
        self.records.append(record)
        self._run.records.append(record)
