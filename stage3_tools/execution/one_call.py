"""Execute one tool call and return one result.

    look up ─▶ parse ─▶ validate ─▶ approve ─▶ run, with retries ─▶ result

`prepare` contains the steps before the tool runs, and `run_ready` the steps after it. Every failure
becomes a result that the model can read. Only the cancellation of the task, and exceptions of
approvers, propagate. `several_calls` executes several calls; this room does not know the loop.
"""

import asyncio
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from uuid import uuid4

from stage0_gateway import ToolCall
from stage3_tools.context import ToolContext
from stage3_tools.errors import ToolError, safely
from stage3_tools.execution.approval import (
    ApprovalRequest,
    Edit,
    Later,
    Reject,
    ask_approver,
    edited_arguments,
    needs_approval,
)
from stage3_tools.execution.arguments import canonical, extract_arguments, parse_arguments
from stage3_tools.execution.error_kinds import classify_exception, raised_tool_error
from stage3_tools.execution.invocation import invoke
from stage3_tools.execution.results import failed, interrupted, status_after
from stage3_tools.execution.retries import can_retry, retry
from stage3_tools.execution.settings import REFERENCE, ExecutionSettings, ReadyCall, ToolLookup
from stage3_tools.result import ToolOutput, ToolResult, output_for_model
from stage3_tools.tool import Tool


async def execute_tool_call(
    registry: ToolLookup, call: ToolCall, settings: ExecutionSettings | None = None
) -> ToolResult:
    """Execute a call that a model wrote.

    Args:
        registry: The registry with the tool.
        call: The call; all of its values may be invalid.
        settings: None selects the defaults: no approver and no cache.

    Returns:
        The result: the output of the tool, or the failure. Mistakes of the model and exceptions of
        the tool are never raised.
    """
    settings = ExecutionSettings() if settings is None else settings
    ready = await prepare(registry, call, settings)
    if isinstance(ready, ToolResult):
        return ready
    if ready.waits:
        return approval_missing(ready, registry)
    return await reviewed(ready, await run_ready(ready, registry, settings), settings)


async def prepare(
    registry: ToolLookup, call: ToolCall, settings: ExecutionSettings
) -> ReadyCall | ToolResult:
    """Look up, parse, validate and approve a call.

    Returns:
        The call, ready to run or waiting for approval; or the result of a call that must not run.

    Raises:
        Exception: An exception of the approver.
    """
    started, tool, note = time.perf_counter(), None, ""
    try:
        if settings.screen is not None:
            note = settings.screen(call)
        tool = registry.get(call.name)
        if settings.expand is not None and REFERENCE in call.arguments:
            extraction = extract_arguments(tool, call.arguments)
            text = await settings.expand(tool, extraction.value)
            arguments = replace(parse_arguments(tool, text), repairs=extraction.repairs)
        else:
            arguments = parse_arguments(tool, call.arguments)
        ready = ReadyCall(call, tool, arguments, note)
        if settings.approve is None and tool.needs_approval is False:
            return ready
        return await _approve(ready, settings)
    except ToolError as error:
        error = _with_call_details(error, registry, tool)
        return replace(failed(call, error, duration=time.perf_counter() - started), note=note)


async def _approve(ready: ReadyCall, settings: ExecutionSettings) -> ReadyCall:
    """Return the call as approved or edited, or marked as waiting.

    Raises:
        ToolError: The call was rejected ("rejected"), or its edit is invalid ("validation").
    """
    if settings.approve is None:
        return replace(ready, waits=needs_approval(ready.tool, ready.arguments))
    request = _approval_request(ready, settings)
    match await ask_approver(settings.approve, request, ready.tool, settings.consent.calls):
        case Reject(reason):
            raise ToolError("rejected", reason or "A person rejected this call.")
        case Edit(edit):
            arguments = edited_arguments(ready.tool, edit)
            note = f"\nNote: a person changed the arguments of this call to {arguments.text}."
            return replace(ready, arguments=arguments, note=ready.note + note)
        case Later():
            return replace(ready, waits=True)
    return ready


def approval_missing(ready: ReadyCall, registry: ToolLookup) -> ToolResult:
    """Create the result of a call that waits for approval in a run without an approver."""
    error = ToolError("rejected", f"{ready.call.name} needs approval, and there is no approver.")
    return failed(ready.call, _with_call_details(error, registry, ready.tool))


async def run_ready(
    ready: ReadyCall,
    registry: ToolLookup,
    settings: ExecutionSettings,
    on_start: Callable[[], None] | None = None,
) -> ToolResult:
    """Run the tool of a call, or return its cached result.

    Args:
        ready: The call.
        registry: The registry whose names an error lists.
        settings: The settings of the run.
        on_start: Called immediately before each attempt.

    Returns:
        The result; a failure of the tool is a result, too.
    """
    cache, tool = settings.cache, ready.tool
    if cache is None:
        return await _run(ready, registry, settings, on_start)
    if tool.effect != "read":
        cache.clear()
        try:
            return await _run(ready, registry, settings, on_start)
        finally:
            cache.clear()
    key = cache.key(settings.origin or settings.session_id, tool, ready.arguments)
    version = cache.version
    if cached := cache.get(key, tool):
        cached = replace(cached, call_id=ready.call.id, cached=True, attempts=0, duration=0.0)
        return replace(cached, repairs=ready.arguments.repairs, note=ready.note)
    result = await _run(ready, registry, settings, on_start)
    if result.status == "completed":
        cache.put(key, tool, result, version)
    return result


async def _run(
    ready: ReadyCall,
    registry: ToolLookup,
    settings: ExecutionSettings,
    on_start: Callable[[], None] | None,
) -> ToolResult:
    started, call, tool = time.perf_counter(), ready.call, ready.tool
    attempts = _Attempts(ready, settings, on_start)
    try:
        try:
            value, details = await attempts.attempt(1)
        except ToolError as first_error:
            if not can_retry(tool, first_error, 1, settings.stopped):
                raise
            value, details = await retry(
                tool,
                first_error,
                attempts.attempt,
                on_retry=attempts.report_retry,
                stopped=settings.stopped,
            )
        output = output_for_model(value)
    except ToolError as error:
        if not attempts.count and error.kind == "interrupted":
            return interrupted(call, None)
        status = None
        if attempts.count:
            status = status_after(tool, error, is_explained=attempts.is_explained)
        error, duration = _with_call_details(error, registry, tool), time.perf_counter() - started
        result = failed(call, error, status, duration=duration, attempts=attempts.count)
        return replace(result, repairs=ready.arguments.repairs, note=ready.note)
    return ToolResult(
        call.id,
        call.name,
        output,
        details,
        duration=time.perf_counter() - started,
        attempts=attempts.count,
        repairs=ready.arguments.repairs,
        note=ready.note,
        is_json=isinstance(output, str) and not isinstance(value, str),
    )


@dataclass(eq=False, slots=True)
class _Attempts:
    """The attempts of one call.

    Attributes:
        count: Number of attempts whose function was called.
        is_explained: Whether the tool or a `Classify` function described the last failure.
    """

    ready: ReadyCall
    settings: ExecutionSettings
    on_start: Callable[[], None] | None
    context: ToolContext | None = None
    count: int = 0
    is_explained: bool = True

    async def attempt(self, number: int) -> tuple[Any, Any]:
        """Run the tool once and return its value and its details for people.

        Args:
            number: The number of the attempt, counted from 1.

        Raises:
            ToolError: The classified failure.
        """
        tool, arguments = self.ready.tool, self.ready.arguments
        self.is_explained = True
        if number > 1:  # the previous attempt may have changed the value
            arguments = parse_arguments(tool, arguments.text)
        if tool.takes_context:
            self.context = (
                self.context.next_attempt()
                if self.context is not None
                else _tool_context(self.ready, self.settings)
            )
        try:
            value = await invoke(tool, arguments.value, self.context, self._start)
            # By type, because isinstance() would also run the code of a value's own `__class__`.
            if issubclass(type(value), ToolOutput):
                return value.output, value.details
            return value, None
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise  # they address this task, its program, or its coroutine
        except BaseException as exception:  # sys.exit() in a tool does not end the program
            raise self._classified(exception) from exception

    def _start(self) -> None:
        if self.settings.stopped is not None and self.settings.stopped():
            raise ToolError("interrupted", "The run was stopped.")
        self.count += 1
        if self.on_start is not None:
            self.on_start()

    def _classified(self, exception: BaseException) -> ToolError:
        if (raised := raised_tool_error(exception)) is not None:
            return raised
        error = self.settings.classify(exception) if self.settings.classify else None
        self.is_explained = error is not None
        if error is None:
            error = classify_exception(exception, text=self.settings.error_text)
        text = safely(lambda: "".join(traceback.format_exception(exception)), "")
        return error.with_details(traceback=text)

    def report_retry(self, error: ToolError, number: int) -> None:
        """Report that a failed attempt is retried."""
        if self.settings.on_retry is not None:
            self.settings.on_retry(self.ready.call, error, number)


def _tool_context(ready: ReadyCall, settings: ExecutionSettings) -> ToolContext:
    call, on_progress = ready.call, settings.on_progress
    report = None if on_progress is None else (lambda value: on_progress(call, value))
    if settings.origin is None:
        key = uuid4().hex
    else:
        # An approver may have changed the arguments, so the key contains them. It does not depend
        # on their spelling, which a resumed run may not know.
        arguments = canonical(ready.arguments.parsed())
        identity = f"{settings.origin}\0{call.id}\0{arguments}"
        key = sha256(identity.encode(errors="replace")).hexdigest()
    return ToolContext(ready.tool.name, call.id, settings.session_id, key, report)


async def reviewed(ready: ReadyCall, result: ToolResult, settings: ExecutionSettings) -> ToolResult:
    """Return a completed result, or its rejection by the approver of results.

    Raises:
        TypeError: The approver returned a verdict that is not valid for a result.
        Exception: An exception of the approver.
    """
    if settings.approve_result is None or result.status != "completed":
        return result
    request = replace(_approval_request(ready, settings), result=result)
    consent = settings.consent.results
    match await ask_approver(settings.approve_result, request, ready.tool, consent):
        case Reject(reason):
            reason = reason or "A person rejected the result of this call."
            error = ToolError("result_rejected", reason)
            rejected = failed(ready.call, error, duration=result.duration, attempts=result.attempts)
            return replace(rejected, repairs=result.repairs, note=result.note)
        case Edit() | Later() as verdict:
            raise TypeError(
                f"A result can be approved or rejected; {type(verdict).__name__}() is for calls."
            )
    return result


def _approval_request(ready: ReadyCall, settings: ExecutionSettings) -> ApprovalRequest:
    tool, arguments = ready.tool, ready.arguments
    is_needed = needs_approval(tool, arguments)
    return ApprovalRequest(
        ready.call.id, tool.name, arguments.parsed(), tool.effect, is_needed, settings.session_id
    )


def _with_call_details(error: ToolError, registry: ToolLookup, tool: Tool | None) -> ToolError:
    """Add the details that every error has: the schema, the issues, the available tools."""
    schema = None if tool is None else tool.parameters
    return error.with_details(expected_schema=schema, issues=(), available_tools=registry.names)
