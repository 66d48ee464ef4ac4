"""Convert exceptions of tools to `ToolError`, by type and attributes, never by message text.

    TimeoutError, httpx.TimeoutException, HTTP 408 and 504   timeout      retryable
    ConnectionError, DNS, httpx.TransportError               network      retryable
    HTTP 5xx other than 501 and 504                          network      retryable
    HTTP 429                                                 execution    retryable, `retry-after`
    PermissionError, HTTP 401 and 403                        permission
    FileNotFoundError, HTTP 404 and 410                      not_found
    all other exceptions                                     execution

Types of any library, and their subclasses, are recognized by name. A group of one exception counts
as that exception. A group of several counts as "all other exceptions". A `Classify` function has
precedence. Used by `one_call` and the registry.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from operator import attrgetter

from stage3_tools.errors import MAX_EXCEPTION_TEXT, ToolError, ToolErrorKind, exception_text, safely

Classify = Callable[[BaseException], ToolError | str | None]
"""Returns the meaning of an exception; or a text that the model sees instead of the type and the
message, such as `type(exception).__name__`; or None. Its own exceptions end the run."""

_RETRYABLE = ("timeout", "network")

# Python and redis, requests, httpx, subprocess
_TIMEOUT = {"TimeoutError", "Timeout", "TimeoutException", "TimeoutExpired"}
# Python and requests, DNS, asyncio, TLS, httpx, aiohttp
_NETWORK = {
    "ConnectionError",
    "gaierror",
    "IncompleteReadError",
    "SSLEOFError",
    "SSLZeroReturnError",
    "TransportError",
    "ClientConnectionError",
}
_PERMANENT = {"UnsupportedProtocol", "LocalProtocolError"}  # TransportErrors of httpx
_UNREACHABLE = {
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETRESET,
}


def classify_exception(exception: BaseException, *, text: str | None = None) -> ToolError:
    """Convert an exception of a tool to a `ToolError`.

    Args:
        exception: The exception. A `ToolError`, alone or in a group of one, is copied.
        text: The text that the model sees; None selects the exception's type and message.
    """
    error = safely(lambda: _classify(exception, text), None)
    return error or ToolError("execution", text or _message(exception))


def raised_tool_error(exception: BaseException) -> ToolError | None:
    """Copy the `ToolError` that a tool raised, alone or in a group of one; None for others."""

    def copy() -> ToolError | None:
        error = _unwrap_group(exception)
        return ToolError.with_details(error) if isinstance(error, ToolError) else None

    return safely(copy, None)


def _classify(exception: BaseException, text: str | None) -> ToolError:
    exception = _unwrap_group(exception)
    if isinstance(exception, ToolError):
        return ToolError.with_details(exception)
    kind, status = _kind_of(exception), _http_status(exception)
    retryable = kind in _RETRYABLE or status == HTTPStatus.TOO_MANY_REQUESTS
    error = ToolError(kind, text or _message(exception), retryable=retryable)
    error.retry_delay = _retry_after(exception) if status else None
    error.__cause__ = exception
    return error


def _unwrap_group(exception: BaseException) -> BaseException:
    """Return the exception in a group of one; an `asyncio.TaskGroup` creates such groups."""
    while isinstance(exception, BaseExceptionGroup) and len(exception.exceptions) == 1:
        exception = exception.exceptions[0]
    return exception


def _message(exception: BaseException) -> str:
    name, message = type(exception).__name__, exception_text(exception)
    return f"{name}: {message}"[:MAX_EXCEPTION_TEXT] if message else name


def _kind_of(exception: BaseException) -> ToolErrorKind:
    status, names = _http_status(exception), {base.__name__ for base in type(exception).__mro__}
    if names & _TIMEOUT or status in (408, 504):
        return "timeout"
    if isinstance(exception, PermissionError) or status in (401, 403):
        return "permission"
    if isinstance(exception, FileNotFoundError) or status in (404, 410):
        return "not_found"
    if (names & _NETWORK and not names & _PERMANENT) or (
        isinstance(exception, OSError) and exception.errno in _UNREACHABLE
    ):
        return "network"
    if status is not None:
        return "network" if status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED else "execution"
    reason = vars(exception).get("reason")  # urllib's URLError contains the original exception
    return _kind_of(reason) if isinstance(reason, OSError) else "execution"


def _http_status(exception: BaseException) -> int | None:
    """Return the error status in an exception of an HTTP library, or None."""
    if not isinstance(exception, Exception):
        return None  # the code of a SystemExit is an exit status
    # The last two names: aiohttp, urllib. Some properties raise if there is no response.
    for path in ("response.status_code", "status_code", "status", "code"):
        with suppress(Exception):
            status = attrgetter(path)(exception)
            if isinstance(status, int) and 400 <= status <= 599:
                return int(status)
    return None


def _retry_after(exception: BaseException) -> float | None:
    """Return the seconds in a `retry-after` header, or None."""
    for path in ("response.headers", "headers"):
        with suppress(Exception):
            seconds = float(attrgetter(path)(exception)["retry-after"])
            return seconds if 0 <= seconds < 3600 else None
    return None
