"""`PendingCall`: one call of a model, from its text to its result.

    new ─▶ ready ─▶ running ─▶ ended ─▶ final
     │                           ▲
     ├─▶ waiting                 │   needs approval, and nobody can approve it now
     ╰───────────────────────────╯   was rejected, or its result is known already

    ready    the arguments are valid, and the call is approved: the tool may be run
    ended    there is a result, unless the task of the call was cancelled
    final    the approver of results has seen a result of the tool

Every failure becomes a result that the model can read. Only the cancellation of the task, and
exceptions of approvers, propagate. `several_calls` executes several calls; this room does not know
the loop.
"""

import asyncio
import sys
import time
import traceback
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal
from uuid import uuid4

from stage0_gateway import ToolCall
from stage3_tools.context import ToolContext
from stage3_tools.errors import ToolError, safely
from stage3_tools.execution.approval import (
    ApprovalRequest,
    Consent,
    Edit,
    Later,
    Redact,
    Reject,
    Verdict,
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
from stage3_tools.execution.retries import MAX_WAIT, can_retry, policy_of
from stage3_tools.execution.settings import REFERENCE, ExecutionSettings, ToolLookup
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

_NOT_REVIEWED = "The tool was run, but the run was stopped before its result was approved."

_NO_ARGUMENTS = Arguments(None, "")

Phase = Literal["new", "waiting", "ready", "running", "ended", "final"]


@dataclass(eq=False, slots=True)
class PendingCall:
    """A call of a reply, and its state.

    Attributes:
        call: The call as the model wrote it; all of its values may be invalid.
        registry: The tools.
        settings: How the call is executed.
        result: The result; None before the call has ended, and if its task was cancelled. A call
            whose result is known from the beginning is not executed.
        phase: What happens next; see above.
        error: An exception that must end the run, such as KeyboardInterrupt.
        task: The task that runs the call; None if it runs alone, or has not started.
        attempts: The number of attempts whose function was called.
    """

    call: ToolCall
    registry: ToolLookup
    settings: ExecutionSettings
    result: ToolResult | None = None
    phase: Phase = "new"
    error: BaseException | None = None
    task: asyncio.Task[None] | None = None
    attempts: int = 0
    _tool: Tool | None = None
    _arguments: Arguments = _NO_ARGUMENTS  # valid from the phase "ready" on
    _note: str = ""  # text for the model behind the result
    _started: float = 0.0
    _context: ToolContext | None = None
    _number: int = 0  # of the newest attempt
    _is_explained: bool = True  # whether the tool, or `classify`, described the last failure

    # ---- new ─▶ ready, waiting or ended

    async def prepare(self) -> None:
        """Look up, parse, validate and approve the call, unless its result is known."""
        if self.result is not None:
            self.phase = "ended"
            return
        self._started = time.perf_counter()
        try:
            if self.settings.screen is not None:
                self._note = self.settings.screen(self.call)
            self._tool = self.registry.get(self.call.name)
            self._arguments = await self._parse(self._tool)
            if self.settings.approve is None and not self._tool.needs_approval:
                self.phase = "ready"
            else:
                self.phase = await self._approve(self._tool)
        except ToolError as error:
            duration = time.perf_counter() - self._started
            result = failed(self.call, self._with_call_details(error), duration=duration)
            self.result, self.phase = replace(result, note=self._note), "ended"

    async def _parse(self, tool: Tool) -> Arguments:
        text, expand = self.call.arguments, self.settings.expand
        if expand is None or REFERENCE not in text:
            return parse_arguments(tool, text)
        extraction = extract_arguments(tool, text)
        text = await expand(tool, extraction.value)
        return replace(parse_arguments(tool, text), repairs=extraction.repairs)

    async def _approve(self, tool: Tool) -> Phase:
        """Approve the call, or edit its arguments; return the next phase.

        Raises:
            ToolError: The call was rejected ("rejected"), or its edit is invalid ("validation").
        """
        settings = self.settings
        if settings.approve is None:
            return self._wait() if requires_approval(tool, self._arguments) else "ready"
        request = self._approval_request(tool)
        if not (request.needs_approval or settings.approve_all):
            return "ready"
        match await self._verdict(request, tool, settings.consent):
            case Reject(reason):
                raise ToolError("rejected", reason or "A person rejected this call.")
            case Edit(edit):
                self._arguments = edited_arguments(tool, edit)
                changed = self._arguments.text
                self._note += f"\nNote: a person changed the arguments of this call to {changed}."
            case Later():
                return self._wait()
        return "ready"

    def _wait(self) -> Phase:
        """Let the call wait for approval, or reject it if the run cannot be resumed."""
        if not self.settings.can_suspend:
            text = f"{self.call.name} needs approval, and there is no approver."
            raise ToolError("rejected", text)
        return "waiting"

    async def _verdict(self, request: ApprovalRequest, tool: Tool, consent: Consent) -> Verdict:
        """Ask the approver of calls or of results, and report the verdict."""
        settings, approved = self.settings, consent.calls
        approver = settings.approve
        if request.result is not None:
            approver, approved = settings.approve_result, consent.results
        assert approver is not None
        return await ask_approver(approver, request, tool, approved, settings.on_verdict)

    def skip(self) -> None:
        """End a call that has not started, because the run was stopped."""
        self.result, self.phase = interrupted(self.call, None), "ended"

    @property
    def has_ended(self) -> bool:
        """Whether the call has a result, or its task has ended without one."""
        return self.result is not None or (self.task is not None and self.task.done())

    @property
    def was_run(self) -> bool:
        """Whether the result comes from the tool. Others contain nothing to approve."""
        result = self.result if self._tool is not None else None
        return result is not None and (result.attempts > 0 or result.cached)

    @property
    def is_exclusive(self) -> bool:
        """Whether no other call may run at the same time."""
        return self.phase == "ready" and self._tool is not None and self._tool.exclusive

    @property
    def prepared(self) -> ToolCall:
        """The call with the arguments that the tool would receive."""
        return replace(self.call, arguments=self._arguments.text)

    # ---- ready ─▶ running ─▶ ended

    async def run(self) -> None:
        """Run the tool. Everything but a cancellation is stored in `result` and `error`."""
        tool, cache = self._tool, self.settings.cache
        assert tool is not None
        self.phase, self._started = "running", time.perf_counter()
        try:
            outcome = self._run(tool) if cache is None else self._run_cached(tool, cache)
            self.result = await outcome
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a KeyboardInterrupt in a task would end the event loop
            self.error = error
            self.result = interrupted(self.call, tool)
        self.phase = "ended"

    def run_in_task(self, ended: "asyncio.Queue[PendingCall]") -> None:
        """Run the tool in a task, and put the call into a queue when it has ended."""
        self.task = asyncio.create_task(self.run())
        self.task.add_done_callback(lambda _: ended.put_nowait(self))

    async def _run_cached(self, tool: Tool, cache: ResultCache) -> ToolResult:
        """Return the cached result of the call, or run its tool and update the cache."""
        if tool.effect != "read":
            cache.clear()
            try:
                return await self._run(tool)
            finally:
                cache.clear()
        settings = self.settings
        key = cache.key(settings.origin or settings.session_id, tool, self._arguments)
        version = cache.version
        if cached := cache.get(key, tool):
            cached = replace(cached, call_id=self.call.id, cached=True, attempts=0, duration=0.0)
            return replace(cached, repairs=self._arguments.repairs, note=self._note)
        result = await self._run(tool)
        if result.status == "completed":
            cache.put(key, tool, result, version)
        return result

    async def _run(self, tool: Tool) -> ToolResult:
        """Run the tool, again where its failure is retried; a failure is a result, too."""
        try:
            try:
                value, details = await self._attempt(tool, 1)
            except ToolError as error:
                if not can_retry(tool, error, 1, self.settings.stopped):
                    raise
                value, details = await self._retry(tool, error)
            output = output_for_model(value)
        except ToolError as error:
            return self._failure(tool, error)
        return ToolResult(
            self.call.id,
            self.call.name,
            output,
            details,
            value=value,
            duration=time.perf_counter() - self._started,
            attempts=self.attempts,
            repairs=self._arguments.repairs,
            note=self._note,
            is_json=isinstance(output, str) and not isinstance(value, str),
            arguments=self._arguments.text,
        )

    async def _retry(self, tool: Tool, first_error: ToolError) -> tuple[Any, Any]:
        """Make further attempts until one succeeds, or fails with an error that is not retried.

        Raises:
            ToolError: The error of the last attempt.
        """
        # stamina takes 10 ms to import and 20 µs per call. Most calls succeed without it.
        import stamina

        policy = policy_of(tool, first_error)
        async for attempt in stamina.retry_context(
            on=self._delay,
            attempts=None,
            timeout=None,
            wait_initial=policy.delay,
            wait_max=MAX_WAIT,
            wait_jitter=policy.delay / 2,
        ):
            with attempt:
                if attempt.num == 1:
                    raise first_error  # stamina waits after it
                return await self._attempt(tool, attempt.num)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _attempt(self, tool: Tool, number: int) -> tuple[Any, Any]:
        """Run the tool for the first or a later time; return its value, and details for people.

        Raises:
            ToolError: The classified failure.
        """
        arguments, timeout = self._arguments, self.settings.timeout
        self._number, self._is_explained = number, True
        if number > 1:  # the previous attempt may have changed the value
            arguments = parse_arguments(tool, arguments.text)
        if tool.takes_context:
            previous = self._context
            self._context = previous.next_attempt() if previous else self._first_context(tool)
        try:
            value = await invoke(tool, arguments.value, self._context, self._start, timeout)
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
        self._is_explained = isinstance(error, ToolError)
        if not isinstance(error, ToolError):
            error = classify_exception(exception, text=error)
        text = safely(lambda: "".join(traceback.format_exception(exception)), "")
        return error.with_details(traceback=text)

    def _failure(self, tool: Tool, error: ToolError) -> ToolResult:
        """Create the result of the call after its last attempt has failed."""
        attempts, status = self.attempts, None
        if not attempts and error.kind == "interrupted":
            return interrupted(self.call, None)
        if attempts:
            status = status_after(tool, error, is_explained=self._is_explained)
        error = self._with_call_details(error)
        duration = time.perf_counter() - self._started
        result = failed(self.call, error, status, duration=duration, attempts=attempts)
        used = self._arguments
        return replace(result, repairs=used.repairs, note=self._note, arguments=used.text)

    def _first_context(self, tool: Tool) -> ToolContext:
        call, settings = self.call, self.settings
        if settings.origin is None:
            key = uuid4().hex
        else:
            # An approver may have changed the arguments, so the key contains them. It does not
            # depend on their spelling, which a resumed run may not know.
            arguments = canonical(self._arguments.parsed())
            identity = f"{settings.origin}\0{call.id}\0{arguments}"
            key = sha256(identity.encode(errors="replace")).hexdigest()
        on_progress, sub_run = settings.on_progress, settings.sub_run
        return ToolContext(
            tool.name,
            call.id,
            settings.session_id,
            key,
            None if on_progress is None else (lambda value: on_progress(call, value)),
            None if sub_run is None else (lambda abort: sub_run(call, abort)),
        )

    def _delay(self, error: Exception) -> bool | float:
        """Report a retry, and return its delay: True is a growing one, and False is no retry."""
        tool, settings, number = self._tool, self.settings, self._number
        assert tool is not None
        if not isinstance(error, ToolError) or not can_retry(tool, error, number, settings.stopped):
            return False
        shown = error
        if settings.approve_result is not None:  # only a result is approved
            shown = ToolError(error.kind, _NOT_APPROVED, retryable=True)
        if settings.on_retry is not None:
            settings.on_retry(self.call, shown, number)
        return True if error.retry_delay is None else error.retry_delay

    # ---- ended ─▶ final

    async def review(self) -> ToolResult:
        """Let the approver of results check the result of the tool; return the final result.

        Raises:
            TypeError: The approver returned a verdict that is not valid for a result, or a redacted
                output that has no JSON form.
            Exception: The approver raised.
        """
        if self.result is None:
            reason = f"{self.call.name} cancelled itself."
            self.result = replace(interrupted(self.call, self._tool, reason), note=self._note)
        elif self.settings.approve_result is not None and self.phase == "ended":
            self.result = await self._reviewed(self.result)
        self.phase = "final"
        return self.result

    async def _reviewed(self, result: ToolResult) -> ToolResult:
        """Return a result of the tool as its approver approved, redacted or rejected it."""
        tool = self._tool
        if tool is None or not self.was_run:
            return result
        request = replace(self._approval_request(tool), result=result)
        match await self._verdict(request, tool, self.settings.consent):
            case Reject(reason):
                reason = reason or "A person rejected the result of this call."
                error, attempts = ToolError("result_rejected", reason), result.attempts
                rejected = failed(self.call, error, duration=result.duration, attempts=attempts)
                rejected = replace(rejected, repairs=result.repairs, arguments=result.arguments)
                return replace(rejected, note=_unknown_effect(result, rejected) + result.note)
            case Redact(value, reason):
                note = f"\nNote: a person changed this result: {reason}" if reason else ""
                return _redacted(replace(result, note=result.note + note), value)
        return result

    def interrupt(self) -> ToolResult:
        """The result of a call that was cancelled, or whose result can no longer be reviewed."""
        tool, result = self._tool if self.attempts else None, self.result
        if result is None:
            result = interrupted(self.call, tool)
        elif self.phase == "final" or not self.was_run:
            return result
        elif self.settings.approve_result is not None and self.error is None:
            result = interrupted(self.call, tool, _NOT_REVIEWED)
        return replace(result, note=self._note)

    # ---- values

    def _approval_request(self, tool: Tool) -> ApprovalRequest:
        arguments = self._arguments
        return ApprovalRequest(
            self.call.id,
            tool.name,
            arguments.parsed(),
            tool.effect,
            needs_approval(tool, arguments),
            self.settings.session_id,
        )

    def _with_call_details(self, error: ToolError) -> ToolError:
        """Add the details that every error has: the schema, the issues, the available tools."""
        schema = None if self._tool is None else self._tool.parameters
        names = self.registry.names
        return error.with_details(expected_schema=schema, issues=(), available_tools=names)


def _without_callers(exception: BaseException) -> BaseException:
    """Remove the frames above the tool's function from the traceback of a caught exception.

    The result of the call refers to the exception, and these frames to the call and its result, so
    all of them would stay in memory until the garbage collector runs.
    """
    frames = sys.exc_info()[2]
    while frames and frames.tb_frame.f_globals.get("__package__") == __package__:
        frames = frames.tb_next
    return BaseException.with_traceback(exception, frames)


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
