import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message, ToolCall
from stage1_context import KeepEverything, KeepSystemAndRecent, MessageHistory, Transcript, WindowTooSmall
from stage1_context.window import Counted


class Written:
    """Text says what it costs."""

    def count(self, text):
        return int(text or 0)


def cost(message):
    return 4 + int(message.text) + sum(4 + int(call.arguments) for call in message.tool_calls)


def exchange(number, kind, costs):
    """A message, or calls and their results in any order; ids are unique within a history."""
    if kind in ("system", "user", "assistant"):
        return [Message(kind, costs[0])]
    ids = [f"{number}.{index}" for index in range(len(costs))]
    calls = [ToolCall(id, "", each) for id, each in zip(ids, costs, strict=True)]
    return [Message.assistant(costs[0], calls), *(Message.tool(costs[-1], id) for id in reversed(ids))]


costs = st.lists(st.integers(0, 30).map(str), min_size=1, max_size=3)
exchanges = st.lists(
    st.tuples(st.sampled_from(["system", "user", "assistant", "calls", "calls"]), costs), max_size=8
).map(lambda drawn: [exchange(number, *each) for number, each in enumerate(drawn)])
limits = st.none() | st.integers(0, 300)


def naive(system, exchanges, max_tokens, max_messages, reserve):
    """The longest run of newest exchanges that fits, or None where not even one does."""
    for begin in range(len(exchanges) + 1):
        kept = [message for each in exchanges[begin:] for message in each]
        few = max_messages is None or len(kept) <= max_messages
        light = max_tokens is None or sum(map(cost, [*system, *kept])) + reserve <= max_tokens
        if few and light and (kept or not exchanges):
            return [*system, *kept]
    return None


@given(exchanges, limits, st.none() | st.integers(0, 12), st.integers(0, 50))
async def test_the_window_is_what_a_naive_search_finds(history, max_tokens, max_messages, reserve):
    system = [message for each in history for message in each if message.role == "system"]
    rest = [each for each in history if each[0].role != "system"]
    transcript = Transcript.of(
        [message for each in history for message in each],
        KeepSystemAndRecent(max_tokens=max_tokens, max_messages=max_messages),
        Written(),
    )
    expected = naive(system, rest, max_tokens, max_messages, reserve)
    if not rest:
        assert await transcript.for_request(reserve_tokens=reserve) == system
    elif expected is None:
        with pytest.raises(WindowTooSmall):
            await transcript.for_request(reserve_tokens=reserve)
    else:
        assert await transcript.for_request(reserve_tokens=reserve) == expected


@given(exchanges, st.integers(0, 300))
async def test_a_window_fits_keeps_the_system_messages_and_parts_no_call_from_its_result(history, budget):
    messages = [message for each in history for message in each]
    system = [message for message in messages if message.role == "system"]
    rest = [message for message in messages if message.role != "system"]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_tokens=budget), Written())
    try:
        sent = await transcript.for_request()
    except WindowTooSmall:
        newest = next(each for each in reversed(history) if each[0].role != "system")
        assert sum(map(cost, [*system, *newest])) > budget
        return
    kept = sent[len(system) :]
    assert sent[: len(system)] == system
    assert kept == rest[len(rest) - len(kept) :]
    assert MessageHistory(sent).check_history() == []
    assert not kept or sum(map(cost, sent)) <= budget
    assert bool(kept) == bool(rest)


SYSTEM = Message.system("be brief")
QUESTION = Message.user("what is in the box?")
CALL = Message.assistant("", [ToolCall("a", "open"), ToolCall("b", "look")])
RESULTS = [Message.tool("opened", "a"), Message.tool("a cat", "b")]


def counted(*messages):
    return [Counted(message, 10) for message in messages]


@pytest.mark.parametrize(
    ("window", "reserve", "kept"),
    [
        (KeepSystemAndRecent(), 10**9, [QUESTION, CALL, *RESULTS]),
        (KeepSystemAndRecent(max_tokens=50), 0, [QUESTION, CALL, *RESULTS]),
        (KeepSystemAndRecent(max_tokens=50), 1, [CALL, *RESULTS]),
        (KeepSystemAndRecent(max_tokens=49), 0, [CALL, *RESULTS]),
        (KeepSystemAndRecent(max_tokens=40), 0, [CALL, *RESULTS]),
        (KeepSystemAndRecent(max_messages=4), 0, [QUESTION, CALL, *RESULTS]),
        (KeepSystemAndRecent(max_messages=3), 0, [CALL, *RESULTS]),
        (KeepEverything(), 10**9, [QUESTION, CALL, *RESULTS]),
    ],
)
def test_a_tool_result_is_never_parted_from_its_call(window, reserve, kept):
    assert window.select(counted(SYSTEM), counted(QUESTION, CALL, *RESULTS), reserve) == [SYSTEM, *kept]


@pytest.mark.parametrize(
    ("window", "reserve"),
    [
        (KeepSystemAndRecent(max_tokens=39), 0),
        (KeepSystemAndRecent(max_tokens=40), 1),
        (KeepSystemAndRecent(max_messages=2), 0),
    ],
)
def test_a_newest_exchange_that_does_not_fit_is_an_error(window, reserve):
    with pytest.raises(WindowTooSmall):
        window.select(counted(SYSTEM), counted(QUESTION, CALL, *RESULTS), reserve)


def test_a_small_window_says_what_does_not_fit_and_what_to_do():
    with pytest.raises(WindowTooSmall) as caught:
        KeepSystemAndRecent(max_tokens=25).select(counted(SYSTEM), counted(CALL, QUESTION), 7)
    assert str(caught.value) == (
        "The newest exchange (1 message(s), beginning with the user message "
        "'what is in the box?') takes "
        "10 tokens; system prompt, tools and reply reserve take 17. The window is max_tokens=25, "
        "max_messages=None: make it larger, or the message shorter."
    )


def test_a_later_exchange_does_not_slip_in_behind_one_that_was_too_large():
    small, large, newest = Message.user("small"), Message.user("large"), Message.user("newest")
    rest = [Counted(small, 1), Counted(large, 100), Counted(newest, 1)]
    assert KeepSystemAndRecent(max_tokens=50).select([], rest) == [newest]


def test_a_result_is_not_parted_from_its_call_by_a_message_in_between():
    call = Message.assistant("", [ToolCall("c1", "f")])
    late = [call, Message.user("by the way"), Message.tool("1", "c1")]
    rest = [Counted(message, 1) for message in (Message.user("go"), *late)]
    assert KeepSystemAndRecent(max_messages=3).select([], rest) == late
    with pytest.raises(WindowTooSmall):
        KeepSystemAndRecent(max_messages=2).select([], rest)
