import copy
import dataclasses
import gc
import pickle
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message, TextPart, ToolCall
from stage0_gateway.once import Recent, each_turn, sent_before


def test_what_was_made_of_a_message_is_not_made_again():
    made = []
    message = Message.user("hi")
    for key in ("a", "a", "b", "a"):
        assert message.once(key, lambda it: made.append(it) or len(made)) == (2 if key == "b" else 1)
    assert made == [message, message]


def test_of_the_few_values_that_came_last_nothing_is_made_again():
    recent, made = Recent(), []

    def make(value):
        made.append(value)
        return len(made)

    first = (1.0,)
    equal = (*first,)
    assert [recent.of(value, make) for value in (first, first, equal, equal, first)] == [1, 1, 2, 2, 1]
    with pytest.raises(ZeroDivisionError):
        recent.of((2,), lambda _: 1 / 0)
    others = [(number,) for number in range(3)]
    assert [recent.of(value, make) for value in (*others, equal, first)] == [3, 4, 5, 2, 6]


def test_nothing_is_remembered_where_the_making_fails():
    message = Message.user("hi")
    with pytest.raises(ZeroDivisionError):
        message.once("a", lambda it: 1 / 0)
    assert message.once("a", lambda it: "made") == "made"


def test_none_is_remembered_like_anything_else():
    made = []
    message = Message.user("hi")
    assert [message.once("a", made.append) for _ in range(2)] == [None, None]
    assert made == [message]


def asked(message):
    """What a message remembers, or "anew" where that is nothing."""
    return message.once("a", lambda it: "anew")


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda message: pickle.loads(pickle.dumps(message)),
        dataclasses.replace,
        lambda message: Message.from_dict(message.to_dict()),
    ],
    ids=["copy", "deepcopy", "pickle", "replace", "to_dict"],
)
def test_what_is_remembered_is_no_part_of_the_message(copied):
    message, other = Message.user("hi"), Message.user("hi")
    shown = repr(message), hash(message), message.to_dict(), dataclasses.asdict(message)
    message.once("a", lambda it: "made")
    assert (message, *shown) == (
        other,
        repr(message),
        hash(message),
        message.to_dict(),
        dataclasses.asdict(message),
    )
    assert copied(message) == message
    assert (asked(message), asked(copied(message))) == ("made", "anew")


def test_a_message_stays_frozen():
    message = Message.user("hi")
    message.once("a", asked)
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.content = "ho"


# ---- turns ----------------------------------------------------------------------------------------------


def said(turns):
    """A conversation of calls and their results."""
    messages = [Message.system("s"), Message.user("u")]
    for number in range(turns):
        call = ToolCall(f"c{number}", "f")
        messages += [Message.assistant("", [call]), Message.tool("r", call.id)]
    return tuple(messages)


def by_hand(messages):
    """The turns of a conversation."""
    turns = []
    for message in messages:
        if turns and message.role in ("system", "tool"):
            turns[-1] += (message,)
        else:
            turns.append((message,))
    return turns


class Maker:
    """Makes a turn of a turn, and counts."""

    def __init__(self):
        self.count = 0

    def __call__(self, turn):
        self.count += 1
        return turn


def made_of(messages):
    """How many turns of a conversation are made now."""
    make = Maker()
    assert list(map(ids, each_turn(messages, "a", make))) == list(map(ids, by_hand(messages)))
    return make.count


def ids(turn):
    return [id(message) for message in turn]


def test_a_turn_is_one_who_speaks_and_the_results_that_follow():
    messages = said(1)
    assert each_turn(messages, "a", tuple) == [messages[:1], messages[1:2], messages[2:]]


def test_of_a_conversation_that_grows_only_what_is_new_is_made():
    messages = said(50)
    assert made_of(messages[:4]) == 3
    assert [made_of(messages[:end]) for end in range(6, len(messages) + 1, 2)] == [1] * 49


def test_of_a_conversation_that_lost_its_beginning_nothing_is_made():
    messages = said(50)
    made_of(messages)
    assert [made_of(messages[start:]) for start in range(2, len(messages), 2)] == [0] * 50


def test_a_new_system_message_or_another_last_one_makes_only_its_own_turn_anew():
    messages = said(50)
    made_of(messages)
    assert made_of((Message.system("t"), *messages[1:])) == 1
    assert made_of((*messages, Message.user("hurry"))) == 1
    assert made_of((*messages[:-2], Message.user("hurry"))) == 1
    assert made_of(messages) == 0


def test_two_conversations_with_the_same_beginning_do_not_disturb_each_other():
    start = said(10)
    ends = [tuple(Message.user(f"{one} {number}") for number in range(10)) for one in "ab"]
    made_of(start)
    assert [made_of(start + end[:length]) for length in range(1, 11) for end in ends] == [1] * 20


def test_a_result_more_makes_its_turn_anew():
    messages = said(3)
    made_of(messages)
    assert made_of((*messages, Message.tool("more", "c2"))) == 1


def test_messages_that_are_only_equal_are_not_taken_for_the_same():
    messages = said(3)
    made_of(messages)
    assert made_of(said(3)) == 5


def test_a_conversation_is_known_by_the_last_messages_it_had():
    messages = said(5)
    assert [sent_before(messages[:end], "a") for end in (4, 6, 6, 12, 3)] == [False, True, True, True, False]
    assert [sent_before(messages, "b"), sent_before((), "a")] == [False, False]


class Kept(dict):
    """A mapping whose end can be seen."""


def test_a_message_keeps_neither_later_ones_alive_nor_itself():
    mark = Kept()
    messages = (*said(5), Message.user((TextPart("hi", provider_data=mark),)), Message.user("ho"))
    first, end = messages[0], weakref.ref(mark)
    each_turn(messages, "a", len)
    gc.disable()  # so that only what nobody refers to goes
    try:
        del mark, messages
        assert (end(), first.role) == (None, "system")
    finally:
        gc.enable()


conversations = st.lists(st.lists(st.integers(0, 9), max_size=14), min_size=1, max_size=6)


@given(
    st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), min_size=10, max_size=10),
    conversations,
)
def test_whatever_was_sent_before_the_turns_are_the_same(roles, orders):
    pool = [Message(role, "", (), "c") for role in roles]
    for order in orders:
        made_of(tuple(pool[number] for number in order))
