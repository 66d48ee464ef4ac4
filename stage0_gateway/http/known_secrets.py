"""`KnownSecrets`: the secrets of all gateways of the program.

A program may pass any function as `chat`, such as a wrapper that logs each request. Nothing shows
which gateway such a function uses, so a run file without a known gateway hides the secrets of all.
Only the gateways that exist, and the `KnownSecrets` in use, are remembered; both weakly. `Gateway`
registers itself here.
"""

from collections.abc import Iterable
from threading import RLock
from typing import Protocol
from weakref import WeakSet


class _HasSecrets(Protocol):
    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys of a gateway."""


class KnownSecrets:
    """The secrets of some gateways, or of all that exist or are created later.

    A secret stays when its gateway is deleted, because a text that repeats it may come later.

    Args:
        gateways: The gateways; None stands for all.

    Attributes:
        texts: The secrets. A gateway with further ones replaces the tuple.
    """

    def __init__(self, gateways: Iterable[_HasSecrets] | None = None) -> None:
        self.texts: tuple[str, ...] = ()
        with _lock:
            for gateway in _gateways if gateways is None else gateways:
                self.add(gateway)
            if gateways is None:
                _in_use.add(self)

    def add(self, gateway: _HasSecrets) -> None:
        """Add the secrets of a gateway."""
        texts = tuple(dict.fromkeys((*self.texts, *gateway.secrets)))
        if len(texts) > len(self.texts):
            self.texts = texts


def register(gateway: _HasSecrets) -> None:
    """Remember a new gateway as long as it exists. Any thread may call this."""
    with _lock:
        _gateways.add(gateway)
        for known in _in_use:
            known.add(gateway)


_gateways: WeakSet[_HasSecrets] = WeakSet()
_in_use: WeakSet[KnownSecrets] = WeakSet()
_lock = RLock()
