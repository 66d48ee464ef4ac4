import dataclasses
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message, ToolCall
from stage1_context import (
    Counted,
    DropOldest,
    KeepEverything,
    KeepSystemAndRecent,
    TokenBudget,
    Transcript,
    WindowTooSmall,
)
from stage1_context.window import exchange_start


class Written:
    """Text says what it costs."""

    def count(self, text):
        return int(text or 0)


class Letters:
    """Each letter is a token."""

    def count(self, text):
        return len(text)


def calling(*ids, content=""):
    return Message.assistant(content, [ToolCall(id, "f") for id in ids])


def an_exchange(kind, size):
    """A message, or calls and their results; ids are used again and again, as some servers do."""
    ids = [f"call_{number}" for number in range(size)]
    results = [Message.tool("1", id) for id in reversed(ids)]
    match kind:
        case "calls":
            return [calling(*ids), *results]
    return [Message(kind, "hello")]


def counted(messages, tokens):
    return [
        Counted(message, each, place)
        for place, (message, each) in enumerate(zip(messages, tokens, strict=True))
    ]


@st.composite
def talks(draw):
    """The exchanges of a conversation, counted; a message may take no tokens at all."""
    kinds = st.sampled_from(["user", "assistant", "calls"])
    drawn = draw(st.lists(st.tuples(kinds, st.integers(1, 3)), max_size=8))
    talk = [an_exchange(kind, size) for kind, size in drawn]
    return [counted(each, [draw(st.integers(0, 60)) for _ in each]) for each in talk]


systems = st.lists(st.integers(0, 60), max_size=3).map(
    lambda tokens: counted([Message.system(f"rule {each}") for each in tokens], tokens)
)
ratios = st.sampled_from([0.4, 0.5, 0.97, 1.0, 1.03, 1.3, 2.5])
rooms = st.builds(TokenBudget, st.integers(0, 80), st.integers(0, 80), ratios)
windows = st.builds(
    lambda kind, tokens, messages: kind(max_tokens=tokens, max_messages=messages),
    st.sampled_from([DropOldest, KeepSystemAndRecent]),
    st.none() | st.integers(0, 400),
    st.none() | st.integers(0, 12),
)


def fits(window, system, kept, budget):
    """Whether a request keeps to a window, as the server counts it."""
    counted_by_server = (
        sum(each.tokens for each in [*system, *kept]) + budget.extra_tokens
    ) * Fraction(budget.ratio)
    light = (
        window.max_tokens is None
        or counted_by_server + budget.reserve_tokens <= window.max_tokens + 1e-9
    )
    places = len(kept) if isinstance(window, KeepSystemAndRecent) else len(kept) + len(system)
    return light and (window.max_messages is None or places <= window.max_messages)


def naive(window, system, talk, budget):
    """The longest run of newest exchanges that fits; None where not even one does."""
    for begin in range(max(1, len(talk))):
        kept = [each for exchange in talk[begin:] for each in exchange]
        if fits(window, system, kept, budget):
            return [*system, *kept]
    return None


@given(windows, systems, talks(), rooms)
def test_a_window_chooses_what_a_naive_search_finds(window, system, talk, budget):
    rest = [each for exchange in talk for each in exchange]
    expected = naive(window, system, talk, budget)
    if expected is None:
        with pytest.raises(WindowTooSmall):
            window.select(system, rest, budget)
    else:
        assert window.select(system, rest, budget) == expected


@given(windows, systems, talks(), rooms)
def test_what_is_chosen_fits_and_is_all_system_messages_and_the_newest_whole_exchanges(
    window, system, talk, budget
):
    rest = [each for exchange in talk for each in exchange]
    try:
        chosen = window.select(system, rest, budget)
    except WindowTooSmall:
        return
    kept = chosen[len(system) :]
    assert chosen[: len(system)] == system
    assert fits(window, system, kept, budget)
    assert kept == rest[len(rest) - len(kept) :]
    assert bool(kept) == bool(rest)
    called: set[str] = set()
    for each in kept:
        called.update(call.id for call in each.message.tool_calls)
        assert each.message.role != "tool" or each.message.tool_call_id in called


@given(windows, systems, talks(), talks(), rooms)
def test_older_messages_change_nothing_once_the_window_is_full(window, system, older, talk, budget):
    rest = [each for exchange in talk for each in exchange]
    try:
        chosen = window.select(system, rest, budget)
    except WindowTooSmall:
        chosen = None
    if chosen is not None and len(chosen) == len(system) + len(rest):
        return  # it is not full
    longer = [*(each for exchange in older for each in exchange), *rest]
    if chosen is None and rest:
        with pytest.raises(WindowTooSmall):
            window.select(system, longer, budget)
    elif rest:
        assert window.select(system, longer, budget) == chosen


@given(windows, st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=12))
async def test_system_messages_are_kept_wherever_they_stand(window, drawn):
    messages = [Message("system" if is_system else "user", str(size)) for is_system, size in drawn]
    system = [Counted(each, 4 + int(each.text)) for each in messages if each.role == "system"]
    rest = [[Counted(each, 4 + int(each.text))] for each in messages if each.role == "user"]
    expected = naive(window, system, rest, TokenBudget())
    transcript = Transcript.of(messages, window, Written())
    if expected is None:
        with pytest.raises(WindowTooSmall):
            await transcript.for_request()
    else:
        assert await transcript.for_request() == [each.message for each in expected]


@given(st.integers(-1000, 10**9), st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.4, 2.6))
def test_what_is_left_by_our_counting_is_there_by_the_servers_and_one_more_would_not_be(
    max_tokens, reserve, alongside, ratio
):
    within = TokenBudget(reserve, alongside, ratio).available(max_tokens)
    assert (within + alongside) * Fraction(ratio) + reserve <= max_tokens + Fraction(1, 10**6)
    assert (within + 1 + alongside) * Fraction(ratio) + reserve > max_tokens


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        (TokenBudget(), 100),
        (TokenBudget(reserve_tokens=30), 70),
        (TokenBudget(extra_tokens=30), 70),
        (TokenBudget(30, 20), 50),
        (TokenBudget(30, 0, 2.0), 35),
        (
            TokenBudget(30, 20, 2.0),
            15,
        ),  # what is sent alongside is counted by us, the reserve by the server
        (TokenBudget(30, 20, 0.5), 120),
        (TokenBudget(0, 0, 1.03), 97),
        (TokenBudget(101, 0, 2.0), -1),
        (TokenBudget(200, 10), -110),
    ],
)
def test_room_is_left_for_the_reply_for_the_tools_and_for_the_servers_own_counting(budget, left):
    assert budget.available(100) == left


# ---- what must not be parted
# ---------------------------------------------------------------------------------

SYSTEM = Message.system("be brief")
QUESTION = Message.user("what is in the box?")
CALL = calling("a", "b")
RESULTS = [Message.tool("opened", "a"), Message.tool("a cat", "b")]
TALK = [QUESTION, CALL, *RESULTS]


def of_ten(*messages):
    return counted(messages, [10] * len(messages))


@pytest.mark.parametrize(
    ("window", "budget", "kept"),
    [
        (KeepSystemAndRecent(), TokenBudget(10**9), TALK),
        (KeepSystemAndRecent(max_tokens=50), TokenBudget(), TALK),
        (KeepSystemAndRecent(max_tokens=50), TokenBudget(1), TALK[1:]),
        (KeepSystemAndRecent(max_tokens=50), TokenBudget(0, 1), TALK[1:]),
        (KeepSystemAndRecent(max_tokens=50), TokenBudget(0, 0, 1.01), TALK[1:]),
        (KeepSystemAndRecent(max_tokens=25), TokenBudget(0, 0, 0.5), TALK),
        (KeepSystemAndRecent(max_tokens=49), TokenBudget(), TALK[1:]),
        (KeepSystemAndRecent(max_tokens=40), TokenBudget(), TALK[1:]),
        (KeepSystemAndRecent(max_messages=4), TokenBudget(), TALK),
        (KeepSystemAndRecent(max_messages=3), TokenBudget(), TALK[1:]),
        (DropOldest(max_messages=5), TokenBudget(), TALK),
        (DropOldest(max_messages=4), TokenBudget(), TALK[1:]),
        (DropOldest(max_tokens=50, max_messages=4), TokenBudget(), TALK[1:]),
        (DropOldest(max_tokens=49, max_messages=5), TokenBudget(), TALK[1:]),
        (KeepEverything(), TokenBudget(10**9), TALK),
    ],
)
def test_a_tool_result_is_never_parted_from_its_call(window, budget, kept):
    chosen = window.select(of_ten(SYSTEM), of_ten(*TALK), budget)
    assert [each.message for each in chosen] == [SYSTEM, *kept]


@pytest.mark.parametrize(
    ("window", "budget"),
    [
        (KeepSystemAndRecent(max_tokens=39), TokenBudget()),
        (KeepSystemAndRecent(max_tokens=40), TokenBudget(1)),
        (KeepSystemAndRecent(max_tokens=40), TokenBudget(0, 1)),
        (KeepSystemAndRecent(max_tokens=40), TokenBudget(0, 0, 1.01)),
        (KeepSystemAndRecent(max_tokens=0), TokenBudget()),
        (KeepSystemAndRecent(max_messages=2), TokenBudget()),
        (KeepSystemAndRecent(max_messages=0), TokenBudget()),
        (DropOldest(max_messages=3), TokenBudget()),
        (DropOldest(max_tokens=10**9, max_messages=0), TokenBudget()),
        (DropOldest(max_tokens=45, max_messages=3), TokenBudget()),
    ],
)
def test_a_newest_exchange_that_does_not_fit_is_an_error(window, budget):
    with pytest.raises(WindowTooSmall):
        window.select(of_ten(SYSTEM), of_ten(*TALK), budget)


@pytest.mark.parametrize("kind", [DropOldest, KeepSystemAndRecent])
def test_a_summary_takes_room_like_any_system_message(kind):
    system, rest = of_ten(SYSTEM, Message.system("Summary: …")), of_ten(QUESTION, QUESTION)
    assert kind(max_tokens=40).select(system, rest, TokenBudget()) == [*system, *rest]
    assert kind(max_tokens=39).select(system, rest, TokenBudget()) == [*system, rest[1]]


def test_system_messages_count_in_one_window_as_messages_and_in_the_other_not():
    system, rest = of_ten(SYSTEM, SYSTEM), of_ten(QUESTION, QUESTION)
    assert DropOldest(max_messages=3).select(system, rest, TokenBudget()) == [*system, rest[1]]
    assert KeepSystemAndRecent(max_messages=2).select(system, rest, TokenBudget()) == [
        *system,
        *rest,
    ]


@pytest.mark.parametrize("window", [DropOldest(max_tokens=20, max_messages=2), KeepEverything()])
def test_system_messages_alone_are_a_request_too(window):
    assert window.select(of_ten(SYSTEM, SYSTEM), [], TokenBudget()) == of_ten(SYSTEM, SYSTEM)
    assert window.select([], [], TokenBudget()) == []


def test_a_later_exchange_does_not_slip_in_behind_one_that_was_too_large():
    rest = counted([Message.user(each) for each in ("small", "large", "newest")], [1, 100, 1])
    assert KeepSystemAndRecent(max_tokens=50).select([], rest, TokenBudget()) == rest[2:]


@given(talks())
def test_exchanges_follow_one_another_without_a_gap(talk):
    rest = [each for exchange in talk for each in exchange]
    end = len(rest)
    for exchange in reversed(talk):
        begin = exchange_start(rest, end)
        assert rest[begin:end] == exchange
        end = begin
    assert end == 0


class Watched(list):
    """Remembers which of its items were asked for."""

    def __init__(self, items):
        super().__init__(items)
        self.asked = set()

    def __getitem__(self, place):
        self.asked.update(range(*place.indices(len(self))) if isinstance(place, slice) else [place])
        return super().__getitem__(place)

    def __reversed__(self):
        return (self[place] for place in range(len(self) - 1, -1, -1))


def test_nothing_is_looked_at_that_is_older_than_what_does_not_fit():
    rest = Watched(of_ten(*[QUESTION] * 1000))
    DropOldest(max_tokens=50).select([], rest, TokenBudget())
    assert rest.asked == set(range(994, 1000))


# ---- errors
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "system", "rest", "budget", "text"),
    [
        (
            KeepSystemAndRecent(max_tokens=25),
            [SYSTEM],
            [CALL, QUESTION],
            TokenBudget(7, 2),
            "The request does not fit into KeepSystemAndRecent(max_tokens=25, max_messages=None): "
            "the 1 message(s) of the newest exchange have 10 tokens, 1 system message(s) 10, the tools 2, "
            "and the reply reserve 7. "
            "Increase the limit, shorten the messages, or store long results as variables.",
        ),
        (
            DropOldest(max_tokens=29),
            [],
            [QUESTION, CALL, *RESULTS],
            TokenBudget(),
            "The request does not fit into DropOldest(max_tokens=29, max_messages=None): "
            "the 3 message(s) of the newest exchange have 30 tokens, 0 system message(s) 0, the tools 0, "
            "and the reply reserve 0. "
            "Increase the limit, shorten the messages, or store long results as variables.",
        ),
        (
            DropOldest(max_messages=3),
            [SYSTEM],
            [CALL, *RESULTS],
            TokenBudget(),
            "The request does not fit into DropOldest(max_tokens=None, max_messages=3): "
            "the 3 message(s) of the newest exchange have 30 tokens, 1 system message(s) 10, the tools 0, "
            "and the reply reserve 0. "
            "Increase the limit, shorten the messages, or store long results as variables.",
        ),
        (
            DropOldest(max_tokens=15),
            [SYSTEM, SYSTEM],
            [],
            TokenBudget(5),
            "The request does not fit into DropOldest(max_tokens=15, max_messages=None): "
            "the 0 message(s) of the newest exchange have 0 tokens, 2 system message(s) 20, the tools 0, "
            "and the reply reserve 5. "
            "Increase the limit, shorten the messages, or store long results as variables.",
        ),
        (
            DropOldest(max_messages=1),
            [SYSTEM, SYSTEM],
            [],
            TokenBudget(),
            "The request does not fit into DropOldest(max_tokens=None, max_messages=1): "
            "the 0 message(s) of the newest exchange have 0 tokens, 2 system message(s) 20, the tools 0, "
            "and the reply reserve 0. "
            "Increase the limit, shorten the messages, or store long results as variables.",
        ),
    ],
    ids=[
        "tokens",
        "a call with its results",
        "messages",
        "system messages",
        "too many system messages",
    ],
)
def test_a_small_window_says_what_does_not_fit_and_what_to_do(window, system, rest, budget, text):
    with pytest.raises(WindowTooSmall) as caught:
        window.select(of_ten(*system), of_ten(*rest), budget)
    assert str(caught.value) == text


@pytest.mark.parametrize("kind", [DropOldest, KeepSystemAndRecent])
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {"max_tokens": -1},
            "max_tokens is -1; it must be an integer from 0, or None for no limit.",
        ),
        (
            {"max_messages": -5},
            "max_messages is -5; it must be an integer from 0, or None for no limit.",
        ),
    ],
)
def test_a_window_that_cannot_be_is_refused_at_once(kind, settings, why):
    with pytest.raises(ValueError, match=why):
        kind(**settings)


def test_a_window_is_a_value():
    assert DropOldest(100) == DropOldest(max_tokens=100, max_messages=None)
    assert DropOldest(100) != KeepSystemAndRecent(100)
    assert KeepEverything() == KeepEverything()
    with pytest.raises(dataclasses.FrozenInstanceError):
        DropOldest(100).max_tokens = math.inf
