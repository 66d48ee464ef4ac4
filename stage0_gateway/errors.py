"""Everything that can go wrong between us and a model server, as one tree.

    GatewayError
    ├── ConfigurationError      what we were told does not make a request: model name, key, URL
    ├── ConnectionFailed        nobody answered, or the line broke
    ├── RequestTimeout          nobody answered in time
    ├── AuthenticationFailed    401, 403: the key was refused
    ├── RateLimited             429: too many requests, or the quota is used up
    ├── InvalidRequest          400, 404, 422 …: the server will refuse this request however often
    it is sent │   └── ContextOverflow     the messages are longer than the model can read
    ├── ServerFailed            5xx: the server's own fault
    ├── MalformedResponse       the answer is not what the wire format promises
    └── StreamInterrupted       a stream ended before it was finished

Who uses it: everything in this stage raises these and nothing else. This file knows no HTTP library
and no provider; it knows what a status code means to the person who has to act on it.
"""

from typing import ClassVar


class GatewayError(Exception):
    """A request to a model that did not lead to a reply.

    Attributes:
        status: The HTTP status of the answer, or None where there was no answer.
        retryable: Whether the same request may succeed when it is sent again.
        retry_after: Seconds the server asked us to wait, or None.
        earlier: What the models said that were asked before this one, where there were any.
    """

    retries: ClassVar[bool] = False
    """Whether an error of this class may be retried when nothing else is known."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = self.retries if retryable is None else retryable
        self.retry_after = retry_after
        self.earlier: tuple[GatewayError, ...] = ()


class ConfigurationError(GatewayError):
    """The gateway was set up in a way that cannot work; the text says what exists and what to
    do.
    """


class ConnectionFailed(GatewayError):
    """The server could not be reached, or it hung up before it answered."""

    retries = True


class RequestTimeout(GatewayError):
    """The server did not answer within the time the caller gave."""

    retries = True


class AuthenticationFailed(GatewayError):
    """The server refused the key (401 or 403)."""


class RateLimited(GatewayError):
    """Too many requests, or the quota is used up (429)."""

    retries = True


class InvalidRequest(GatewayError):
    """The server understood the request and refused it; sending it again changes nothing."""


class ContextOverflow(InvalidRequest):
    """The messages hold more tokens than the model can read."""


class ServerFailed(GatewayError):
    """The server failed on its own side (5xx)."""

    retries = True


class MalformedResponse(GatewayError):
    """The server answered, but not in the wire format it was asked in."""


class StreamInterrupted(GatewayError):
    """A streamed reply ended before it was complete.

    The connection broke before the end marker, or the body ended without a finish reason and an end
    marker. The gateway repeats the request only while nothing of the reply was delivered.
    """

    retries = True


def error_for_status(
    status: int,
    said: str,
    *,
    retry_after: float | None = None,
    overflow: bool = False,
    retryable: bool | None = None,
) -> GatewayError:
    """Turn an HTTP status and the server's own words into the error that says what to do.

    Args:
        status: The HTTP status code.
        said: The server's message, already free of secrets.
        retry_after: Seconds the server asked us to wait, if it did.
        overflow: The wire format recognised a prompt that is too long.
        retryable: Whether to send it again, where the server's words say more than the status does.
    """
    kind, advice = _kind_and_advice(status, overflow)
    if retryable is None:
        retryable = kind.retries or status in (408, 409)
    text = f"{said or 'The server gave no reason.'} (HTTP {status}) {advice}".rstrip()
    return kind(text, status=status, retryable=retryable, retry_after=retry_after)


def _kind_and_advice(status: int, overflow: bool) -> tuple[type[GatewayError], str]:
    if overflow:
        return ContextOverflow, "Send fewer messages, or set a window on the context engine."
    if status in (401, 403):
        return AuthenticationFailed, "Check the API key, and that it may use this model."
    if status == 429:
        return RateLimited, "Wait, or send fewer requests at once."
    if status == 404:
        return InvalidRequest, "Check the model name and the base URL."
    if status >= 500:
        return ServerFailed, "Try again later, or another model."
    if status >= 400:
        return InvalidRequest, ""
    return MalformedResponse, "Check the base URL: this does not look like a model server."
