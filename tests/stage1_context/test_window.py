import dataclasses
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message
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
from tests.stage1_context.sessions import SYSTEM, CharacterCounter, RecordingList, calls, result
from tests.tables import for_each


def exchange_of(kind, size):
    """Return a message, or calls and their results. The call ids repeat, as with some servers."""
    if kind != "calls":
        return [Message(kind, "hello")]
    ids = [f"call_{number}" for number in range(size)]
    return [calls(*ids), *map(result, reversed(ids))]


def counted(messages, tokens):
    """Return messages with these numbers of tokens."""
    return [
        Counted(message, count, index)
        for index, (message, count) in enumerate(zip(messages, tokens, strict=True))
    ]


@st.composite
def conversations(draw):
    """Return the exchanges of a conversation. A message may have no tokens at all."""
    kinds = st.sampled_from(["user", "assistant", "calls"])
    drawn = draw(st.lists(st.tuples(kinds, st.integers(1, 3)), max_size=8))
    conversation = [exchange_of(kind, size) for kind, size in drawn]
    return [
        counted(exchange, [draw(st.integers(0, 60)) for _ in exchange]) for exchange in conversation
    ]


systems = st.lists(st.integers(0, 60), max_size=3).map(
    lambda tokens: counted([Message.system(f"rule {count}") for count in tokens], tokens)
)
ratios = st.sampled_from([0.4, 0.5, 0.97, 1.0, 1.03, 1.3, 2.5])
budgets = st.builds(TokenBudget, st.integers(0, 80), st.integers(0, 80), ratios)
windows = st.builds(
    lambda kind, tokens, messages: kind(max_tokens=tokens, max_messages=messages),
    st.sampled_from([DropOldest, KeepSystemAndRecent]),
    st.none() | st.integers(0, 400),
    st.none() | st.integers(0, 12),
)


def fits(window, system, kept, budget):
    """Return whether a request fits into a window, as the server counts it."""
    counted_by_server = (
        sum(message.tokens for message in [*system, *kept]) + budget.extra_tokens
    ) * Fraction(budget.ratio)
    has_tokens = (
        window.max_tokens is None
        or counted_by_server + budget.reserve_tokens <= window.max_tokens + 1e-9
    )
    counted_messages = (
        len(kept) if isinstance(window, KeepSystemAndRecent) else len(kept) + len(system)
    )
    return has_tokens and (window.max_messages is None or counted_messages <= window.max_messages)


def naive(window, system, conversation, budget):
    """Return the longest sequence of newest exchanges that fits; None if none fits."""
    for begin in range(max(1, len(conversation))):
        kept = [message for exchange in conversation[begin:] for message in exchange]
        if fits(window, system, kept, budget):
            return [*system, *kept]
    return None


@given(windows, systems, conversations(), budgets)
def test_a_window_selects_the_same_messages_as_a_naive_search(window, system, conversation, budget):
    rest = [message for exchange in conversation for message in exchange]
    expected = naive(window, system, conversation, budget)
    if expected is None:
        with pytest.raises(WindowTooSmall):
            window.select(system, rest, budget)
    else:
        assert window.select(system, rest, budget) == expected


@given(windows, systems, conversations(), budgets)
def test_a_selection_fits_and_consists_of_the_system_messages_and_the_newest_whole_exchanges(
    window, system, conversation, budget
):
    rest = [message for exchange in conversation for message in exchange]
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
    for entry in kept:
        called.update(call.id for call in entry.message.tool_calls)
        assert entry.message.role != "tool" or entry.message.tool_call_id in called


@given(windows, systems, conversations(), conversations(), budgets)
def test_older_messages_do_not_change_the_selection_of_a_full_window(
    window, system, older, conversation, budget
):
    rest = [message for exchange in conversation for message in exchange]
    try:
        chosen = window.select(system, rest, budget)
    except WindowTooSmall:
        chosen = None
    if chosen is not None and len(chosen) == len(system) + len(rest):
        return  # the window is not full
    longer = [*(message for exchange in older for message in exchange), *rest]
    if chosen is None and rest:
        with pytest.raises(WindowTooSmall):
            window.select(system, longer, budget)
    elif rest:
        assert window.select(system, longer, budget) == chosen


@given(windows, st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=12))
async def test_system_messages_are_kept_at_any_position(window, drawn):
    messages = [Message("system" if is_system else "user", "x" * size) for is_system, size in drawn]
    system = [
        Counted(message, 4 + len(message.text)) for message in messages if message.role == "system"
    ]
    rest = [
        [Counted(message, 4 + len(message.text))] for message in messages if message.role == "user"
    ]
    expected = naive(window, system, rest, TokenBudget())
    transcript = Transcript.of(messages, window, CharacterCounter())
    if expected is None:
        with pytest.raises(WindowTooSmall):
            await transcript.for_request()
    else:
        assert await transcript.for_request() == [entry.message for entry in expected]


@given(st.integers(-1000, 10**9), st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.4, 2.6))
def test_the_available_tokens_are_the_most_that_fit_as_the_server_counts_them(
    max_tokens, reserve, extra, ratio
):
    within = TokenBudget(reserve, extra, ratio).available(max_tokens)
    assert (within + extra) * Fraction(ratio) + reserve <= max_tokens + Fraction(1, 10**6)
    assert (within + 1 + extra) * Fraction(ratio) + reserve > max_tokens


@for_each(
    "budget, left",
    [
        (TokenBudget(), 100),
        (TokenBudget(reserve_tokens=30), 70),
        (TokenBudget(extra_tokens=30), 70),
        (TokenBudget(30, 20), 50),
        (TokenBudget(30, 0, 2.0), 35),
        (
            TokenBudget(30, 20, 2.0),
            15,
        ),  # the ratio scales the extra tokens but not the reserve
        (TokenBudget(30, 20, 0.5), 120),
        (TokenBudget(0, 0, 1.03), 97),
        (TokenBudget(101, 0, 2.0), -1),
        (TokenBudget(200, 10), -110),
    ],
)
def test_the_budget_subtracts_the_reserve_and_the_extra_tokens_and_scales_by_the_ratio(
    budget, left
):
    assert budget.available(100) == left


# ---- calls and their results

QUESTION = Message.user("what is in the box?")
CALL = calls("a", "b")
RESULTS = [result("a"), result("b")]
CONVERSATION = [QUESTION, CALL, *RESULTS]


def of_ten(*messages):
    """Return messages of ten tokens each."""
    return counted(messages, [10] * len(messages))


@for_each(
    "window, budget, kept",
    [
        (KeepSystemAndRecent(), TokenBudget(10**9), CONVERSATION),
        (KeepSystemAndRecent(max_tokens=50), TokenBudget(), CONVERSATION),
        (KeepSystemAndRecent(max_tokens=50), TokenBudget(1), CONVERSATION[1:]),
        (KeepSystemAndRecent(max_tokens=50), TokenBudget(0, 1), CONVERSATION[1:]),
        (KeepSystemAndRecent(max_tokens=50), TokenBudget(0, 0, 1.01), CONVERSATION[1:]),
        (KeepSystemAndRecent(max_tokens=25), TokenBudget(0, 0, 0.5), CONVERSATION),
        (KeepSystemAndRecent(max_tokens=49), TokenBudget(), CONVERSATION[1:]),
        (KeepSystemAndRecent(max_tokens=40), TokenBudget(), CONVERSATION[1:]),
        (KeepSystemAndRecent(max_messages=4), TokenBudget(), CONVERSATION),
        (KeepSystemAndRecent(max_messages=3), TokenBudget(), CONVERSATION[1:]),
        (DropOldest(max_messages=5), TokenBudget(), CONVERSATION),
        (DropOldest(max_messages=4), TokenBudget(), CONVERSATION[1:]),
        (DropOldest(max_tokens=50, max_messages=4), TokenBudget(), CONVERSATION[1:]),
        (DropOldest(max_tokens=49, max_messages=5), TokenBudget(), CONVERSATION[1:]),
        (KeepEverything(), TokenBudget(10**9), CONVERSATION),
    ],
)
def test_a_tool_result_is_never_separated_from_its_call(window, budget, kept):
    chosen = window.select(of_ten(SYSTEM), of_ten(*CONVERSATION), budget)
    assert [entry.message for entry in chosen] == [SYSTEM, *kept]


@for_each(
    "window, budget",
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
        window.select(of_ten(SYSTEM), of_ten(*CONVERSATION), budget)


@for_each("kind", [DropOldest, KeepSystemAndRecent])
def test_a_summary_is_never_dropped_and_uses_tokens_like_a_system_message(kind):
    system, rest = of_ten(SYSTEM, Message.user("[Summary …]")), of_ten(QUESTION, QUESTION)
    assert kind(max_tokens=40).select(system, rest, TokenBudget()) == [*system, *rest]
    assert kind(max_tokens=39).select(system, rest, TokenBudget()) == [*system, rest[1]]


def test_system_messages_count_towards_max_messages_of_drop_oldest_only():
    system, rest = of_ten(SYSTEM, SYSTEM), of_ten(QUESTION, QUESTION)
    assert DropOldest(max_messages=3).select(system, rest, TokenBudget()) == [*system, rest[1]]
    assert KeepSystemAndRecent(max_messages=2).select(system, rest, TokenBudget()) == [
        *system,
        *rest,
    ]


@given(conversations())
def test_exchange_start_finds_the_exchanges_without_gaps(conversation):
    rest = [message for exchange in conversation for message in exchange]
    end = len(rest)
    for exchange in reversed(conversation):
        begin = exchange_start(rest, end)
        assert rest[begin:end] == exchange
        end = begin
    assert end == 0


def test_messages_older_than_the_first_that_does_not_fit_are_not_read():
    rest = RecordingList(of_ten(*[QUESTION] * 1000))
    DropOldest(max_tokens=50).select([], rest, TokenBudget())
    assert set(rest.indices) == set(range(994, 1000))


# ---- errors


@for_each(
    "window, system, rest, budget, text",
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
)
def test_the_error_of_a_small_window_states_what_does_not_fit_and_how_to_fix_it(
    window, system, rest, budget, text
):
    with pytest.raises(WindowTooSmall) as caught:
        window.select(of_ten(*system), of_ten(*rest), budget)
    assert str(caught.value) == text


@for_each("kind", [DropOldest, KeepSystemAndRecent])
@for_each(
    "settings, why",
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
def test_invalid_settings_of_a_window_are_rejected(kind, settings, why):
    with pytest.raises(ValueError, match=why):
        kind(**settings)


def test_windows_are_immutable_and_compared_by_value():
    assert DropOldest(100) == DropOldest(max_tokens=100, max_messages=None)
    assert DropOldest(100) != KeepSystemAndRecent(100)
    assert KeepEverything() == KeepEverything()
    with pytest.raises(dataclasses.FrozenInstanceError):
        DropOldest(100).max_tokens = math.inf
