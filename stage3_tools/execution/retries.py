"""Retry failed calls of tools for which a second attempt does no harm.

    read, idempotent   the first attempt at once; after a failure that may pass, further ones with
    growing waits write              one attempt

The error says whether it may pass. The tool, the error and its kind, in this order, set the number
of retries; the error, the tool and its kind set the wait. The `stamina` library repeats and waits.
Used by the executor.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from stage3_tools.errors import IF_ASKED, RETRIES, Retry, ToolError
from stage3_tools.tool import Tool

LONGEST_WAIT = 30.0
"""Seconds between two attempts. An error that asks for a longer wait is not retried."""

# Retries are reported as events; without a handler, stamina's own log line would go to stderr.
logging.getLogger("stamina").addHandler(logging.NullHandler())


async def with_retries(
    tool: Tool,
    attempt: Callable[[int], Awaitable[Any]],
    on_retry: Callable[[ToolError, int], None],
    stopped: Callable[[], bool] | None = None,
) -> Any:
    """Call `attempt` until it succeeds, fails for good, or was repeated often enough.

    Args:
        tool: The tool, whose effect and settings decide.
        attempt: Called with the number of the attempt, 1 for the first; raises ToolError only.
        on_retry: Called with each error that will be followed by a retry, and the number of the
            failed attempt.
        stopped: Whether no further attempt may begin, because the run was aborted.

    Raises:
        ToolError: The error of the last attempt.
    """
    try:
        return await attempt(
            1
        )  # without stamina, whose reference cycles would keep the arguments in memory
    except ToolError as error:
        policy = policy_of(tool, error)
        if policy.max_retries == 0 or _is_stopped(stopped):
            raise
        first = error

    import stamina  # with the first retry: it takes 10 ms

    def wait_before_retry(error: Exception) -> bool | float:
        if not isinstance(error, ToolError) or _is_stopped(stopped):
            return False
        if number > policy_of(tool, error).max_retries:
            return False
        on_retry(error, number)
        return True if error.retry_delay is None else error.retry_delay

    waits = {
        "wait_initial": policy.delay,
        "wait_max": LONGEST_WAIT,
        "wait_jitter": policy.delay / 2,
    }
    async for retry in stamina.retry_context(
        on=wait_before_retry, attempts=None, timeout=None, **waits
    ):
        number = retry.num
        with retry:
            if number == 1:
                raise first
            return await attempt(number)
    raise AssertionError("unreachable: the last attempt returns or raises")


def policy_of(tool: Tool, error: ToolError) -> Retry:
    """How often a failure is retried; `max_retries` is 0 if it is not."""
    usual = RETRIES.get(error.kind, IF_ASKED)
    delay = usual.delay if error.retry_delay is None else error.retry_delay
    if tool.effect == "write" or not error.retryable or not 0 <= delay <= LONGEST_WAIT:
        return Retry(0)
    if isinstance(tool.retry, Retry):
        return tool.retry
    most = usual.max_retries if error.max_retries is None else error.max_retries
    return Retry(most if tool.retry is None else tool.retry, delay)


def _is_stopped(stopped: Callable[[], bool] | None) -> bool:
    """Whether the run was aborted or the task cancelled, which a tool may have turned into a
    failure of its own.
    """
    task = asyncio.current_task()
    return (task is not None and task.cancelling() > 0) or (stopped is not None and stopped())
