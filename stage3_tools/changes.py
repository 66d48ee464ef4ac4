"""`RegistryChange`: a tool came, or went; and how whoever asked for it is told.

All listeners hear the changes in the order they were made, those too that a listener makes itself. Knows no
registry; used by it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stage3_tools.callables import is_async
from stage3_tools.errors import RegistrationError
from stage3_tools.tool import Tool


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """What became of a tool of a registry.

    Attributes:
        kind: Whether it came or went.
        tool: The tool.
    """

    kind: Literal["registered", "unregistered"]
    tool: Tool


Listener = Callable[[RegistryChange], None]
"""A plain function that is told of changes."""


class Listeners:
    """Who is told, and what they were not told yet. Only one thread at a time may tell."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}
        self._untold: deque[tuple[RegistryChange, tuple[object, ...]]] = deque()
        self._telling = False

    def add(self, listener: Listener) -> Callable[[], None]:
        """Have a listener told of what changes from now on; returns what ends it."""
        key, listeners = object(), self._listeners
        listeners[key] = checked_listener(listener)

        def stop() -> None:
            listeners.pop(key, None)

        return stop

    def tell(self, *changes: RegistryChange) -> None:
        """Tell of changes that have been made; from within a listener: after what is being told now.

        Raises:
            Exception: What a listener raised first, after all were told.
        """
        present = tuple(self._listeners)  # who comes later has seen these changes done
        self._untold.extend((each, present) for each in changes)
        if self._telling:
            return
        self._telling = True
        failures: list[Exception] = []
        try:
            while self._untold:
                failures += self._tell_next()
        finally:
            self._telling = False
        if failures:
            raise failures[0]

    def _tell_next(self) -> list[Exception]:
        failures: list[Exception] = []
        change, present = self._untold.popleft()
        for key in present:
            try:
                if (listener := self._listeners.get(key)) is not None:  # another may have stopped it
                    listener(change)
            except Exception as error:  # one that fails must not keep the news from the others
                failures.append(error)
        return failures


def checked_listener(listener: Listener) -> Listener:
    """The listener.

    Raises:
        RegistrationError: It is no plain function; what an async one returns nobody would await.
    """
    if not callable(listener) or is_async(listener):
        raise RegistrationError(f"{listener!r:.200} cannot be told of changes; give a plain function.")
    return listener
