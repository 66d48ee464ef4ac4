"""Execute one tool call and return one result.

    look up ─▶ parse ─▶ validate ─▶ approve ─▶ run, with retries ─▶ result

`prepare` contains the steps before the tool runs, and `RunningCall` runs it. Every failure becomes
a result that the model can read. Only the cancellation of the task, and exceptions of approvers,
propagate. `several_calls` executes several calls; this room does not know the loop.
"""

import asyncio
import sys
import time
import traceback
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any
from uuid import uuid4

from stage0_gateway import ToolCall
from stage3_tools.context import ToolContext
from stage3_tools.errors import ToolError, safely
from stage3_tools.execution.approval import (
    ApprovalRequest,
    Approver,
    Edit,
    Later,
    Redact,
    Reject,
    ask_approver,
    edited_arguments,
    needs_approval,
    requires_approval,
)
from stage3_tools.execution.arguments import (
    Arguments,
    canonical,
    extract_arguments,
    parse_arguments,
)
from stage3_tools.execution.cache import ResultCache
from stage3_tools.execution.error_kinds import classify_exception, raised_tool_error
from stage3_tools.execution.invocation import invoke
from stage3_tools.execution.results import failed, interrupted, status_after
from stage3_tools.execution.retries import can_retry, retry
from stage3_tools.execution.settings import (
    REFERENCE,
    ExecutionSettings,
    Expand,
    ReadyCall,
    ToolLookup,
)
from stage3_tools.result import (
    MAY_HAVE_HAPPENED,
    ToolOutput,
    ToolResult,
    output_for_model,
    output_text,
)
from stage3_tools.tool import Tool

_NOT_APPROVED = "The text of this failure was not approved."
"""Replaces the text of a failure that is retried, where results need approval."""


async def prepare(
    registry: ToolLookup, call: ToolCall, settings: ExecutionSettings
) -> ReadyCall | ToolResult:
    """Look up, parse, validate and approve a call; return the result of a rejected call."""
    started, tool, note = time.perf_counter(), None, ""
    try:
        if settings.screen is not None:
            note = settings.screen(call)
        tool = registry.get(call.name)
        if settings.expand is not None and REFERENCE in call.arguments:
            arguments = await _expanded_arguments(tool, call, settings.expand)
        else:
            arguments = parse_arguments(tool, call.arguments)
        ready = ReadyCall(call, tool, registry, arguments, note)
        if settings.approve is None and not tool.needs_approval:
            return ready
        return await _approve(ready, settings)
    except ToolError as error:
        error = _with_call_details(error, registry, tool)
        return replace(failed(call, error, duration=time.perf_counter() - started), note=note)


async def _expanded_arguments(tool: Tool, call: ToolCall, expand: Expand) -> Arguments:
    extraction = extract_arguments(tool, call.arguments)
    text = await expand(tool, extraction.value)
    return replace(parse_arguments(tool, text), repairs=extraction.repairs)


async def _approve(ready: ReadyCall, settings: ExecutionSettings) -> ReadyCall:
    """Return the call as approved or edited, or marked as waiting.

    Raises:
        ToolError: The call was rejected ("rejected"), or its edit is invalid ("validation").
    """
    if settings.approve is None:
        waits = requires_approval(ready.tool, ready.arguments)
        return replace(ready, waits=True) if waits else ready
    request = _approval_request(ready, settings)
    if not (request.needs_approval or settings.approve_all):
        return ready
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


def approval_missing(ready: ReadyCall) -> ToolResult:
    """Create the result of a call that waits for approval in a run without an approver."""
    error = ToolError("rejected", f"{ready.call.name} needs approval, and there is no approver.")
    return failed(ready.call, _with_call_details(error, ready.registry, ready.tool))


async def run_cached(cache: ResultCache, running: "RunningCall") -> ToolResult:
    """Return the cached result of a call, or run its tool and update the cache."""
    ready, tool = running.ready, running.ready.tool
    if tool.effect != "read":
        cache.clear()
        try:
            return await running.run()
        finally:
            cache.clear()
    settings = running.settings
    key = cache.key(settings.origin or settings.session_id, tool, ready.arguments)
    version = cache.version
    if cached := cache.get(key, tool):
        cached = replace(cached, call_id=ready.call.id, cached=True, attempts=0, duration=0.0)
        return replace(cached, repairs=ready.arguments.repairs, note=ready.note)
    result = await running.run()
    if result.status == "completed":
        cache.put(key, tool, result, version)
    return result


@dataclass(eq=False, slots=True)
class RunningCall:
    """A call whose tool is run once, or several times if it fails.

    Attributes:
        started: Start time, by `time.perf_counter`.
        attempts: Number of attempts whose function was called.
        is_explained: Whether the tool or a `Classify` function described the last failure.
    """

    ready: ReadyCall
    settings: ExecutionSettings
    context: ToolContext | None = None
    started: float = field(default_factory=time.perf_counter)
    attempts: int = 0
    is_explained: bool = True

    async def run(self) -> ToolResult:
        """Run the tool; a failure of the tool is a result, too."""
        ready, tool, stopped = self.ready, self.ready.tool, self.settings.stopped
        try:
            try:
                value, details = await self.attempt(1)
            except ToolError as error:
                if not can_retry(tool, error, 1, stopped):
                    raise
                value, details = await retry(
                    tool, error, self.attempt, on_retry=self.report_retry, stopped=stopped
                )
            output = output_for_model(value)
        except ToolError as error:
            return self._failure(error)
        return ToolResult(
            ready.call.id,
            ready.call.name,
            output,
            details,
            value=value,
            duration=time.perf_counter() - self.started,
            attempts=self.attempts,
            repairs=ready.arguments.repairs,
            note=ready.note,
            is_json=isinstance(output, str) and not isinstance(value, str),
            arguments=ready.arguments.text,
        )

    async def attempt(self, number: int) -> tuple[Any, Any]:
        """Run the tool for the first or a later time; return its value, and details for people.

        Raises:
            ToolError: The classified failure.
        """
        tool, arguments, timeout = self.ready.tool, self.ready.arguments, self.settings.timeout
        self.is_explained = True
        if number > 1:  # the previous attempt may have changed the value
            arguments = parse_arguments(tool, arguments.text)
        if tool.takes_context:
            previous = self.context
            self.context = previous.next_attempt() if previous else self._first_context()
        try:
            value = await invoke(tool, arguments.value, self.context, self._start, timeout)
            # By type, because isinstance() would also run the code of a value's own `__class__`.
            if issubclass(type(value), ToolOutput):
                return value.output, value.details
            return value, None
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise  # they address this task, its program, or its coroutine
        except BaseException as exception:  # sys.exit() in a tool does not end the program
            raise self._classified(exception) from _without_callers(exception)

    def _start(self) -> None:
        if self.settings.stopped is not None and self.settings.stopped():
            raise ToolError("interrupted", "The run was stopped.")
        self.attempts += 1

    def _classified(self, exception: BaseException) -> ToolError:
        if (raised := raised_tool_error(exception)) is not None:
            return raised
        error = self.settings.classify(exception) if self.settings.classify else None
        self.is_explained = isinstance(error, ToolError)
        if not isinstance(error, ToolError):
            error = classify_exception(exception, text=error)
        text = safely(lambda: "".join(traceback.format_exception(exception)), "")
        return error.with_details(traceback=text)

    def _failure(self, error: ToolError) -> ToolResult:
        """Create the result of the call after its last attempt has failed."""
        ready, attempts, status = self.ready, self.attempts, None
        if not attempts and error.kind == "interrupted":
            return interrupted(ready.call, None)
        if attempts:
            status = status_after(ready.tool, error, is_explained=self.is_explained)
        error = _with_call_details(error, ready.registry, ready.tool)
        duration = time.perf_counter() - self.started
        result = failed(ready.call, error, status, duration=duration, attempts=attempts)
        arguments = ready.arguments
        return replace(result, repairs=arguments.repairs, note=ready.note, arguments=arguments.text)

    def _first_context(self) -> ToolContext:
        ready, call, settings = self.ready, self.ready.call, self.settings
        on_progress = settings.on_progress
        report = None if on_progress is None else (lambda value: on_progress(call, value))
        if settings.origin is None:
            key = uuid4().hex
        else:
            # An approver may have changed the arguments, so the key contains them. It does not
            # depend on their spelling, which a resumed run may not know.
            arguments = canonical(ready.arguments.parsed())
            identity = f"{settings.origin}\0{call.id}\0{arguments}"
            key = sha256(identity.encode(errors="replace")).hexdigest()
        return ToolContext(ready.tool.name, call.id, settings.session_id, key, report)

    def report_retry(self, error: ToolError, number: int) -> None:
        """Report that a failed attempt is retried."""
        if self.settings.approve_result is not None:  # only a result is approved
            error = ToolError(error.kind, _NOT_APPROVED, retryable=True)
        if self.settings.on_retry is not None:
            self.settings.on_retry(self.ready.call, error, number)


def _without_callers(exception: BaseException) -> BaseException:
    """Remove the frames of `attempt` and `invoke` from the traceback of a caught exception.

    The result of the call refers to the exception. A frame may refer to its callers, and these to
    the result, so the objects of the call would stay in memory until the garbage collector runs.
    """
    frames = sys.exc_info()[2]
    for _ in range(2):
        frames = frames and frames.tb_next
    return BaseException.with_traceback(exception, frames)


async def review(
    approver: Approver, ready: ReadyCall, result: ToolResult, settings: ExecutionSettings
) -> ToolResult:
    """Return a result as the approver of results approved, redacted or rejected it.

    The result of a call whose tool was not run is returned unchanged.

    Raises:
        TypeError: The approver returned a verdict that is not valid for a result, or a redacted
            output that has no JSON form.
        Exception: An exception of the approver.
    """
    if not was_run(result):
        return result
    request = replace(_approval_request(ready, settings), result=result)
    match await ask_approver(approver, request, ready.tool, settings.consent.results):
        case Reject(reason):
            reason = reason or "A person rejected the result of this call."
            error = ToolError("result_rejected", reason)
            rejected = failed(ready.call, error, duration=result.duration, attempts=result.attempts)
            rejected = replace(rejected, repairs=result.repairs, arguments=result.arguments)
            return replace(rejected, note=_unknown_effect(result, rejected) + result.note)
        case Redact(value, reason):
            note = f"\nNote: a person changed this result: {reason}" if reason else ""
            return _redacted(replace(result, note=result.note + note), value)
    return result


def was_run(result: ToolResult) -> bool:
    """Whether a result, or a failure, comes from the tool. Others contain nothing to approve."""
    return bool(result.attempts) or result.cached


def _redacted(result: ToolResult, value: Any) -> ToolResult:
    """Return the result with the redacted output of an approver, and without other texts."""
    try:
        output = output_for_model(value)
    except ToolError as problem:
        raise TypeError(
            f"The output of Redact(output) has no JSON form: {type(value).__name__}. Use text, or "
            "plain dicts, lists and numbers."
        ) from problem
    is_json = isinstance(output, str) and not isinstance(value, str)
    error = result.error
    if error is not None:  # without its hint, its details and its cause
        error = ToolError(error.kind, output_text(output), retryable=error.retryable)
    redacted = replace(result, output=output, is_json=is_json, details=None, error=error)
    return replace(redacted, note=_unknown_effect(result, redacted) + result.note)


def _unknown_effect(result: ToolResult, changed: ToolResult) -> str:
    """Return a note if only the original output states that the call may have happened."""
    is_missing = MAY_HAVE_HAPPENED not in output_text(changed.output)
    return f"\n{MAY_HAVE_HAPPENED}" if result.status == "unknown_effect" and is_missing else ""


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
