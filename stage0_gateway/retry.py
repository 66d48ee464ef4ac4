"""Repeat requests that may succeed later.

An error itself states whether it may pass (`GatewayError.retryable`). The `stamina` library
repeats, with growing waits and jitter; a wait that the server asks for replaces them, up to a
limit. Knows nothing of HTTP or models; used by the gateway.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stage0_gateway.errors import GatewayError

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds. If a server asks for a longer wait, its error is raised at once."""

# Retries are reported through on_event; without a handler, stamina's own log line would go to
# stderr.
logging.getLogger("stamina").addHandler(logging.NullHandler())


async def with_retries(
    send: Callable[[int], Awaitable[T]],
    max_retries: int,
    on_retry: Callable[[GatewayError, int], None],
) -> T:
    """Call `send` until it succeeds, fails for good, or was repeated `max_retries` times.

    Args:
        send: Called with the number of the attempt, 1 for the first, which starts at once.
        max_retries: The most retries; 0 makes one attempt.
        on_retry: Called with each error that will be followed by a retry, and the number of the
            failed attempt.

    Raises:
        GatewayError: The error of the last attempt.
    """
    try:
        return await send(1)  # nearly always enough; stamina takes 25 µs to begin
    except GatewayError as error:
        if max_retries == 0 or not _may_pass(error):
            raise
        first = error
    import stamina  # with the first retry: it takes 10 ms

    number = 0

    async def next_attempt() -> T:
        nonlocal number
        number += 1
        if number == 1:
            raise first
        return await send(number)

    def wait_before_retry(error: Exception) -> bool | float:
        if not isinstance(error, GatewayError) or not _may_pass(error) or number > max_retries:
            return False
        on_retry(error, number)
        return True if error.retry_after is None else error.retry_after

    retrying = stamina.AsyncRetryingCaller(
        attempts=None, timeout=None, wait_initial=0.5, wait_max=8.0, wait_jitter=0.5
    )
    return await retrying(wait_before_retry, next_attempt)


def _may_pass(error: GatewayError) -> bool:
    return error.retryable and (error.retry_after or 0) <= LONGEST_WAIT
