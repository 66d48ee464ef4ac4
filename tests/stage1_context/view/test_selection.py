import functools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message, ToolCall
from stage1_context import (
    CallStartedRecord,
    DropOldest,
    KeepEverything,
    KeepSystemAndRecent,
    MemoryStore,
    MessageRecord,
    SummaryRecord,
    TokenBudget,
    Transcript,
    WindowTooSmall,
)
from stage1_context.view.journal_reader import JournalReader
from stage1_context.view.selection import select


class Letters:
    def __init__(self):
        self.counted = Counter()

    def count(self, text):
        self.counted[text] += 1
        return len(text)


class EveryThird:
    """A custom window that needs all messages."""

    def select(self, system, rest, budget, /):
        return [*system, *rest[::3]]


class TheLast:
    """A custom window that needs only the newest messages, as `newest_only` states."""

    newest_only = True

    def __init__(self, many):
        self.many = many

    def select(self, system, rest, budget, /):
        return [*system, *rest[max(0, len(rest) - self.many) :]]


def conversation(seed, length):
    """A random journal of about this length."""
    chance, records = random.Random(seed), []
    while len(records) < length:
        number = len(records)
        kind = chance.choice(
            ["user", "user", "assistant", "calls", "calls", "system", "noise", "summary"]
        )
        text = f"{number} " + "x" * chance.randrange(30)
        if kind == "calls":
            ids = [f"{number}.{each}" for each in range(chance.randrange(1, 4))]
            records.append(
                MessageRecord(Message.assistant(text, [ToolCall(id, "f") for id in ids]))
            )
            records += [
                MessageRecord(Message.tool(text, id)) for id in chance.sample(ids, len(ids))
            ]
        elif kind == "noise":
            records += [CallStartedRecord("a", "f")] * chance.randrange(40)
        elif kind in ("user", "assistant"):
            records.append(MessageRecord(Message(kind, text)))
        elif chance.random() < 0.05:
            records.append(
                MessageRecord(Message.system(text))
                if kind == "system"
                else SummaryRecord(text, number)
            )
    return records


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
    st.just(EveryThird()),
    st.builds(TheLast, st.integers(0, 100)),
)


async def sent(transcript, **how):
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
    records = conversation(seed, length)
    messages = [each.message for each in records if isinstance(each, MessageRecord)]
    how = {
        "extra_text": extra_text,
        "reserve_tokens": reserve_tokens,
        "include_summary": include_summary,
        "pinned": messages[int(len(messages) * pinned)]
        if messages and pinned is not None
        else None,
    }
    lazily, fully = (
        Transcript(MemoryStore({"s": records}), "s", window, Letters()) for _ in range(2)
    )
    assert await sent(lazily, **how) == await sent(fully, complete=True, **how)


# ---- the cost of a request does not grow
# -----------------------------------------------------------------


class CountedList(list):
    """Counts how many of its items are read."""

    reads = 0

    def __getitem__(self, index):
        self.reads += len(range(*index.indices(len(self)))) if isinstance(index, slice) else 1
        return super().__getitem__(index)

    def __iter__(self):
        for place in range(len(self)):
            yield self[place]

    def __reversed__(self):
        for place in range(len(self) - 1, -1, -1):
            yield self[place]


def exchange(number):
    yield Message.user(f"question {number:05}")
    yield Message.assistant("", [ToolCall(f"id {number:05}", "f")])
    yield Message.tool(f"result {number:05}", f"id {number:05}")
    yield Message.assistant(f"answer {number:05}")


@functools.cache
def exchanges(length):
    """A journal of this many messages."""
    return tuple(MessageRecord(each) for number in range(length // 4) for each in exchange(number))


async def cost(window, length, pinned):
    """The numbers of messages that a request reads, counts and selects after a full read."""
    counter = Letters()
    store = MemoryStore({"s": exchanges(length)})
    reader = JournalReader(store, "s", counter)
    await reader.read_new()
    while not reader.has_all:
        await reader.read_back()
    counter.counted.clear()
    reader.messages = CountedList(reader.messages)
    selection = await select(reader, window, TokenBudget(5, 5), pinned)
    return reader.messages.reads, counter.counted.total(), len(selection.chosen)


@pytest.mark.parametrize(
    "pinned", [None, Message.user("question 00000")], ids=["nothing", "the first"]
)
@pytest.mark.parametrize(
    "window",
    [
        KeepSystemAndRecent(max_tokens=300),
        KeepSystemAndRecent(max_messages=8),
        DropOldest(max_tokens=300, max_messages=10),
    ],
    ids=str,
)
async def test_a_request_reads_no_more_of_ten_thousand_messages_than_of_a_hundred(window, pinned):
    hundred = await cost(window, 100, pinned)
    assert await cost(window, 10_000, pinned) == hundred
    assert hundred[0] < 200


class WatchedStore(MemoryStore):
    """Counts the records that it returns."""

    records_read = 0

    async def read(self, *given, **named):
        found = await super().read(*given, **named)
        self.records_read += len(found)
        return found


async def first_and_next(length):
    """The numbers of records read and texts counted by the first three requests."""
    store, counter, costs = WatchedStore({"s": exchanges(length)}), Letters(), []
    transcript = Transcript(store, "s", KeepSystemAndRecent(max_messages=20), counter)
    for number in range(3):
        store.records_read = 0
        counter.counted.clear()
        await transcript.for_request(
            extra_text="tools", pinned=Message.user(f"question {number:05}")
        )
        costs.append((store.records_read, counter.counted.total()))
        await transcript.append(Message.user("next"))
    return costs


async def test_the_first_request_reads_and_counts_no_more_of_ten_thousand_messages_than_of_a_hundred():
    hundred = await first_and_next(100)
    assert await first_and_next(10_000) == hundred
    # First one page and the tools, then one new message, which the transcript itself appended.
    assert hundred == [(32, 27), (0, 1), (0, 1)]


# ---- fields of a selection
# -------------------------------------------------------------------------------


async def test_a_selection_contains_the_inputs_of_the_window():
    window = KeepSystemAndRecent(max_tokens=40)
    messages = [Message.system("brief"), Message.user("one" * 9), Message.user("two")]
    selection = await Transcript.of(messages, window, Letters()).select(
        extra_text="tool", reserve_tokens=3
    )
    assert selection.window is window
    assert [each.message for each in selection.system] == messages[:1]
    assert [each.message for each in selection.rest] == messages[1:]
    assert (
        selection.budget.reserve_tokens,
        selection.budget.extra_tokens,
        selection.budget.ratio,
    ) == (3, 4, 1)
    assert [each.message for each in selection.chosen] == [messages[0], messages[2]]
    assert selection.tokens == (4 + 5) + (4 + 3) + 4
