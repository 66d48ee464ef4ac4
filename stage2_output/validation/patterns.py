r"""Match the patterns of a JSON Schema, with a time limit.

Some patterns take exponential time: `^(\w+\s?)*$` would block the event loop for minutes on a text
of a hundred characters. The `regex` library stops after a given time. Knows no schemas; used
wherever a pattern is matched.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from time import thread_time
from typing import Any

MOST_SECONDS = 0.1
"""Processor time that the patterns of a schema may take, for one value or all values of one
text."""

_SECONDS_LEFT: ContextVar[float] = ContextVar("_SECONDS_LEFT")


@contextmanager
def time_limit() -> Iterator[None]:
    """Limit the time that `matches` takes in total; within another limit, that one counts."""
    if _SECONDS_LEFT.get(None) is not None:
        yield
        return
    token = _SECONDS_LEFT.set(MOST_SECONDS)
    try:
        yield
    finally:
        _SECONDS_LEFT.reset(token)


def matches(pattern: str, text: object) -> bool:
    """Whether a pattern is found in a text; False for anything but text.

    Raises:
        TimeoutError: The time of the enclosing `time_limit` is used up.
    """
    if not isinstance(text, str):
        return False
    seconds, start = _SECONDS_LEFT.get(), thread_time()
    if seconds <= 0:
        raise TimeoutError
    try:
        return compiled(pattern).search(text, timeout=seconds) is not None
    finally:
        _SECONDS_LEFT.set(seconds - (thread_time() - start))


def matches_any(patterns: Iterable[str], text: object) -> bool:
    """Whether one of several patterns is found in a text; raises as `matches` does."""
    return any(matches(pattern, text) for pattern in patterns)


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """Compile a pattern, once.

    Raises:
        regex.error: The pattern is invalid.
    """
    import regex  # type: ignore[import-untyped]  # at the first schema that holds a pattern

    return regex.compile(pattern)
