"""Errors of other libraries as the kinds of the cases.

The libraries raise the error of their HTTP client, or an error of their own with its status or with
the client's error as the cause.
"""

from collections.abc import Iterator
from typing import Any

PASSING = {408, 409, 425, 429}
"""Failures below 500 that may pass."""


def error_kind(error: BaseException) -> str:
    """Return "temporary" or "permanent" for a failed request, and "" for any other error."""
    for each in causes(error):
        status = getattr(each, "status_code", None)
        if isinstance(status, int):
            response = getattr(each, "response", None)
            is_final = getattr(response, "headers", {}).get("x-should-retry") == "false"
            return (
                "temporary"
                if (status in PASSING or status >= 500) and not is_final
                else "permanent"
            )
        if type(each).__name__ in ("APIConnectionError", "APITimeoutError"):
            return "temporary"
        if type(each).__name__ in ("APIError", "APIResponseValidationError"):
            return "permanent"
    return ""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of the cause, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def error_fields(kind: str, error: object, messages: Any = ()) -> dict[str, Any]:
    """The outcome of a run that ended with an error."""
    return {"error": {"kind": kind, "message": str(error)}, "messages": list(messages)}


def failed_request(error: Exception, messages: Any) -> dict[str, Any]:
    """The outcome of a run that ended with a failed request.

    Raises:
        Exception: The error was not a failed request.
    """
    kind = error_kind(error)
    if not kind:
        raise error
    return error_fields(kind, error, messages)
