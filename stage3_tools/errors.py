"""What can go wrong with tools, by who has to act on it.

A `ToolError` is for the *model*: it becomes the result of the call, and the model goes on from
there. A `RegistrationError` is for the *developer*: a tool that cannot work is refused when it is
registered. Which kind of failure an exception is, `kinds.py` says.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

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


class Retry(NamedTuple):
    """How often to try again.

    Attributes:
        max_retries: The most tries after the first.
        delay: Seconds before the second try; each further wait is twice as long, with some jitter.
    """

    max_retries: int
    delay: float = 1.0


RETRIES: Mapping[ToolErrorKind, Retry] = {"timeout": Retry(3, 1.0), "network": Retry(5, 2.0)}
"""What is tried again, where the tool's effect allows it and nothing else is said; other kinds are
not."""

IF_ASKED = Retry(3, 1.0)
"""What an error of another kind gets that says itself that it is retryable."""


class ToolError(Exception):
    """A call that did not lead to a result. A tool may raise it itself, with a hint for the model.

    Args:
        kind: What kind of failure it is.
        message: What the model is told.
        retryable: Whether the same call may succeed later.
        retry_delay: Seconds to wait before that; None leaves it to the kind.
        max_retries: How often to try again; None leaves it to the kind.
        hint: What the model might do instead; it is told that, too.
        details: For people: the expected schema, the issues, a traceback. The model does not see
            it.

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
            raise ValueError(f"retry_delay is {retry_delay!r}; it is a number of seconds, or None.")
        if max_retries is not None and not max_retries >= 0:
            raise ValueError(f"max_retries is {max_retries!r}; it is a number of retries, or None.")
        self.kind = kind
        self.message = _plain(message)
        self.retryable = bool(retryable)
        self.retry_delay = retry_delay
        self.max_retries = max_retries
        self.hint = None if hint is None else _plain(hint)
        self.details = dict(details or {})

    @property
    def for_model(self) -> str:
        """The text that goes to the model as the result of the call."""
        if self.kind in ("rejected", "result_rejected"):
            message = f"{self.message}\n{self.hint}" if self.hint else self.message
            return json.dumps({"status": self.kind, "message": message}, ensure_ascii=False)
        hint = f"\n{self.hint}" if self.hint else ""
        return f"Error ({self.kind}): {self.message}{hint}"

    def with_details(self, **more: Any) -> "ToolError":
        """The same error with more details; those it has already stand. A tool may raise one value
        many times.
        """
        same = ToolError(self.kind, self.message)
        vars(same).update(vars(self), details={**more, **self.details})
        same.__cause__ = (
            self if self.__cause__ is None else self.__cause__
        )  # it may refuse to be a condition
        return same

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, pickle restores an exception from its text alone.
        return ToolError, (self.kind, self.message), vars(self)


def _plain(text: object) -> str:
    """Return the text of a str, of a subclass without its own code, or of another object such as an
    exception.
    """
    return str.__str__(text if isinstance(text, str) else str(text))


class RegistrationError(ValueError):
    """A tool that cannot be registered; the text says what is wrong with it."""
