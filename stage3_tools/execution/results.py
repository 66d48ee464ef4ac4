"""The results of calls that failed or were interrupted, in words that a model can act on.

A write that failed may have happened, and its result says so, unless the tool itself (with a
`ToolError`) or a `Classify` states how it failed. Pure: values in, values out; used by executor and
batch.
"""

from stage0_gateway import ToolCall
from stage3_tools.errors import ToolError
from stage3_tools.result import MAY_HAVE_HAPPENED, ResultStatus, ToolResult
from stage3_tools.tool import Tool

STOPPED = "The run was stopped before this call was run."
"""What the model is told of a call that was not started because of an abort or a limit."""

_CUT_OFF = ("timeout", "network", "interrupted", "unknown")
_OWN_STATUS: dict[str, ResultStatus] = {
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
    """The result of a call that led to none.

    Args:
        call: The call.
        error: Why.
        status: How the failure counts, see `ToolResult`; None takes what the error's kind says.
        duration: Seconds the call took.
        attempts: How often the tool was run.
    """
    status = _OWN_STATUS.get(error.kind, "error") if status is None else status
    text = error.for_model
    if status == "unknown_effect":
        text += f"\n{MAY_HAVE_HAPPENED}"
    return ToolResult(
        call.id, call.name, text, error.details, True, error, duration, attempts, status=status
    )


def interrupted(call: ToolCall, begun: Tool | None, why: str = "") -> ToolResult:
    """The result of a call that was cut off while it ran, or before.

    Args:
        call: The call.
        begun: The tool that was running, or None if it had not begun.
        why: What the model is told; "" says that the run was stopped.
    """
    error = ToolError("interrupted", why or "The run was stopped before this call had a result.")
    if begun is not None and begun.effect == "write":
        return failed(call, error, "unknown_effect", attempts=1)
    return failed(call, error, "interrupted", attempts=0 if begun is None else 1)


def status_after(tool: Tool, error: ToolError, *, named: bool) -> ResultStatus:
    """How a failure of a tool that was run counts.

    Args:
        tool: The tool.
        error: The failure.
        named: Whether the tool or a `Classify` said what failed, and it is not only an exception
            that got out.
    """
    if tool.effect == "write" and (error.kind in _CUT_OFF or not named):
        return "unknown_effect"
    return _OWN_STATUS.get(error.kind, "error") if error.kind != "interrupted" else "error"
