"""What can go wrong with tools, by who has to act on it.

A `ToolError` is for the *model*: it becomes the result of the call, and the model goes on from there. A
`RegistrationError` is for the *developer*: a tool that cannot work is refused when it is registered.
"""

import socket
from collections.abc import Mapping
from typing import Any, Literal

ToolErrorKind = Literal[
    "validation",
    "not_found",
    "execution",
    "timeout",
    "network",
    "permission",
    "rejected",
    "result_rejected",
    "interrupted",
    "unknown",
]


MOST_WORDS = 2000
"""Characters of an exception's text that a model is told."""


class ToolError(Exception):
    """A call that did not lead to a result. A tool may raise it itself, with a hint for the model.

    Args:
        kind: What kind of failure it is.
        message: What the model is told.
        retryable: Whether the same call may succeed later.
        retry_delay: Seconds to wait before that; None leaves it to the kind.
        max_retries: How often to try again; None leaves it to the kind.
        hint: What the model might do instead; it is told that, too.
        details: For people: the expected schema, the issues, a traceback. The model does not see it.
    """

    def __init__(
        self,
        kind: ToolErrorKind,
        message: str,
        *,
        retryable: bool = False,
        retry_delay: float | None = None,
        max_retries: int | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retryable = retryable
        self.retry_delay = retry_delay
        self.max_retries = max_retries
        self.hint = hint
        self.details = dict(details or {})

    @property
    def for_model(self) -> str:
        """The text that goes to the model as the result of the call."""
        hint = f"\n{self.hint}" if self.hint else ""
        return f"Error ({self.kind}): {self.message}{hint}"


class RegistrationError(ValueError):
    """A tool that cannot be registered; the text says what is wrong with it."""


def error_of(exception: BaseException) -> ToolError:
    """Tell what kind of failure an exception of a tool is, by its type and attributes, never by its words.

    Args:
        exception: Whatever a tool raised.
    """
    if isinstance(exception, ToolError):
        return exception
    return ToolError(_kind_of(exception), _said(exception))


def _said(exception: BaseException) -> str:
    name = type(exception).__name__
    try:
        text = str(exception)
    except Exception:  # an exception whose text cannot be had must not become a second failure
        return name
    return f"{name}: {text}"[:MOST_WORDS] if text else name


def _kind_of(exception: BaseException) -> ToolErrorKind:
    import httpx  # at the first failure: tools that use it have imported it long before

    status = _http_status(exception)
    if isinstance(exception, TimeoutError | httpx.TimeoutException) or status in (408, 504):
        return "timeout"
    if isinstance(exception, PermissionError) or status in (401, 403):
        return "permission"
    if isinstance(exception, FileNotFoundError) or status == 404:
        return "not_found"
    if isinstance(exception, ConnectionError | socket.gaierror | httpx.TransportError):
        return "network"
    return "execution"


def _http_status(exception: BaseException) -> int | None:
    """The status of the answer an HTTP library's exception carries; some raise where there is none."""
    try:
        status = exception.response.status_code  # type: ignore[attr-defined]
    except Exception:
        return None
    return status if isinstance(status, int) else None
