"""Retry failed attempts of tools whose effect is "read" or "idempotent".

The error decides whether it is retryable. The number of retries is set by the tool, else by the
error, else by the kind of failure. The wait is set by the error, else by the tool, else by the
kind. The `stamina` library repeats the attempts. Used by `one_call` after a failed first attempt.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

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

# Retries are reported as events. Without a handler, stamina would also log them to stderr.
logging.getLogger("stamina").addHandler(logging.NullHandler())


async def retry(
    tool: Tool,
    first_error: ToolError,
    attempt: Callable[[int], Awaitable[Any]],
    *,
    on_retry: Callable[[ToolError, int], None],
    stopped: Callable[[], bool] | None = None,
) -> Any:
    """Repeat a failed attempt until it succeeds, fails permanently, or reaches its maximum.

    Args:
        tool: The tool; its effect and settings determine the policy.
        first_error: The failure of the first attempt.
        attempt: Called with the number of the attempt, from 2; raises ToolError only.
        on_retry: Called before each retry with the error and the number of the failed attempt.
        stopped: Whether the run was stopped.

    Returns:
        The value of the successful attempt.

    Raises:
        ToolError: The error of the last attempt.
    """
    import stamina  # takes 10 ms, so it is imported at the first retry

    policy = policy_of(tool, first_error)

    def wait_before_retry(error: Exception) -> bool | float:
        if not isinstance(error, ToolError) or not can_retry(tool, error, number, stopped):
            return False
        on_retry(error, number)
        return True if error.retry_delay is None else error.retry_delay

    async for repetition in stamina.retry_context(
        on=wait_before_retry,
        attempts=None,
        timeout=None,
        wait_initial=policy.delay,
        wait_max=MAX_WAIT,
        wait_jitter=policy.delay / 2,
    ):
        number = repetition.num
        with repetition:
            if number == 1:
                raise first_error
            return await attempt(number)
    raise AssertionError("unreachable: the last attempt returns or raises")


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
