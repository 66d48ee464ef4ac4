import functools
import random

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message
from stage1_context import (
    CallStartedRecord,
    DropOldest,
    KeepEverything,
    KeepSystemAndRecent,
    SummaryRecord,
    TokenBudget,
    Transcript,
    WindowTooSmall,
)
from stage1_context.view.journal_reader import JournalReader
from stage1_context.view.selection import select
from tests.stage1_context.sessions import (
    AlternatingWindow,
    CharacterCounter,
    RecordingList,
    RecordingStore,
    calls,
    records,
    result,
    store_of,
)
from tests.tables import for_each


class NewestWindow:
    """A custom window that needs only the newest messages, as `newest_only` states."""

    newest_only = True

    def __init__(self, many):
        self.many = many

    def select(self, system, rest, budget, /):
        return [*system, *rest[max(0, len(rest) - self.many) :]]


def random_entries(seed, length):
    """Return the messages and records of a random journal of about this length."""
    chance, entries = random.Random(seed), []
    kinds = ["user", "user", "assistant", "calls", "calls", "rare", "rare", "call records"]
    while len(entries) < length:
        number = len(entries)
        text = f"{number} " + "x" * chance.randrange(30)
        match chance.choice(kinds):
            case "calls":
                ids = [f"{number}.{each}" for each in range(chance.randrange(1, 4))]
                answered = chance.sample(ids, len(ids))
                entries += [calls(*ids, text=text), *(result(id, text) for id in answered)]
            case "call records":
                entries += [CallStartedRecord("a", "f")] * chance.randrange(40)
            case "rare" if chance.random() < 0.05:
                entries.append(chance.choice([Message.system(text), SummaryRecord(text, number)]))
            case "user" | "assistant" as role:
                entries.append(Message(role, text))
    return entries


windows = st.one_of(
    st.builds(DropOldest, max_tokens=st.integers(0, 6000)),
    st.builds(KeepSystemAndRecent, max_messages=st.integers(0, 300)),
    st.builds(
        KeepSystemAndRecent,
        max_tokens=st.integers(0, 6000),
        max_messages=st.none() | st.integers(0, 300),
    ),
    st.just(KeepEverything()),
    st.just(DropOldest()),
    st.just(AlternatingWindow()),
    st.builds(NewestWindow, st.integers(0, 100)),
)


async def sent(transcript, **how):
    """Return the messages that a request sends, or the error."""
    try:
        selection = await transcript.select(**how)
        return [each.message for each in selection.chosen]
    except WindowTooSmall as error:
        return str(error)


@given(
    st.integers(0, 10**6),
    st.integers(0, 400),
    windows,
    st.sampled_from(["", "t" * 50]),
    st.sampled_from([0, 100]),
    st.booleans(),
    st.none() | st.floats(0, 0.99),
)
async def test_a_lazily_read_journal_sends_the_same_messages_as_a_fully_read_one(
    seed, length, window, extra_text, reserve_tokens, include_summary, pinned
):
    entries = random_entries(seed, length)
    messages = [each for each in entries if isinstance(each, Message)]
    how = {
        "extra_text": extra_text,
        "reserve_tokens": reserve_tokens,
        "include_summary": include_summary,
        "pinned": messages[int(len(messages) * pinned)]
        if messages and pinned is not None
        else None,
    }
    lazily, fully = (
        Transcript(store_of(*entries), "s", window, CharacterCounter()) for _ in range(2)
    )
    assert await sent(lazily, **how) == await sent(fully, complete=True, **how)


# ---- the cost of a request does not grow


@functools.cache
def exchanges(length):
    """Return a journal of this many messages."""
    return tuple(
        each
        for number in range(length // 4)
        for each in records(
            [
                Message.user(f"question {number:05}"),
                calls(f"id {number:05}"),
                result(f"id {number:05}", f"result {number:05}"),
                Message.assistant(f"answer {number:05}"),
            ]
        )
    )


async def cost(window, length, pinned):
    """Return how many messages a request reads, counts and selects after all were read."""
    counter = CharacterCounter()
    reader = JournalReader(store_of(*exchanges(length)), "s", counter)
    await reader.read_new()
    while not reader.has_all:
        await reader.read_back()
    counter.counted.clear()
    reader.messages = RecordingList(reader.messages)
    selection = await select(reader, window, TokenBudget(5, 5), pinned)
    return len(reader.messages.indices), counter.counted.total(), len(selection.chosen)


@for_each("pinned", [None, Message.user("question 00000")])
@for_each(
    "window",
    [
        KeepSystemAndRecent(max_tokens=300),
        KeepSystemAndRecent(max_messages=8),
        DropOldest(max_tokens=300, max_messages=10),
    ],
)
async def test_a_request_reads_no_more_of_two_thousand_messages_than_of_a_hundred(window, pinned):
    hundred = await cost(window, 100, pinned)
    assert await cost(window, 2000, pinned) == hundred
    assert hundred[0] < 200


async def first_costs(length):
    """Return the numbers of records read and texts counted by each of the first three requests."""
    store, counter, costs = RecordingStore(*exchanges(length)), CharacterCounter(), []
    transcript = Transcript(store, "s", KeepSystemAndRecent(max_messages=20), counter)
    for number in range(3):
        store.pages.clear()
        counter.counted.clear()
        await transcript.for_request(
            extra_text="tools", pinned=Message.user(f"question {number:05}")
        )
        costs.append((store.records_read, counter.counted.total()))
        await transcript.append(Message.user("next"))
    return costs


async def test_the_first_request_reads_and_counts_no_more_of_two_thousand_messages_than_of_a_hundred():
    # First one page and the tools, then one new message, which the transcript itself appended.
    assert await first_costs(100) == await first_costs(2000) == [(32, 27), (0, 1), (0, 1)]


# ---- fields of a selection


async def test_a_selection_contains_the_inputs_of_the_window():
    window = KeepSystemAndRecent(max_tokens=40)
    messages = [Message.system("brief"), Message.user("one" * 9), Message.user("two")]
    selection = await Transcript.of(messages, window, CharacterCounter()).select(
        extra_text="tool", reserve_tokens=3
    )
    assert selection.window is window
    assert [each.message for each in selection.system] == messages[:1]
    assert [each.message for each in selection.rest] == messages[1:]
    assert selection.budget == TokenBudget(reserve_tokens=3, extra_tokens=4, ratio=1)
    assert [each.message for each in selection.chosen] == [messages[0], messages[2]]
    assert selection.tokens == (4 + 5) + (4 + 3) + 4
