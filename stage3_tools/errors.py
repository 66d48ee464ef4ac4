"""Errors of this stage, by audience.

`ToolError` addresses the model: it becomes the result of the call. `RegistrationError` addresses
the developer: an invalid tool raises it when it is created or registered. Every other exception of
a tool is converted into a `ToolError` by `execution/error_kinds.py`.

Exceptions and return values of tools may run code of their own when they are read: a `__str__`, a
property, an iterator. `safely` and `exception_text` read them without raising.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, get_args

T = TypeVar("T")

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

MAX_EXCEPTION_TEXT = 2000
"""Maximum number of characters of an exception's text that the model sees."""


class Retry(NamedTuple):
    """A retry policy of a tool.

    Attributes:
        max_retries: Maximum number of attempts after the first one.
        delay: Seconds before the second attempt. The wait doubles with each further attempt and
            includes random jitter.
    """

    max_retries: int
    delay: float = 1.0


class ToolError(Exception):
    """A failed tool call. Tools may raise it to give the model a kind and a hint.

    Args:
        kind: The kind of failure.
        message: The text for the model.
        retryable: Whether the same call may succeed later.
        retry_delay: Seconds to wait before a retry. None selects the default of the kind.
        max_retries: Maximum number of retries. None selects the default of the kind.
        hint: A suggestion for the model, added to the message.
        details: Data for people: the expected schema, the issues, a traceback. The model does not
            see them.

    Raises:
        ValueError: The kind is unknown, or `retry_delay` or `max_retries` is negative.
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
        if kind not in get_args(ToolErrorKind):
            raise ValueError(f"kind is {kind!r}; use one of {', '.join(get_args(ToolErrorKind))}.")
        if retry_delay is not None and not retry_delay >= 0:
            raise ValueError(f"retry_delay is {retry_delay!r}; use a number of seconds, or None.")
        if max_retries is not None and not max_retries >= 0:
            raise ValueError(f"max_retries is {max_retries!r}; use a number of retries, or None.")
        self.kind = kind
        self.message = _plain_text(message)
        self.retryable = bool(retryable)
        self.retry_delay = retry_delay
        self.max_retries = max_retries
        self.hint = None if hint is None else _plain_text(hint)
        self.details = dict(details or {})

    @property
    def for_model(self) -> str:
        """The text of the call's result: the kind, the message and the hint."""
        hint = f"\n{self.hint}" if self.hint else ""
        if self.kind in ("rejected", "result_rejected"):
            rejection = {"status": self.kind, "message": self.message + hint}
            return json.dumps(rejection, ensure_ascii=False)
        return f"Error ({self.kind}): {self.message}{hint}"

    def with_details(self, **details: Any) -> "ToolError":
        """Return a copy with additional details; existing details take precedence.

        The copy protects an instance that a tool raises several times.
        """
        copy = ToolError(self.kind, self.message)
        vars(copy).update(vars(self), details={**details, **self.details})
        # A cause may define its own truth value, so it is compared with None.
        copy.__cause__ = self if self.__cause__ is None else self.__cause__
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, pickle restores an exception from its text alone.
        return ToolError, (self.kind, self.message), vars(self)


class RegistrationError(ValueError):
    """An invalid tool, or an invalid change of a registry."""


def safely(read: Callable[[], T], fallback: T) -> T:
    """Return `read()`, or the fallback if it raises. Only `KeyboardInterrupt` propagates."""
    try:
        return read()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return fallback


def exception_text(exception: BaseException) -> str:
    """Return the beginning of an exception's text, or "" if it cannot be read."""
    return safely(lambda: str(exception)[:MAX_EXCEPTION_TEXT], "")


def _plain_text(text: object) -> str:
    """Convert a str subclass, or an object such as an exception, to an exact str."""
    return str.__str__(text if isinstance(text, str) else str(text))
