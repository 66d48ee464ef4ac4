"""Run one tool call, and make one honest result of whatever happens.

    look up ─▶ parse ─▶ validate ─▶ approve ─▶ run, again where that is allowed ─▶ result

`prepare` is everything before the tool begins, `run_ready` everything after. Each failure on the
way becomes a result the model can read; none goes up the stack, except that whoever cancels the
task is obeyed. Knows one call; `batch.py` knows several, and no loop or dialect is known here.
"""

import asyncio
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from uuid import uuid4

from stage0_gateway import ToolCall
from stage3_tools.context import ToolContext
from stage3_tools.errors import ToolError
from stage3_tools.execution.approval import approved, reviewed
from stage3_tools.execution.arguments import Arguments, canonical, parse_arguments, read_arguments
from stage3_tools.execution.cache import through_cache
from stage3_tools.execution.error_kinds import error_of, own_error, safely
from stage3_tools.execution.results import failed, interrupted, status_after
from stage3_tools.execution.retries import with_retries
from stage3_tools.execution.settings import REFERENCE, Execution, ReadyCall
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolOutput, ToolResult, output_for_model
from stage3_tools.tool import Tool


async def execute_tool_call(
    registry: ToolRegistry, call: ToolCall, execution: Execution | None = None
) -> ToolResult:
    """Run a call that a model asked for.

    Args:
        registry: Where the tool is looked up.
        call: The call as the model wrote it; nothing of it needs to be right.
        execution: None takes the defaults: nobody is asked, nothing is cached.

    Returns:
        The result: the tool's output, or what went wrong. It never raises for what a model or a
        tool did.
    """
    execution = Execution() if execution is None else execution
    prepared = await prepare(registry, call, execution)
    if isinstance(prepared, ToolResult):
        return prepared
    if prepared.waits:
        return nobody_to_ask(prepared, registry)
    result = await run_ready(prepared, registry, execution)
    return await reviewed(prepared, result, execution)


async def prepare(
    registry: ToolRegistry, call: ToolCall, execution: Execution
) -> ReadyCall | ToolResult:
    """Everything that comes before a tool begins.

    Returns:
        The call, ready to be run or waiting for consent; or the result that says why it will not be
        run.
    """
    started, tool, note = time.perf_counter(), None, ""
    try:
        note = execution.screen(call) if execution.screen else ""
        tool = registry.get(call.name)
        return await approved(
            ReadyCall(call, tool, await _arguments(tool, call, execution), note), execution
        )
    except ToolError as refusal:
        result = failed(
            call, _complete(refusal, registry, tool), duration=time.perf_counter() - started
        )
        return replace(result, note=note)


async def _arguments(tool: Tool, call: ToolCall, execution: Execution) -> Arguments:
    """The arguments, with the values of the variables they refer to."""
    if execution.expand is None or REFERENCE not in call.arguments:
        return parse_arguments(tool, call.arguments)
    found = read_arguments(tool, call.arguments)
    text = await execution.expand(tool, found.value)
    return replace(parse_arguments(tool, text), repairs=found.repairs)


async def run_ready(
    ready: ReadyCall,
    registry: ToolRegistry,
    execution: Execution,
    on_begin: Callable[[], None] | None = None,
) -> ToolResult:
    """Run the tool, or return its cached result; an exception of the tool becomes the result.

    Args:
        ready: The call.
        registry: The tools that an error lists.
        execution: How the call is executed.
        on_begin: Called immediately before each attempt.
    """
    return await through_cache(ready, execution, lambda: _run(ready, registry, execution, on_begin))


def nobody_to_ask(waiting: ReadyCall, registry: ToolRegistry) -> ToolResult:
    """The result of a call that waits for consent, where nobody waits with it."""
    error = ToolError("rejected", f"{waiting.call.name} needs approval, and nobody could be asked.")
    return failed(waiting.call, _complete(error, registry, waiting.tool))


async def _run(
    ready: ReadyCall,
    registry: ToolRegistry,
    execution: Execution,
    on_begin: Callable[[], None] | None,
) -> ToolResult:
    started, tries = time.perf_counter(), _Tries(ready, execution, on_begin)
    try:
        output = await with_retries(ready.tool, tries.once, tries.told, execution.stopped)
        text = output_for_model(output.output)
    except ToolError as error:
        if not tries.count and error.kind == "interrupted":
            return interrupted(ready.call, None)
        status = status_after(ready.tool, error, named=tries.named) if tries.count else None
        error, spent = _complete(error, registry, ready.tool), time.perf_counter() - started
        result = failed(ready.call, error, status, duration=spent, attempts=tries.count)
        return replace(result, repairs=ready.arguments.repairs, note=ready.note)
    spent = time.perf_counter() - started
    is_json = isinstance(text, str) and not isinstance(output.output, str)
    return ToolResult(
        ready.call.id,
        ready.call.name,
        text,
        output.details,
        duration=spent,
        attempts=tries.count,
        repairs=ready.arguments.repairs,
        note=ready.note,
        is_json=is_json,
    )


class _Tries:
    """The tries of one call."""

    def __init__(
        self, ready: ReadyCall, execution: Execution, on_begin: Callable[[], None] | None = None
    ) -> None:
        self.count = 0  # attempts that began
        self._on_begin = on_begin
        self.named = True  # whether the tool or a Classify said what the failure is
        self._ready, self._execution = ready, execution
        self._context = _context(ready, execution) if ready.tool.wants_context else None

    async def once(self, number: int) -> ToolOutput:
        """Run the tool once.

        Raises:
            ToolError: Whatever went wrong, by its kind.
        """
        self.named = True
        tool, arguments = self._ready.tool, self._ready.arguments
        if number > 1:  # the last try may have changed what it was given
            arguments = parse_arguments(tool, arguments.text)
            self._context = self._context and self._context.next_attempt()
        try:
            value = await tool.run(arguments.value, self._context, begin=self._begin)
            # By type: isinstance() would also run the code of a value's own `__class__`.
            if issubclass(type(value), ToolOutput):
                return ToolOutput(value.output, value.details)
            return ToolOutput(value)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise  # they are meant for this task, its program, or its coroutine
        except BaseException as exception:  # who calls sys.exit ends the tool, not the program
            raise self._classified(exception) from exception

    def _begin(self) -> None:
        if self._execution.stopped is not None and self._execution.stopped():
            raise ToolError("interrupted", "The run was stopped.")
        self.count += 1
        if self._on_begin is not None:
            self._on_begin()

    def _classified(self, exception: BaseException) -> ToolError:
        if (own := own_error(exception)) is not None:
            return own
        error = self._execution.classify(exception) if self._execution.classify else None
        self.named = error is not None
        if error is None:
            error = error_of(exception, text=self._execution.error_text)
        text = safely(lambda: "".join(traceback.format_exception(exception)), "")
        return error.with_details(traceback=text)

    def told(self, error: ToolError, number: int) -> None:
        """There will be another try."""
        if self._execution.on_retry is not None:
            self._execution.on_retry(self._ready.call, error, number)


def _context(ready: ReadyCall, execution: Execution) -> ToolContext:
    call, origin, on_progress = ready.call, execution.origin, execution.on_progress
    tell = None if on_progress is None else (lambda value: on_progress(call, value))
    # The arguments, too, for somebody may have changed them; not their spelling, which a resumed
    # run may not know.
    identity = f"{origin}\0{call.id}\0{canonical(ready.arguments.given)}"
    key = uuid4().hex if origin is None else sha256(identity.encode(errors="replace")).hexdigest()
    return ToolContext(ready.tool.name, call.id, execution.session_id, key, tell)


def _complete(error: ToolError, registry: ToolRegistry, tool: Tool | None) -> ToolError:
    """The error with everything its details are promised to hold."""
    schema = None if tool is None else tool.parameters
    return error.with_details(expected_schema=schema, issues=(), available_tools=registry.names)
