"""What was made of a message once is not made again.

Every request carries the whole conversation, and its messages are frozen: written as JSON anew each time, the
hundredth turn of a tool loop would cost many times the first, for the same text. So a message remembers what was
made of it, and the last message of a stretch of turns what was made of each of them. Both are forgotten with it.

As in a binary counter, two stretches become one when the second is as long as the first. So a conversation that
grows at its end is a few known stretches and a new turn, and so is one whose beginning is no longer sent.
Tools are told anew with each request, too, and are nearly always the same few: `Recent` remembers them.
Knows no wire format, and not what is made. Used by `messages.py`, `models.py`, `outgoing.py` and `truncation.py`.
"""

from collections.abc import Callable, Hashable
from operator import is_
from typing import Any, Generic, NamedTuple, Self, TypeVar

_Made = TypeVar("_Made")
_Said = TypeVar("_Said", bound="Remembering")
_Value = TypeVar("_Value")
_FEW = 4  # agents with tools of their own that share a gateway


class Remembering:
    """A frozen value that keeps what was made of it. What it keeps is no part of it: copies keep nothing."""

    __slots__ = ("_made",)
    _made: dict[Hashable, Any]
    role: str

    def once(self, key: Hashable, make: Callable[[Self], _Made]) -> _Made:
        """What `make` makes of this value: made at the first call with this key, and remembered.

        Threads may make it twice. It must depend on this value and the key alone, and nobody may change it.

        Args:
            key: What is made: a function, or a tuple that begins with one, since everybody shares the keys.
                All that differ are kept, so let there be few.
            make: Makes it. If it raises, nothing is remembered.
        """
        try:
            return self._made[key]  # type: ignore[no-any-return]  # as it was made under this key
        except (AttributeError, KeyError):
            pass
        made = _kept(self)[key] = make(self)
        return made


class Recent(Generic[_Made]):
    """What was made of the few values that came last; the same value means the same object."""

    def __init__(self) -> None:
        self._known: tuple[tuple[object, _Made], ...] = ()

    def of(self, value: _Value, make: Callable[[_Value], _Made]) -> _Made:
        """What `make` makes of a value, which nobody may change."""
        for known, made in self._known:
            if known is value:
                return made
        made = make(value)
        self._known = ((value, made), *self._known[: _FEW - 1])
        return made


def sent_before(messages: tuple[Remembering, ...], key: Hashable) -> bool:
    """Whether one of these messages was the last of a conversation that was asked about with this key.

    What is never sent again need not be remembered, and remembering takes as long as making it once more.
    """
    place = (sent_before, key)
    newest_first = enumerate(reversed(messages))
    found = next((at for at, message in newest_first if place in getattr(message, "_made", ())), None)
    if messages and found != 0:
        _kept(messages[-1])[place] = True
    return found is not None


def each_turn(
    messages: tuple[_Said, ...], key: Hashable, make: Callable[[tuple[_Said, ...]], _Made]
) -> list[_Made]:
    """What `make` makes of each turn of a conversation: of one who speaks, and of all results that follow.

    It is made only of turns that were not remembered; the same messages means the same objects.

    Args:
        messages: The conversation, oldest first.
        key: What is made, as in `Remembering.once`.
        make: Makes it of one turn. It must depend on nothing else.
    """
    place = (each_turn, key)
    stretches: list[_Stretch] = []
    whole: list[_Made] = []
    end = 0
    for stretch in reversed(_newest_first(messages, place, make)):
        end += len(stretch.earlier) + 1
        while stretches and len(stretches[-1].made) <= len(stretch.made):
            first = stretches.pop()
            begin = end - len(first.earlier) - len(stretch.earlier) - 2
            stretch = _Stretch(messages[begin : end - 1], first.made + stretch.made, stretch)
        _kept(messages[end - 1])[place] = stretch
        stretches.append(stretch)
    for stretch in stretches:
        whole += stretch.made
    return whole


class _Stretch(NamedTuple):
    """What was made of some turns in a row; the last message of the last of them remembers it.

    Attributes:
        earlier: Their messages without that last one, so that messages know earlier ones and never themselves.
        made: What was made, turn by turn.
        second: The second of the two stretches it was put together from, in case the first is sent no more.
    """

    earlier: tuple[Any, ...]
    made: tuple[Any, ...]
    second: "_Stretch | None" = None


def _newest_first(
    messages: tuple[_Said, ...], place: Hashable, make: Callable[[tuple[_Said, ...]], Any]
) -> list[_Stretch]:
    """The whole conversation in remembered stretches, and in turns of which it is made now."""
    stretches = []
    end = len(messages)
    while end:
        stretch = _remembered(messages, end, place)
        if stretch is None:
            begin = end - 1
            while begin and not _begins(messages[begin]):
                begin -= 1
            stretch = _Stretch(messages[begin : end - 1], (make(messages[begin:end]),))
        stretches.append(stretch)
        end -= len(stretch.earlier) + 1
    return stretches


def _remembered(messages: tuple[_Said, ...], end: int, place: Hashable) -> _Stretch | None:
    """The longest stretch that ends here, as far as the same messages stand before it now."""
    stretch: _Stretch | None = _kept(messages[end - 1]).get(place)
    while stretch is not None:
        begin = end - len(stretch.earlier) - 1
        whole = begin == 0 or (begin > 0 and _begins(messages[begin]))
        # Not ==, which takes True for 1.
        if whole and all(map(is_, messages[begin : end - 1], stretch.earlier)):
            return stretch
        stretch = stretch.second
    return None


def _begins(message: Remembering) -> bool:
    """Whether a turn begins with it; how results and system messages are sent may depend on what stands before."""
    return message.role in ("user", "assistant")


def _kept(value: Remembering) -> dict[Hashable, Any]:
    try:
        return value._made
    except AttributeError:
        object.__setattr__(value, "_made", {})  # the value is frozen; this is no part of it
        return value._made
