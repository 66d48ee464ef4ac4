"""A made-up conversation of any length of an agent with tools, shared by the context benchmarks.

Every four messages are a question, an answer with a call, its result, and an answer. Lengths vary in
a fixed order.
"""

from collections.abc import Iterator
from itertools import count, cycle, islice

from stage0_gateway import Message, ToolCall

SYSTEM = Message.system(
    "You are a careful assistant. Look things up before you answer, and say where you looked."
)
_WORDS = (
    "the train to Oslo leaves at 07:42 from platform 3, calls at Hamar and Lillehammer, and has a restaurant car; "
    "seats are booked until Friday (order no. 4711-B), but two are left in car 12. "
)


def messages(number: int) -> list[Message]:
    """Return the first messages of the conversation, including the system message."""
    return [SYSTEM, *islice(conversation(), number - 1)]


def conversation() -> Iterator[Message]:
    """Generate the endless conversation."""
    lengths = cycle((60, 150, 400, 90, 240, 700, 120, 330))
    for turn in count():
        call = ToolCall(
            f"call_{turn}",
            "find_train",
            f'{{"to": "Oslo", "after": "{turn % 24:02}:00", "seats": 2}}',
        )
        yield Message.user(_text(turn, next(lengths)))
        yield Message.assistant(_text(turn, next(lengths)), [call])
        yield Message.tool(_text(turn, next(lengths)), call.id, name=call.name)
        yield Message.assistant(_text(turn, next(lengths)))


def _text(turn: int, letters: int) -> str:
    return f"{turn}: {_WORDS * (letters // len(_WORDS) + 1)}"[:letters]
