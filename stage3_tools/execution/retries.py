"""Which failed attempts are repeated: those of tools whose effect is "read" or "idempotent".

The error decides whether it is retryable. The number of retries is set by the tool, else by the
error, else by the kind of failure. The wait is set by the error, else by the tool, else by the
kind, and doubles with each retry: `one_call` repeats the attempts with the `stamina` library.
"""

import asyncio
from collections.abc import Callable, Mapping

from stage3_tools.errors import Retry, ToolError, ToolErrorKind
from stage3_tools.tool import Tool

DEFAULT_RETRIES: Mapping[ToolErrorKind, Retry] = {
    "timeout": Retry(3, 1.0),
    "network": Retry(5, 2.0),
}
"""Default policies by kind of failure."""

_OTHER_KINDS = Retry(3, 1.0)

MAX_WAIT = 30.0
"""Seconds between two attempts. An error that requests a longer wait is not retried."""


def can_retry(
    tool: Tool, error: ToolError, attempts: int, stopped: Callable[[], bool] | None
) -> bool:
    """Return whether another attempt may follow.

    Not if the run was stopped or the task cancelled; a tool may have converted the cancellation to
    a failure of its own.
    """
    task = asyncio.current_task()
    if (task is not None and task.cancelling()) or (stopped is not None and stopped()):
        return False
    return attempts <= policy_of(tool, error).max_retries


def policy_of(tool: Tool, error: ToolError) -> Retry:
    """Return the retry policy for a failure; `max_retries` is 0 if it is not retried."""
    default = DEFAULT_RETRIES.get(error.kind, _OTHER_KINDS)
    delay = default.delay if error.retry_delay is None else error.retry_delay
    if tool.effect == "write" or not error.retryable or not 0 <= delay <= MAX_WAIT:
        return Retry(0)
    if isinstance(tool.retry, Retry):
        return tool.retry
    count = default.max_retries if error.max_retries is None else error.max_retries
    return Retry(count if tool.retry is None else tool.retry, delay)
