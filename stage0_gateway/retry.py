"""Failed requests: which errors are retried, how long to wait, and the final error.

`GatewayError.retryable` states whether an error may pass. The `stamina` library repeats the request
and computes growing waits with jitter. A wait that the server requests replaces them, up to a
limit. This module sends nothing: the gateway makes the attempts, and then tries the next model.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stage0_gateway.errors import GatewayError
from stage0_gateway.events import GatewayEvent, RetryEvent
from stage0_gateway.response import FailedAttempt

MAX_WAIT = 60.0
"""Seconds. If a server requests a longer wait, its error is raised at once."""

_Reply = TypeVar("_Reply")
_FIRST_WAIT, _MAX_OWN_WAIT, _JITTER = 0.5, 8.0, 0.5

# Retries are reported through `on_event`. stamina also logs them, and Python prints a log without
# any handler to stderr. The switch that stamina has for it would change the whole program.
logging.getLogger("stamina").addHandler(logging.NullHandler())


@dataclass(slots=True)
class Backoff:
    """The attempts to send a request to one model, and the waits between them.

    Attributes:
        max_retries: The maximum number of retries.
        on_event: Called with a `RetryEvent` before each wait.
        failed: The failed attempts of the request, also those of other models.
        attempts: The number of attempts so far.
    """

    max_retries: int
    on_event: Callable[[GatewayEvent], None]
    failed: list[FailedAttempt]
    attempts: int = 0

    async def retry(
        self, attempt: Callable[[], Awaitable[_Reply]], first_error: GatewayError | None = None
    ) -> _Reply:
        """Make attempts until one succeeds, or fails with an error that is not retried.

        Args:
            attempt: Sends the request once, and counts the attempt.
            first_error: The error of the first attempt, if it was made before.
        """
        # stamina takes 10 ms to import and 50 µs per request. Most requests succeed without it.
        import stamina

        async for repetition in stamina.retry_context(
            on=self._delay,
            attempts=None,
            timeout=None,
            wait_initial=_FIRST_WAIT,
            wait_max=_MAX_OWN_WAIT,
            wait_jitter=_JITTER,
        ):
            with repetition:
                if first_error is not None and repetition.num == 1:
                    raise first_error  # stamina waits after it
                return await attempt()
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _delay(self, error: Exception) -> bool | float:
        """Return the delay that the server requested, True for a growing delay, or False."""
        is_last = self.attempts > self.max_retries
        if is_last or not isinstance(error, GatewayError) or not can_retry(error):
            return False
        self.on_event(RetryEvent(error, self.attempts, next_wait(error, self.attempts)))
        return True if error.retry_after is None else error.retry_after


def can_retry(error: GatewayError) -> bool:
    """Return whether the same request may succeed after a short wait."""
    return error.retryable and (error.retry_after or 0) <= MAX_WAIT


def next_wait(error: GatewayError, attempt: int) -> float:
    """Return the seconds after a failed attempt, without jitter: as the server asks, or growing.

    It repeats the formula of stamina, whose own `next_wait` is 0 while a program is tested.
    """
    own = min(_FIRST_WAIT * 2.0 ** (attempt - 1), _MAX_OWN_WAIT)
    return own if error.retry_after is None else error.retry_after


def combine_errors(errors: Sequence[GatewayError]) -> GatewayError:
    """Return the error of the last model, with the errors of the models before it."""
    *earlier, error = errors
    if earlier:
        reasons = "; ".join(f"{type(other).__name__}: {other}" for other in earlier)
        error.args = (f"{error} Errors of the models before it: {reasons}",)
        error.earlier = tuple(earlier)
    return error
