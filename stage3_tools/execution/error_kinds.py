"""What kind of failure an exception of a tool is, by its type and attributes, never by its words.

    TimeoutError, httpx.TimeoutException, HTTP 408 and 504   timeout      may pass
    ConnectionError, DNS, httpx.TransportError               network      may pass
    HTTP 5xx besides 501 and 504                             network      may pass
    HTTP 429                                                 execution    may pass, after
    `retry-after` PermissionError, HTTP 401 and 403                        permission
    FileNotFoundError, HTTP 404 and 410                      not_found
    everything else                                          execution

Types are recognised by name, in any library, and so are their subclasses. A group of one exception
counts as that exception, a group of several as "everything else". A `Classify` may decide first.
Used by the registry and the executor.

An exception, or a value that a tool returns, can have code of its own that raises when it is read:
a `__str__`, a property, an iterator. Such code is called through `safely`.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from operator import attrgetter
from typing import Literal, TypeVar

from stage3_tools.errors import ToolError, ToolErrorKind

T = TypeVar("T")

Classify = Callable[[BaseException], ToolError | None]
"""What an exception means, or None where the rules above will do. What it raises ends the run."""

ErrorText = Literal["message", "type"]
"""What a model is told of an exception: its type and message, or its type alone."""

MOST_WORDS = 2000
"""Characters of an exception's text that a model is told."""

_MAY_PASS = ("timeout", "network")

# Python and redis, requests, httpx, subprocess
_TIMEOUT = {"TimeoutError", "Timeout", "TimeoutException", "TimeoutExpired"}
# Python and requests, DNS, asyncio, TLS, httpx, aiohttp
_NETWORK = {
    "ConnectionError",
    "gaierror",
    "IncompleteReadError",
    "SSLEOFError",
    "SSLZeroReturnError",
}
_NETWORK |= {"TransportError", "ClientConnectionError"}
_MISTAKE = {
    "UnsupportedProtocol",
    "LocalProtocolError",
}  # of httpx's TransportErrors those that never pass
_UNREACHABLE = {
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETRESET,
}


def error_of(exception: BaseException, *, text: ErrorText = "message") -> ToolError:
    """Convert an exception of a tool into a `ToolError`.

    Args:
        exception: The exception. A `ToolError`, or a group of nothing but one, is copied.
        text: What the model is told of other exceptions.
    """
    error = safely(lambda: _error_of(exception, text), None)
    return error or ToolError("execution", _said(exception, text))


def own_error(exception: BaseException) -> ToolError | None:
    """Copy the `ToolError` that a tool raised, alone or as the only one in a group; None for other
    exceptions.
    """

    def copied() -> ToolError | None:
        raised = _alone(exception)
        return ToolError.with_details(raised) if isinstance(raised, ToolError) else None

    return safely(copied, None)


def safely(read: Callable[[], T], fallback: T) -> T:
    """Return what `read` returns, or the fallback if it raises. Only a KeyboardInterrupt is passed
    on.
    """
    try:
        return read()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return fallback


def _error_of(exception: BaseException, text: ErrorText) -> ToolError:
    exception = _alone(exception)
    if isinstance(exception, ToolError):
        return ToolError.with_details(exception)
    kind, status = _kind_of(exception), _http_status(exception)
    error = ToolError(kind, _said(exception, text), retryable=kind in _MAY_PASS or status == 429)
    error.retry_delay = _retry_after(exception) if status else None
    error.__cause__ = exception
    return error


def _alone(exception: BaseException) -> BaseException:
    """Unwrap a group of one exception: an `asyncio.TaskGroup` wraps even a single failure."""
    while isinstance(exception, BaseExceptionGroup) and len(exception.exceptions) == 1:
        exception = exception.exceptions[0]
    return exception


def words_of(exception: BaseException) -> str:
    """Return the beginning of an exception's text, or "" if it cannot be read."""
    return safely(lambda: str(exception)[:MOST_WORDS], "")


def _said(exception: BaseException, text: ErrorText) -> str:
    name, words = type(exception).__name__, words_of(exception)
    return name if text == "type" or not words else f"{name}: {words}"[:MOST_WORDS]


def _kind_of(exception: BaseException) -> ToolErrorKind:
    status, names = _http_status(exception), {each.__name__ for each in type(exception).__mro__}
    if names & _TIMEOUT or status in (408, 504):
        return "timeout"
    if isinstance(exception, PermissionError) or status in (401, 403):
        return "permission"
    if isinstance(exception, FileNotFoundError) or status in (404, 410):
        return "not_found"
    if (names & _NETWORK and not names & _MISTAKE) or (
        isinstance(exception, OSError) and exception.errno in _UNREACHABLE
    ):
        return "network"
    if status is not None:
        return "network" if status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED else "execution"
    reason = vars(exception).get("reason")  # urllib's URLError wraps what went wrong on the way
    return _kind_of(reason) if isinstance(reason, OSError) else "execution"


def _http_status(exception: BaseException) -> int | None:
    """The status an HTTP library's exception carries, on its answer or on itself; some raise where
    there is none.
    """
    if not isinstance(exception, Exception):
        return None  # the code of a SystemExit is the program's
    for path in (
        "response.status_code",
        "status_code",
        "status",
        "code",
    ):  # the last two: aiohttp, urllib
        with suppress(Exception):
            status = attrgetter(path)(exception)
            if isinstance(status, int) and 400 <= status <= 599:
                return int(status)
    return None


def _retry_after(exception: BaseException) -> float | None:
    """Seconds a server asks to wait, where it says a number."""
    for path in ("response.headers", "headers"):
        with suppress(Exception):
            seconds = float(attrgetter(path)(exception)["retry-after"])
            return seconds if 0 <= seconds < 3600 else None
    return None
