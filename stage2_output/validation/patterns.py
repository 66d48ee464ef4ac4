r"""Match the patterns of a JSON Schema, with a time limit.

Some patterns take exponential time: `^(\w+\s?)*$` would block the event loop for minutes on a text
of a hundred characters. The `regex` library stops after a given time. This module knows no schemas.
Used wherever a pattern is matched.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from time import perf_counter
from typing import Any

MOST_SECONDS = 0.1
"""Seconds for the patterns of a schema, per value or per text with several values."""

_SECONDS_LEFT: ContextVar[float] = ContextVar("_SECONDS_LEFT")


@contextmanager
def time_limit() -> Iterator[None]:
    """Limit the total time of `matches`; an enclosing limit has priority."""
    if _SECONDS_LEFT.get(None) is not None:
        yield
        return
    token = _SECONDS_LEFT.set(MOST_SECONDS)
    try:
        yield
    finally:
        _SECONDS_LEFT.reset(token)


def matches(pattern: str, text: object) -> bool:
    """Whether a pattern occurs in a text; False for values other than text.

    Raises:
        TimeoutError: The time of the enclosing `time_limit` is used up.
    """
    if not isinstance(text, str):
        return False
    seconds, start = _SECONDS_LEFT.get(), perf_counter()
    if seconds <= 0:
        raise TimeoutError
    try:
        return compile_pattern(pattern).search(text, timeout=seconds) is not None
    finally:
        _SECONDS_LEFT.set(seconds - (perf_counter() - start))


def matches_any(patterns: Iterable[str], text: object) -> bool:
    """Whether one of several patterns occurs in a text; raises as `matches` does."""
    return any(matches(pattern, text) for pattern in patterns)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern, once.

    Raises:
        regex.error: The pattern is invalid.
    """
    import regex  # type: ignore[import-untyped]  # slow to import

    return regex.compile(pattern)
