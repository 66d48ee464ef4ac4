"""The errors of this stage, as one tree.

    GatewayError
    ├── ConfigurationError      invalid model name, key, URL or option
    ├── ConnectionFailed        no connection, or the connection broke
    ├── RequestTimeout          no complete reply in time
    ├── AuthenticationFailed    401, 403: the server rejected the key
    ├── RateLimited             429: too many requests, or the quota is used up
    ├── InvalidRequest          400, 404, 422 …: the server rejects this request every time
    │   └── ContextOverflow     the messages are longer than the model's context
    ├── ServerFailed            5xx: the server failed
    ├── MalformedResponse       the reply does not follow the wire format
    └── StreamInterrupted       a stream ended before the reply was complete

Every module of this stage raises only these errors for failed requests. This module maps a status
code to an error and to advice for the caller. It knows no HTTP library and no provider.

`check_arguments` raises the TypeError of an argument that a program sets to a wrong value. All
stages check the options of their classes with it, once, when an object is created.
"""

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, ClassVar, NamedTuple


class GatewayError(Exception):
    """A request to a model that returned no reply.

    Attributes:
        status: The HTTP status of the response, or None without a response.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds to wait, as requested by the server, or None.
        earlier: The errors of the models that were tried before this one.
    """

    retries: ClassVar[bool] = False
    """The default of `retryable` for this class."""

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
    """The configuration is invalid. The text lists the valid choices and the fix."""


class ConnectionFailed(GatewayError):
    """The server could not be reached, or it closed the connection before the reply."""

    retries = True


class RequestTimeout(GatewayError):
    """The server did not reply within the time limit."""

    retries = True


class AuthenticationFailed(GatewayError):
    """The server rejected the key (401 or 403)."""


class RateLimited(GatewayError):
    """Too many requests, or the quota is used up (429)."""

    retries = True


class InvalidRequest(GatewayError):
    """The server understood the request and rejected it. A retry does not help."""


class ContextOverflow(InvalidRequest):
    """The messages have more tokens than the model's context allows."""


class ServerFailed(GatewayError):
    """The server failed (5xx)."""

    retries = True


class MalformedResponse(GatewayError):
    """The server replied, but not in the wire format of the request."""


class StreamInterrupted(GatewayError):
    """A streamed reply ended before it was complete.

    The connection broke before the end marker, or the body ended without a finish reason and
    without an end marker. The gateway retries only while no part of the reply was delivered.
    """

    retries = True


def error_for_status(
    status: int,
    server_message: str,
    *,
    retry_after: float | None = None,
    overflow: bool = False,
    retryable: bool | None = None,
) -> GatewayError:
    """Return the error for an HTTP status, with the server's message and advice.

    Args:
        status: The HTTP status code.
        server_message: The server's text, without secrets.
        retry_after: Seconds to wait, as requested by the server.
        overflow: Whether the server reported a prompt that is too long.
        retryable: Overrides the default of the status; None keeps the default.
    """
    kind, advice = _kind_and_advice(status, overflow)
    if retryable is None:
        retryable = kind.retries or status in (408, 409)
    text = f"{server_message or 'The server gave no reason.'} (HTTP {status}) {advice}".rstrip()
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


FUNCTION: Any = Callable
"""The type of functions, for `Accepted`."""


class Accepted(NamedTuple):
    """The values that an argument accepts.

    Attributes:
        kinds: The types; or the name of a method that the object must have.
        text: The values in words, with an example: the end of "The argument must be …".
        minimum: The smallest number; None does not compare.
        required: Whether None is refused.
    """

    kinds: type | UnionType | str
    text: str
    minimum: float | None = None
    required: bool = False


def check_arguments(values: Mapping[str, Any], accepted: Mapping[str, Accepted]) -> None:
    """Refuse an argument that has a wrong type or is too small.

    Args:
        values: The arguments by name.
        accepted: The accepted values by name. Arguments without an entry are not checked.

    Raises:
        TypeError: An argument has a wrong type. The text states what to write.
        ValueError: A number is too small.
    """
    for name, (kinds, text, minimum, required) in accepted.items():
        value = values[name]
        if value is None and not required:
            continue
        if isinstance(kinds, str):
            is_plain = isinstance(value, type | str | bytes | list | tuple | dict)
            is_accepted = hasattr(value, kinds) and not is_plain
        else:
            is_accepted = isinstance(value, kinds) and (type(value) is not bool or kinds is bool)
        if not is_accepted:
            text = text if required else f"{text}, or None"
            raise TypeError(f"{name} must be {text}, not {value!r:.80}.")
        if minimum is not None and value < minimum:
            raise ValueError(f"{name} is {value}; it must be at least {minimum}.")
