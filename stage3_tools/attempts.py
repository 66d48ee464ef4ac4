"""Try again what may succeed the second time, where a second time does no harm.

    read, idempotent   the first try at once; then, after a failure that may pass, with growing waits
    write              once, whatever happens

Whether it may pass the error says; how often to try: the tool, the error, its kind, in this order; how long to wait
before: the error, the tool, its kind. Waiting, backoff and jitter are the `stamina` library's. Knows one tool at a
time; used by the executor.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from types import ModuleType
from typing import Any

from stage3_tools.errors import IF_ASKED, RETRIES, Retry, ToolError
from stage3_tools.tool import Tool

LONGEST_WAIT = 30.0
"""Seconds between two tries; an error that asks for more is not tried again."""


async def with_retries(
    tool: Tool,
    attempt: Callable[[int], Awaitable[Any]],
    on_retry: Callable[[ToolError, int], None],
    stopped: Callable[[], bool] | None = None,
) -> Any:
    """Call `attempt` until it succeeds, fails for good, or was repeated often enough.

    Args:
        tool: Whose effect and settings decide.
        attempt: Called with the number of the try, 1 for the first; raises ToolError only.
        on_retry: Told of each error that is followed by another try, and of the try that failed.
        stopped: Whether no further attempt may begin, because the run was aborted.

    Raises:
        ToolError: The last one.
    """
    try:
        return await attempt(1)  # nearly always all there is; the library below has its price
    except ToolError as error:
        policy = policy_of(tool, error)
        if not policy.max_retries or _is_stopped(stopped):
            raise
        first = error
    return await _again(tool, first, policy, attempt, on_retry, stopped)


def policy_of(tool: Tool, error: ToolError) -> Retry:
    """How often a failure is tried again; `max_retries` is 0 where it is not."""
    usual = RETRIES.get(error.kind, IF_ASKED)
    delay = usual.delay if error.retry_delay is None else error.retry_delay
    if tool.effect == "write" or not error.retryable or not 0 <= delay <= LONGEST_WAIT:
        return Retry(0)
    most = usual.max_retries if error.max_retries is None else error.max_retries
    if isinstance(tool.retry, Retry):
        return tool.retry
    return Retry(most if tool.retry is None else tool.retry, delay)


async def _again(
    tool: Tool,
    first: ToolError,
    policy: Retry,
    attempt: Callable[[int], Awaitable[Any]],
    on_retry: Callable[[ToolError, int], None],
    stopped: Callable[[], bool] | None,
) -> Any:
    failed = 0

    def wait_for(error: Exception) -> bool | float:
        nonlocal failed
        failed += 1
        if (
            not isinstance(error, ToolError)
            or failed > policy_of(tool, error).max_retries
            or _is_stopped(stopped)
        ):
            return False
        on_retry(error, failed)
        return True if error.retry_delay is None else error.retry_delay

    waits = {"wait_initial": policy.delay, "wait_max": LONGEST_WAIT, "wait_jitter": policy.delay / 2}
    async for retry in _stamina().retry_context(on=wait_for, attempts=None, timeout=None, **waits):
        with retry:
            if retry.num == 1:
                raise first
            return await attempt(retry.num)
    raise AssertionError("unreachable: the last try returns or raises")


def _is_stopped(stopped: Callable[[], bool] | None) -> bool:
    """Whether the run was aborted or the task cancelled; a tool may have made a failure of its own of that."""
    task = asyncio.current_task()
    return (task is not None and task.cancelling() > 0) or (stopped is not None and stopped())


@cache
def _stamina() -> ModuleType:
    """The library, loaded at first use: tools that never fail do not pay for it."""
    import stamina

    # Retries are told as events; without a handler its own log line would go to stderr as well.
    logging.getLogger("stamina").addHandler(logging.NullHandler())
    return stamina
