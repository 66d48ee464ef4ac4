"""Create the results of calls that failed or were interrupted.

A failed write may have happened, and its result states this, unless the tool (with a `ToolError`)
or a `Classify` function describes the failure. Used wherever a call ends without an output.
"""

from stage0_gateway import ToolCall
from stage3_tools.errors import ToolError
from stage3_tools.result import MAY_HAVE_HAPPENED, ResultStatus, ToolResult
from stage3_tools.tool import Tool

STOPPED = "The run was stopped before this call was run."
"""The text of a call that did not start because of an abort or a limit."""

_OUTCOME_UNKNOWN = ("timeout", "network", "interrupted", "unknown")
_STATUS_OF_KIND: dict[str, ResultStatus] = {
    "rejected": "rejected",
    "result_rejected": "result_rejected",
    "interrupted": "interrupted",
}


def failed(
    call: ToolCall,
    error: ToolError,
    status: ResultStatus | None = None,
    *,
    duration: float = 0.0,
    attempts: int = 0,
) -> ToolResult:
    """Create the result of a failed call.

    Args:
        call: The call.
        error: The failure.
        status: The status of the result; None derives it from the kind of the error.
        duration: Seconds the call took.
        attempts: Number of attempts.
    """
    status = _STATUS_OF_KIND.get(error.kind, "error") if status is None else status
    text = error.for_model
    if status == "unknown_effect":
        text += f"\n{MAY_HAVE_HAPPENED}"
    return ToolResult(
        call.id, call.name, text, error.details, True, error, duration, attempts, status=status
    )


def interrupted(call: ToolCall, started: Tool | None, reason: str = "") -> ToolResult:
    """Create the result of a call that was interrupted.

    Args:
        call: The call.
        started: The tool, if its function was called; otherwise None.
        reason: The text for the model; "" states that the run was stopped.
    """
    error = ToolError("interrupted", reason or "The run was stopped before this call had a result.")
    if started is not None and started.effect == "write":
        return failed(call, error, "unknown_effect", attempts=1)
    return failed(call, error, "interrupted", attempts=0 if started is None else 1)


def status_after(tool: Tool, error: ToolError, *, is_explained: bool) -> ResultStatus:
    """Return the status of a call whose tool was run and failed.

    Args:
        tool: The tool.
        error: The failure.
        is_explained: Whether the tool or a `Classify` function described the failure.
    """
    if tool.effect == "write" and (error.kind in _OUTCOME_UNKNOWN or not is_explained):
        return "unknown_effect"
    if error.kind == "interrupted":
        return "error"
    return _STATUS_OF_KIND.get(error.kind, "error")
