"""`run_calls`: run the calls of a message, and append exactly one result for each of them.

Results are appended in call order, also if the run is stopped or fails in between. If a call waits
for approval, no tool is run; that the calls wait is recorded instead. Used by `turn.py`, and by
`resume/` for calls that an earlier run left without results.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

from stage0_gateway import Message, ToolCall
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    MessageRecord,
    SessionConflict,
)
from stage3_tools.events import ApprovalPending, DecisionMade, ToolAnswered, ToolCalled
from stage3_tools.execution.one_call import PendingCall
from stage3_tools.execution.results import interrupted
from stage3_tools.execution.several_calls import cancel, groups, run_group
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord, ToolResult, stored_details
from stage3_tools.run.state import RunState, ran_tools


async def run_calls(
    run: RunState,
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    *,
    since: int,
    decision: Mapping[str, Any] | None = None,
    skip_reason: str = "",
    known: Mapping[str, ToolResult] | None = None,
    messages: Mapping[str, tuple[Message, str | None]] | None = None,
) -> tuple[ToolCall, ...]:
    """Run calls of the newest message, and append their results to the history and the records.

    `since` is the number of records in the journal before any of the calls was started. `decision`
    holds the fields of the event to report first, if no other run has reported it. `known` holds
    results that exist already, by call id, and `messages` their stored messages with the ids of
    their variables. With a `skip_reason`, a sentence for the model, no call is run.

    Returns:
        The calls that wait for approval. If there are any, no tool was run.

    Raises:
        SessionConflict: Another run continues with these calls. No further tool was started.
        Exception: A listener or an approver raised. Each call has its result.
    """
    if skip_reason:
        known = {call.id: interrupted(call, None, skip_reason) for call in calls}
    settings = await run.settings()  # it exists already, so this does not wait
    pending = [PendingCall(call, registry, settings, (known or {}).get(call.id)) for call in calls]
    results = _Results(run, pending, since, {**(messages or {})})
    try:  # nothing was awaited since the calls were appended: each of them gets a result
        if decision is not None:
            await run.events.emit(DecisionMade, calls=tuple(calls), **decision)
        for call in pending:
            await results.announce(call, registry)
            await call.prepare()
        waiting = [call for call in pending if call.phase == "waiting"]
        if waiting:
            return await results.suspend(waiting)
        limit = run.options.max_parallel_tools
        for group in groups(pending):
            async with aclosing(run_group(group, limit, settings.stopped, results.start)) as ended:
                async for call in ended:
                    await results.finish(call)
    except BaseException:
        await cancel(pending)
        await results.close()
        raise
    run.counts.tool_rounds += ran_tools(results.records)
    await deliver_cancellation()  # a tool may have returned in spite of it
    return ()


@dataclass(eq=False)
class _Results:
    """Appends the results of pending calls to the journal and to the records of the run.

    Attributes:
        run: The run.
        pending: The calls, in call order.
        length: The number of records in the journal.
        messages: The message of each result and the id of its variable, by call id.
        records: The calls whose results were recorded.
        start_times: The times of the calls that were announced.
    """

    run: RunState
    pending: Sequence[PendingCall]
    length: int
    messages: dict[str, tuple[Message, str | None]]
    records: list[ToolCallRecord] = field(default_factory=list)
    start_times: list[float] = field(default_factory=list)

    async def announce(self, pending: PendingCall, registry: ToolRegistry) -> None:
        """Report a call that is about to be looked up."""
        self.start_times.append(time.time())
        call = pending.call
        tool = registry.get(call.name) if call.name in registry else None
        await self.run.events.emit(ToolCalled, call=call, tool=tool)

    async def suspend(self, waiting: Sequence[PendingCall]) -> tuple[ToolCall, ...]:
        """Record calls that wait for approval; return them with the values of their references."""
        stored = [pending.call for pending in waiting]
        await self._append(
            *(ApprovalPendingRecord(call.id, call.name, call.arguments) for call in stored)
        )
        calls = tuple([pending.prepared for pending in waiting])
        for call in calls:
            await self.run.events.emit(ApprovalPending, call=call)
        return calls

    async def start(self, calls: Sequence[PendingCall]) -> None:
        """Record calls that start now. If another run has started them, no tool is run twice."""
        await deliver_cancellation()  # a cancelled run records no further call
        await self._append(
            *(CallStartedRecord(started.call.id, started.call.name) for started in calls)
        )
        await deliver_cancellation()

    async def finish(self, call: PendingCall) -> None:
        """Record a call that has ended. Results are appended in call order."""
        if call.error is not None:
            raise call.error
        position = len(self.records)
        if call.phase == "final":
            return  # it was recorded together with a call before it
        if call is not self.pending[position]:
            await self._record_early(call)
            return
        while position < len(self.pending) and self.pending[position].has_ended:
            result = await self.pending[position].review()
            await self._append(await self._message_record(result))
            await self._add_record(result)
            position += 1

    async def _record_early(self, call: PendingCall) -> None:
        """Record the outcome of a call before its result can be appended, in case of a crash."""
        needs_review = self.run.options.approve_result is not None
        if call.result is not None and call.was_run and not needs_review:
            record = await self._message_record(call.result)
            await self._append(
                CallFinishedRecord(call.call.id, call.result.status, record.message, record.details)
            )

    async def close(self) -> None:
        """Append a result for each call that has none, after the calls were cancelled."""
        results = [call.interrupt() for call in self.pending[len(self.records) :]]
        entries = [await self._message_record(result) for result in results]
        with suppress(SessionConflict):  # another run continues with the calls
            if entries:
                await self._append(*entries)
        for result in results:
            await self._add_record(result, is_stopped=True)
        self.run.counts.tool_rounds += ran_tools(self.records)

    async def _append(self, *records: Any) -> None:
        self.length = await self.run.transcript.append(*records, since=self.length)

    async def _message_record(self, result: ToolResult) -> MessageRecord:
        """The record of a result; its message and its variable are created once."""
        if result.call_id not in self.messages:
            self.messages[result.call_id] = await self.run.variables.message_of(result)
        message, _ = self.messages[result.call_id]
        details = None if result.details is None else stored_details(result.details)
        return MessageRecord(message, details)

    async def _add_record(self, result: ToolResult, *, is_stopped: bool = False) -> None:
        """Add a result to the records; report it, in a stopped run only if the call was."""
        position, now = len(self.records), time.time()
        call, was_announced = self.pending[position].call, position < len(self.start_times)
        message, variable = self.messages[call.id]
        record = ToolCallRecord(
            call.id,
            call.name,
            call.arguments,
            result,
            round=self.run.counts.tool_rounds + 1,
            started=self.start_times[position] if was_announced else now,
            ended=now,
            message=message,
            variable=variable,
            usage=self.run.last_usage,
        )
        self.records.append(record)
        self.run.records.append(record)
        answer: dict[str, Any] = {"result": result, "message": message, "variable": variable}
        if not is_stopped:
            await self.run.events.emit(ToolAnswered, **answer)
        elif was_announced:
            await self.run.events.emit_safely(ToolAnswered, **answer)


async def deliver_cancellation() -> None:
    """Let a cancellation that arrived during a shielded write take effect here."""
    if (task := asyncio.current_task()) and task.cancelling():
        await asyncio.sleep(0)
