"""Send again what may succeed the second time, and nothing else.

Which errors those are is written on the errors themselves (`GatewayError.retryable`). Waiting, backoff and
jitter are the `stamina` library's; a server that says how long to wait is believed, up to a limit. Knows
nothing of HTTP or models; used by the gateway.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import cache
from types import ModuleType
from typing import TypeVar

from stage0_gateway.errors import GatewayError

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds; a server that asks for more is not waited for, its error is raised."""


async def with_retries(
    send: Callable[[int], Awaitable[T]],
    max_retries: int,
    on_retry: Callable[[GatewayError, int], None],
) -> T:
    """Call `send` until it succeeds, fails for good, or was repeated `max_retries` times.

    Args:
        send: Called with the number of the attempt, 1 for the first; the first starts at once.
        max_retries: How often to repeat; 0 tries once.
        on_retry: Told of each error that will be followed by another try, and of the attempt that failed.

    Raises:
        GatewayError: The last one, when no try is left or it cannot be retried.
    """
    try:
        return await send(1)  # nearly always all there is; the library below has its price
    except GatewayError as error:
        if max_retries == 0 or not _may_pass(error):
            raise
        first = error
    return await _again(first, send, max_retries, on_retry)


async def _again(
    first: GatewayError,
    send: Callable[[int], Awaitable[T]],
    max_retries: int,
    on_retry: Callable[[GatewayError, int], None],
) -> T:
    failed = 0

    def wait_for(error: Exception) -> bool | float:
        nonlocal failed
        failed += 1
        if not isinstance(error, GatewayError) or not _may_pass(error):
            return False
        if failed <= max_retries:
            on_retry(error, failed)
        return True if error.retry_after is None else error.retry_after

    async for attempt in _stamina().retry_context(
        on=wait_for, attempts=max_retries + 1, timeout=None, wait_initial=0.5, wait_max=8.0, wait_jitter=0.5
    ):
        with attempt:
            if attempt.num == 1:
                raise first
            return await send(attempt.num)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _may_pass(error: GatewayError) -> bool:
    return error.retryable and (error.retry_after or 0) <= LONGEST_WAIT


@cache
def _stamina() -> ModuleType:
    """The library, loaded at first use: a gateway that never retries does not pay for it."""
    import stamina

    # Retries are reported through on_event; without a handler its own log line would go to stderr as well.
    logging.getLogger("stamina").addHandler(logging.NullHandler())
    return stamina
