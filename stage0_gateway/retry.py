"""Failed requests: which errors are retried, how long to wait, and the final error.

`GatewayError.retryable` states whether an error may pass. The `stamina` library computes growing
waits with jitter. A wait that the server requests replaces them, up to a limit. This module sends
nothing: the gateway repeats a request, and then tries the next model.
"""

import logging
from collections.abc import AsyncIterator, Sequence

from stage0_gateway.errors import GatewayError

MAX_WAIT = 60.0
"""Seconds. If a server requests a longer wait, its error is raised at once."""

_FIRST_WAIT, _MAX_OWN_WAIT, _JITTER = 0.5, 8.0, 0.5

# Retries are reported through `on_event`. Without a handler, stamina's log goes to stderr.
logging.getLogger("stamina").addHandler(logging.NullHandler())


def can_retry(error: GatewayError) -> bool:
    """Return whether the same request may succeed after a short wait."""
    import stamina  # with the first error: the import takes 10 ms

    return stamina.is_active() and error.retryable and (error.retry_after or 0) <= MAX_WAIT


def next_wait(error: GatewayError, attempt: int) -> float:
    """Return the seconds after a failed attempt, without jitter: as the server asks, or growing.

    It repeats the formula of stamina, whose own `next_wait` is 0 while a program is tested.
    """
    own = min(_FIRST_WAIT * 2.0 ** (attempt - 1), _MAX_OWN_WAIT)
    return own if error.retry_after is None else error.retry_after


class Backoff:
    """The waits between the attempts of one request."""

    def __init__(self) -> None:
        import stamina

        context = stamina.retry_context(
            _delay,
            attempts=None,
            timeout=None,
            wait_initial=_FIRST_WAIT,
            wait_max=_MAX_OWN_WAIT,
            wait_jitter=_JITTER,
        )
        self._attempts: AsyncIterator[stamina.Attempt] = aiter(context)
        self._attempt: stamina.Attempt | None = None

    async def wait(self, error: GatewayError) -> None:
        """Wait before the next attempt, after this error of the last one."""
        if self._attempt is None:
            self._attempt = await anext(self._attempts)
        with self._attempt:  # it suppresses the error, and the next attempt starts after a wait
            raise error
        self._attempt = await anext(self._attempts)  # type: ignore[unreachable]


def _delay(error: Exception) -> bool | float:
    """Return the delay that the server requested, or True for a growing delay."""
    seconds = error.retry_after if isinstance(error, GatewayError) else None
    return True if seconds is None else seconds


def combine_errors(errors: Sequence[GatewayError]) -> GatewayError:
    """Return the error of the last model, with the errors of the models before it."""
    *earlier, error = errors
    if earlier:
        reasons = "; ".join(f"{type(other).__name__}: {other}" for other in earlier)
        error.args = (f"{error} Errors of the models before it: {reasons}",)
        error.earlier = tuple(earlier)
    return error
