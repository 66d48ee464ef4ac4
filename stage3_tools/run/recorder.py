"""Run the calls of a message, and append exactly one result for each of them.

Results are appended in call order, also if the run is stopped or fails in between. If a call waits
for approval, no tool is run; that the calls wait is recorded instead. Used by `turn.py`, and by
`resume/` for calls that an earlier run left without results.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
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
from stage3_tools.execution.results import interrupted
from stage3_tools.execution.several_calls import PendingCall, cancel, groups, run_group
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord, ToolResult, stored_details
from stage3_tools.run.state import RunState, ran_tools


async def run_and_record_calls(
    run: RunState,
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    *,
    expected_length: int,
    decision: Mapping[str, Any] | None = None,
    skip_reason: str = "",
    known: Mapping[str, ToolResult] | None = None,
    messages: Mapping[str, Message] | None = None,
) -> tuple[ToolCall, ...]:
    """Run calls of the newest message, and append their results to the history and the records.

    Each call has a unique id. `expected_length` is the number of records in the journal before any
    of the calls was started. `decision` holds the fields of the event to report first, if no other
    run has reported it. `known` holds results that exist already, by call id, and `messages` their
    stored messages. With a `skip_reason`, a sentence for the model, no call is run.

    Returns:
        The calls that wait for approval. If there are any, no tool was run.

    Raises:
        SessionConflict: Another run continues with these calls. No further tool was started.
        Exception: A listener or an approver raised. Each call has its result.
    """
    if skip_reason:
        known = {call.id: interrupted(call, None, skip_reason) for call in calls}
    pending = [PendingCall(call, result=(known or {}).get(call.id)) for call in calls]
    recorder = _ResultRecorder(run, pending, expected_length, messages or {})
    try:  # nothing was awaited since the calls were appended: each of them gets a result
        if decision is not None:
            await run.notify(DecisionMade, calls=tuple(calls), **decision)
        settings = await run.settings()
        for one in pending:
            await recorder.announce(one.call)
            await one.prepare(registry, settings)
        waiting = [one for one in pending if one.is_waiting]
        if waiting and run.can_suspend:
            return await recorder.suspend(waiting)
        for one in waiting:
            one.reject()
        for group in groups(pending):
            limit = run.options.max_parallel_tools
            async with aclosing(run_group(group, settings, limit, recorder.start)) as ended:
                async for one in ended:
                    await recorder.finish(one)
    except BaseException:
        await cancel(pending)
        await recorder.close()
        raise
    run.tool_rounds += ran_tools(recorder.records)
    await deliver_cancellation()  # a tool may have returned in spite of it
    return ()


class _ResultRecorder:
    """Appends the results of pending calls to the journal and to the records of the run.

    Args:
        run: The run.
        pending: The calls, in call order.
        expected_length: The number of records in the journal.
        messages: The messages of known results that were stored, by call id.

    Attributes:
        records: The calls whose results were recorded.
    """

    def __init__(
        self,
        run: RunState,
        pending: Sequence[PendingCall],
        expected_length: int,
        messages: Mapping[str, Message],
    ) -> None:
        self.records: list[ToolCallRecord] = []
        self._run, self._pending, self._length = run, pending, expected_length
        self._start_times: list[float] = []  # of the calls that were announced
        self._messages: dict[str, tuple[Message, str | None]] = {
            call_id: (message, None) for call_id, message in messages.items()
        }

    async def announce(self, call: ToolCall) -> None:
        """Report a call that is about to be looked up."""
        self._start_times.append(time.time())
        await self._run.notify(ToolCalled, call=call)

    async def suspend(self, waiting: Sequence[PendingCall]) -> tuple[ToolCall, ...]:
        """Record calls that wait for approval; return them with the values of their references."""
        stored = [one.call for one in waiting]
        await self._append(
            *(ApprovalPendingRecord(call.id, call.name, call.arguments) for call in stored)
        )
        calls = []
        for one in waiting:
            assert one.ready is not None
            calls.append(replace(one.call, arguments=one.ready.arguments.text))
            await self._run.notify(ApprovalPending, call=calls[-1])
        return tuple(calls)

    async def start(self, calls: Sequence[PendingCall]) -> None:
        """Record calls that start now. If another run has started them, no tool is run twice."""
        await deliver_cancellation()  # a cancelled run records no further call
        await self._append(*(CallStartedRecord(one.call.id, one.call.name) for one in calls))
        await deliver_cancellation()

    async def finish(self, one: PendingCall) -> None:
        """Record a call that has ended. Results are appended in call order."""
        if one.error is not None:
            raise one.error
        if one.reviewed:
            return  # it was recorded together with a call before it
        position = len(self.records)
        if one is not self._pending[position]:
            await self._record_early(one)
            return
        settings = await self._run.settings()
        while position < len(self._pending) and self._has_ended(self._pending[position]):
            result = await self._pending[position].review(settings)
            await self._append(await self._message_record(result))
            self._add_record(result)
            await self._run.notify(ToolAnswered, result=result)
            position += 1

    async def _record_early(self, one: PendingCall) -> None:
        """Record the outcome of a call before its result can be appended, in case of a crash."""
        needs_review = self._run.options.approve_result is not None
        if one.ready is not None and one.result is not None and not needs_review:
            record = await self._message_record(one.result)
            await self._append(
                CallFinishedRecord(one.call.id, one.result.status, record.message, record.details)
            )

    @staticmethod
    def _has_ended(one: PendingCall) -> bool:
        return one.result is not None or (one.task is not None and one.task.done())

    async def close(self) -> None:
        """Append a result for each call that has none, after the calls were cancelled."""
        settings, left = await self._run.settings(), self._pending[len(self.records) :]
        results = [one.interrupt(settings) for one in left]
        entries = [await self._message_record(result) for result in results]
        with suppress(SessionConflict):  # another run continues with the calls
            if entries:
                await self._append(*entries)
        for result in results:
            was_announced = len(self.records) < len(self._start_times)
            self._add_record(result)
            if was_announced:
                await self._run.notify_safely(ToolAnswered, result=result)
        self._run.tool_rounds += ran_tools(self.records)

    async def _append(self, *records: Any) -> None:
        self._length = await self._run.transcript.append(*records, since=self._length)

    async def _message(self, result: ToolResult) -> tuple[Message, str | None]:
        """The message of a result and the id of its variable, created once."""
        if result.call_id not in self._messages:
            self._messages[result.call_id] = await self._run.result_message(result)
        return self._messages[result.call_id]

    async def _message_record(self, result: ToolResult) -> MessageRecord:
        message, _ = await self._message(result)
        details = None if result.details is None else stored_details(result.details)
        return MessageRecord(message, details)

    def _add_record(self, result: ToolResult) -> None:
        position, now = len(self.records), time.time()
        call = self._pending[position].call
        started = self._start_times[position] if position < len(self._start_times) else now
        message, variable = self._messages[call.id]
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
            usage=self._run.last_usage,
        )
        self.records.append(record)
        self._run.records.append(record)


async def deliver_cancellation() -> None:
    """Let a cancellation that arrived during a shielded write take effect here."""
    if (task := asyncio.current_task()) and task.cancelling():
        await asyncio.sleep(0)
