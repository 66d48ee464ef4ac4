"""Run one tool call, and make one honest result of whatever happens.

Look up, parse, check, run. Every failure on the way becomes a result the model can read; none goes up the
stack, except that whoever cancels the task is obeyed. Knows no loop and no dialect.
"""

import asyncio
import time
import traceback
from dataclasses import replace
from typing import Any

from stage0_gateway import ToolCall
from stage3_tools.arguments import parse_arguments
from stage3_tools.errors import ToolError, error_of
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ResultStatus, ToolOutput, ToolResult, output_for_model
from stage3_tools.tool import Tool


async def execute_tool_call(registry: ToolRegistry, call: ToolCall) -> ToolResult:
    """Run a call that a model asked for.

    Args:
        registry: Where the tool is looked up.
        call: The call as the model wrote it; nothing of it needs to be right.

    Returns:
        The result: the tool's output, or what went wrong. It never raises for what a model or a tool did.
    """
    started = time.perf_counter()
    try:
        tool = registry.get(call.name)
        arguments, repairs = parse_arguments(tool, call.arguments)
    except ToolError as refusal:
        refusal.details.setdefault("available_tools", [each.name for each in registry.list()])
        return failed(call, refusal, duration=time.perf_counter() - started)
    result = await _run(tool, call, arguments)
    return replace(result, repairs=repairs, duration=time.perf_counter() - started)


async def _run(tool: Tool, call: ToolCall, arguments: Any) -> ToolResult:
    try:
        value = await tool.run(arguments)
        output = value if isinstance(value, ToolOutput) else ToolOutput(value)
        text = output_for_model(output.output)
        return ToolResult(call.id, call.name, text, output.details, attempts=1)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise  # somebody wants this task to end
        error = ToolError("interrupted", f"{call.name} cancelled itself.")
    except (Exception, SystemExit) as exception:  # a tool that calls sys.exit ends itself, not the program
        error = _with_traceback(error_of(exception), exception)
    return failed(call, error, _status_after(tool, error), attempts=1)


def failed(
    call: ToolCall,
    error: ToolError,
    status: ResultStatus = "error",
    *,
    duration: float = 0.0,
    attempts: int = 0,
) -> ToolResult:
    """The result of a call that led to none.

    Args:
        call: The call.
        error: Why.
        status: How the failure counts; see `ToolResult`.
        duration: Seconds the call took.
        attempts: How often the tool was run.
    """
    text = error.for_model
    if status == "unknown_effect":
        text += "\nIt was cut off and may have happened. Check before you ask for it again."
    return ToolResult(call.id, call.name, text, error.details, True, error, duration, attempts, status=status)


def interrupted(call: ToolCall, begun_in: ToolRegistry | None) -> ToolResult:
    """The result of a call that was cut off while it ran, or before.

    Args:
        call: The call.
        begun_in: The registry whose tool was running, or None if it had not begun.
    """
    error = ToolError("interrupted", "The run was stopped before this call had a result.")
    if begun_in is not None and call.name in begun_in and begun_in.get(call.name).effect == "write":
        return failed(call, error, "unknown_effect", attempts=1)
    return failed(call, error, "interrupted")


def _status_after(tool: Tool, error: ToolError) -> ResultStatus:
    cut_off = error.kind in ("timeout", "network", "interrupted")
    return "unknown_effect" if cut_off and tool.effect == "write" else "error"


def _with_traceback(error: ToolError, exception: BaseException) -> ToolError:
    if error is not exception:
        error.details["traceback"] = "".join(traceback.format_exception(exception))
    return error
