import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message, ToolCall
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    MemoryStore,
    MessageRecord,
    RepairRecord,
    StoreFailed,
    SummaryRecord,
    VariableRecord,
)
from stage1_context.recovery.repair import repairs
from stage1_context.view.journal_reader import Tail
from stage1_context.view.projection import messages_of, view_of


class Letters:
    """Counts letters, and how often it was asked for each text."""

    def __init__(self):
        self.seen = Counter()

    def count(self, text):
        self.seen[text] += 1
        return len(text)


class Watched(MemoryStore):
    """Remembers which records were handed out."""

    def __init__(self, journals):
        super().__init__(journals)
        self.handed_out = []

    async def read(self, session_id, start=0, end=None, *, kinds=None):
        found = await super().read(session_id, start, end, kinds=kinds)
        self.handed_out.append([index for index, _ in found])
        return found


def said(number):
    return MessageRecord(Message.user(f"message {number}"))


def calls(*ids):
    return MessageRecord(Message.assistant("", [ToolCall(id, "f") for id in ids]))


def result(id, text="done"):
    return MessageRecord(Message.tool(text, id))


def fold(records, folded=True):
    """What a journal shows, by looking at all of it: the system messages, and the rest."""
    until, inserted, hidden = 0, [], set()
    for record in records:
        if isinstance(record, SummaryRecord):
            until = record.until if record.text else 0
        elif isinstance(record, RepairRecord):
            hidden.update(record.hidden)
            inserted = [each for each in inserted if each[0] not in record.hidden] + [
                *record.inserted
            ]
    system, rest = [], []
    for index, record in enumerate(records):
        if not isinstance(record, MessageRecord):
            continue
        shown = [] if index in hidden else [record.message]
        shown += [message for place, message in inserted if place == index]
        if record.message.role == "system":
            system += [(index, message) for message in shown]
        elif index >= until or not folded:
            rest += [(index, message) for message in shown]
    return system, rest


def pairs(counted):
    return [(each.index, each.message) for each in counted]


def check(tail, records, folded):
    """What a tail shows is the end of what the whole journal shows, and begins with a whole
    exchange."""
    system, rest = fold(records, folded)
    assert pairs(tail.system) == system
    assert pairs(tail.rest) == rest[len(rest) - len(tail.rest) :]
    assert bool(tail.rest) == bool(rest)
    if tail.whole:
        assert len(tail.rest) == len(rest)
        return
    called = set()
    for each in tail.rest:
        called.update(call.id for call in each.message.tool_calls)
        assert not each.message.tool_call_id or each.message.tool_call_id in called


# ---- what is read
# ----------------------------------------------------------------------------------------


async def test_a_long_journal_is_opened_with_its_landmarks_and_its_last_page_only():
    landmarks = {
        0: MessageRecord(Message.system("be brief")),
        1000: SummaryRecord("they met", 900),
        2000: SummaryRecord("they met again", 1500),
        3000: RepairRecord((), (2999,)),
        4000: MessageRecord(Message.system("be kind")),
    }
    store = Watched({"s": [landmarks.get(number) or said(number) for number in range(5000)]})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    assert store.handed_out == [[0, 1000, 2000, 3000, 4000], list(range(4968, 5000))]
    assert [each.message.text for each in tail.system] == ["be brief", "be kind"]
    assert [each.index for each in tail.rest] == list(range(4968, 5000))
    assert not tail.whole


async def test_each_page_is_twice_as_long_up_to_a_limit_and_none_is_read_twice():
    store = Watched({"s": map(said, range(20_000))})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    while not tail.whole:
        await tail.read_back()
    pages = [len(page) for page in store.handed_out[1:]]
    assert pages[:9] == [32, 64, 128, 256, 512, 1024, 2048, 4096, 4096]
    assert max(pages) == 4096
    assert sum(pages) == len(tail.rest) == 20_000
    await tail.read_back()
    assert len(store.handed_out) == len(pages) + 1


async def test_what_a_summary_stands_for_is_not_read():
    store = Watched(
        {"s": [*map(said, range(1000)), SummaryRecord("they met", 990), *map(said, range(5))]}
    )
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    assert tail.whole
    assert store.handed_out == [[1000], [*range(990, 1000), *range(1001, 1006)]]


async def test_what_is_new_is_read_and_nothing_else():
    store = Watched({"s": map(said, range(1000))})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    store.handed_out.clear()
    await store.append("s", said(1000), CallStartedRecord("a", "f"), VariableRecord("x" * 10_000))
    await tail.read_on()
    await tail.read_on()
    assert store.handed_out == [[1000]]


async def test_what_was_written_from_here_is_not_read_unless_somebody_else_wrote_before():
    store = Watched({"s": map(said, range(1000))})
    tail = Tail(store, "s", Letters())
    tail.wrote([said(0)], 1)  # nothing is known of the journal yet
    await tail.read_on()
    store.handed_out.clear()
    own = [said(1000), CallStartedRecord("a", "f"), said(1002)]
    tail.wrote(own, await store.append("s", *own))
    await tail.read_on()
    assert store.handed_out == []
    await store.append("s", said(1003))
    tail.wrote([said(1004)], await store.append("s", said(1004)))
    await tail.read_on()
    assert store.handed_out == [[1003, 1004]]
    assert [each.index for each in tail.rest][-5:] == [999, 1000, 1002, 1003, 1004]


@pytest.mark.parametrize("landmark", [RepairRecord((), (2,)), SummaryRecord("they met", 2)])
async def test_a_landmark_that_was_written_from_here_changes_how_messages_look(landmark):
    records = [said(0), calls("a"), said(2), result("a", "long")]
    store = MemoryStore({"s": records})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    tail.wrote([landmark], await store.append("s", landmark))
    await tail.read_on()
    check(tail, [*records, landmark], True)


@pytest.mark.parametrize("many", [31, 32, 33, 100])
async def test_the_newest_message_is_read_however_much_else_stands_behind_it(many):
    store = MemoryStore({"s": [*map(said, range(100)), *[CallStartedRecord("a", "f")] * many]})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    assert tail.rest[-1].index == 99


async def test_it_does_not_begin_between_a_call_and_its_results():
    ids = [str(number) for number in range(200)]
    store = MemoryStore({"s": [*map(said, range(1000)), calls(*ids), *map(result, ids), said(0)]})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    assert [each.index for each in tail.rest] == [
        1201
    ]  # what was read of the results waits for their call
    await tail.read_back()
    assert tail.rest[0].index <= 1000
    assert not tail.whole


async def test_it_reads_on_to_the_call_also_where_the_result_came_late():
    store = MemoryStore(
        {"s": [*map(said, range(500)), calls("a"), *map(said, range(200)), result("a")]}
    )
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    assert tail.rest[0].index <= 500
    assert not tail.whole


async def test_a_summary_that_parted_a_call_from_its_results_does_no_harm_once_it_is_taken_back():
    store = MemoryStore(
        {"s": [*map(said, range(500)), calls("a", "b"), result("a"), result("b"), said(0)]}
    )
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    for summary, first in (
        (SummaryRecord("they met", 502), [502]),
        (SummaryRecord(""), range(501)),
    ):
        await store.append("s", summary)
        await tail.read_on()
        assert tail.rest[0].index in first


async def test_after_a_repair_was_taken_in_only_what_is_new_is_read():
    store = Watched({"s": map(said, range(1000))})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    await store.append("s", RepairRecord((), (500,)))
    await tail.read_on()
    store.handed_out.clear()
    await tail.read_on()
    assert store.handed_out == []


@pytest.mark.parametrize("length", [1, 49, 50, 51, 80])
async def test_a_session_that_was_deleted_and_begun_anew_is_read_anew(length):
    old = [said(0), MessageRecord(Message.system("be brief")), *map(said, range(48))]
    store = MemoryStore({"s": [*old, SummaryRecord("they met", 3), calls("a")]})
    tails = [Tail(store, "s", Letters()), Tail(store, "s", Letters(), folded=False)]
    for tail in tails:
        await tail.read_on()
    await store.delete("s")
    await store.create("s", *map(said, range(100, 100 + length)))
    for tail in tails:
        await tail.read_on()
        while not tail.whole:
            await tail.read_back()
        assert [each.message for each in tail.rest] == [
            said(100 + number).message for number in range(length)
        ]
        assert (tail.system, tail.view.summary, await tail.all_call_ids()) == ([], "", set())


async def test_all_messages_are_hidden_but_an_old_one_and_that_is_found():
    store = MemoryStore({"s": [*map(said, range(100)), RepairRecord((), tuple(range(1, 100)))]})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    assert [each.index for each in tail.rest] == [0]


async def test_a_summary_may_stand_for_messages_that_are_still_to_come():
    records = [said(0), SummaryRecord("all of it", 4)]
    store = MemoryStore({"s": records})
    tails = [Tail(store, "s", Letters()), Tail(store, "s", Letters(), folded=False)]
    for new in (said(2), said(3), said(4), SummaryRecord("", 0), said(5)):
        for tail in tails:
            await tail.read_on()
        await store.append("s", new)
        records.append(new)
    for tail, folded in zip(tails, (True, False), strict=True):
        await tail.read_on()
        await tail.read_back()
        check(tail, records, folded)
        assert len(tail.rest) == 5


# ---- counting
# --------------------------------------------------------------------------------------------


async def test_messages_that_a_summary_stood_for_before_they_came_are_shown_once_when_it_is_taken_back():
    records = [said(0), said(1), SummaryRecord("they met", 5)]
    store = MemoryStore({"s": records})
    tail = Tail(store, "s", Letters())
    for new in ([said(number) for number in range(3, 8)], [SummaryRecord("")]):
        await tail.read_on()
        check(tail, records, True)
        await store.append("s", *new)
        records += new
    await tail.read_on()
    check(tail, records, True)


async def test_each_message_is_counted_once():
    counter = Letters()
    store = MemoryStore({"s": [MessageRecord(Message.system("be brief")), *map(said, range(300))]})
    tail = Tail(store, "s", counter)
    for number in range(300, 310):
        await tail.read_on()
        await tail.read_back()
        await store.append("s", said(number))
    await tail.read_on()
    assert (tail.whole, counter.seen) == (True, {})  # nobody has asked
    for _ in range(2):
        assert sum(each.tokens for each in (*tail.system, *tail.rest)) > 310
    assert counter.seen == {"be brief": 1, **{f"message {number}": 1 for number in range(310)}}
    assert tail.rest[-1].tokens == 4 + len("message 309")


# ---- the ids of calls
# ------------------------------------------------------------------------------------


async def test_for_an_unused_id_only_the_calls_are_read():
    store = Watched(
        {"s": [calls("a"), *map(said, range(10_000)), calls("b"), result("b"), said(0)]}
    )
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    store.handed_out.clear()
    assert [await tail.take_call_id(wanted) for wanted in ("a", "b", "c")] == [
        "call_3",
        "call_4",
        "c",
    ]
    assert [index for page in store.handed_out for index in page] == [0, 10_001]


async def test_all_call_ids_are_found_wherever_they_stand():
    store = Watched(
        {"s": [calls("first"), *map(said, range(10_000)), calls("last"), result("last")]}
    )
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    assert await tail.all_call_ids() == {"first", "last"}
    store.handed_out.clear()
    await tail.all_call_ids()
    assert store.handed_out == []


async def test_ids_that_a_repair_gave_are_taken_too():
    repair = RepairRecord(((1, calls("a-2").message),), (1,))
    store = MemoryStore({"s": [calls("a"), calls("a"), *map(said, range(100))]})
    opened = Tail(store, "s", Letters())
    await opened.read_on()
    await store.append("s", repair)
    for tail in (opened, Tail(store, "s", Letters())):
        await tail.read_on()
        assert await tail.all_call_ids() == {"a", "a-2"}


async def test_ids_in_messages_that_are_summarized_are_found_also_after_the_summary_was_taken_back():
    store = MemoryStore({"s": [calls("a"), *map(said, range(200)), SummaryRecord("x", 150)]})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    await store.append("s", SummaryRecord("y", 190))
    await tail.read_on()
    await store.append("s", SummaryRecord(""))
    await tail.read_on()
    await tail.read_back()
    assert await tail.all_call_ids() == {"a"}


# ---- the same as looking at everything
# -------------------------------------------------------------------

parts = st.floats(0, 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(1, 6)),
        st.just(("system",)),
        st.tuples(
            st.just("call"), st.integers(1, 5), st.booleans(), st.sampled_from(["", "x" * 30])
        ),
        st.tuples(st.just("noise"), st.integers(1, 6)),
        st.tuples(st.just("summary"), parts),
        st.just(("take back",)),
        st.just(("repair",)),
        st.tuples(st.just("hide"), parts),
        st.just(("read on",)),
        st.just(("read on",)),
        st.just(("read back",)),
        st.just(("open",)),
    ),
    max_size=40,
)


def boundary(records, part):
    """The index of a record that is about so far into the journal, and no result."""
    index = int(len(records) * part)
    while (
        index < len(records)
        and isinstance(records[index], MessageRecord)
        and is_result(records[index])
    ):
        index += 1
    return index


def is_result(record):
    return record.message.role == "tool"


def new_records(step, records):
    number = len(records)
    match step:
        case ("say", many):
            return [said(number + each) for each in range(many)]
        case ("system",):
            return [MessageRecord(Message.system(f"rule {number}"))]
        case ("call", many, answered, text):
            ids = [f"{number}.{each}" for each in range(many)]
            answers = ids[::-1] if answered else ids[: many // 2]
            return [calls(*ids), *(result(id, f"{id}{text}") for id in answers)]
        case ("noise", many):
            noise = (
                CallStartedRecord("a", "f"),
                VariableRecord([number]),
                CallFinishedRecord("a", "completed"),
                ApprovalPendingRecord("a", "f", "{}"),
            )
            return [noise[each % 4] for each in range(many)]
        case ("summary", part):
            return [SummaryRecord(f"summary {number}", boundary(records, part))]
        case ("take back",):
            return [SummaryRecord("")]
        case ("repair",):
            entries = list(enumerate(records))
            repair = repairs(messages_of(entries, view_of(entries)))
            return [repair] if repair else []
        case ("hide", part):
            found = [index for index, each in enumerate(records) if each.kind == "message"]
            return [RepairRecord((), (found[int(len(found) * part * 0.99)],))] if found else []
    return []


@given(steps, st.booleans(), st.sets(st.integers(0, 40)))
async def test_whatever_happens_a_tail_shows_the_end_of_what_the_whole_journal_shows(
    steps, folded, own
):
    store, records = MemoryStore({"s": []}), []
    tail = Tail(store, "s", Letters(), folded=folded, page=1)
    for number, step in enumerate([*steps, ("read on",)]):
        if new := new_records(step, records):
            records += new
            length = await store.append("s", *new)
            if number in own:
                tail.wrote(new, length)
        elif step[0] == "open":
            tail = Tail(store, "s", Letters(), folded=folded, page=1)
        elif step[0] == "read on":
            await tail.read_on()
            check(tail, records, folded)
        elif step[0] == "read back":
            await tail.read_on()
            there = len(tail.rest)
            was_whole = tail.whole
            await tail.read_back()
            check(tail, records, folded)
            assert was_whole or len(tail.rest) > there or tail.whole
    while not tail.whole:
        await tail.read_back()
    check(tail, records, folded)
    assert await tail.all_call_ids() >= {
        call.id
        for each in records
        if isinstance(each, MessageRecord)
        for call in each.message.tool_calls
    }


# ---- cancelled, or failed
# --------------------------------------------------------------------------------


class Failing(MemoryStore):
    """Raises an error once, at the nth question."""

    def __init__(self, journals, at, error):
        super().__init__(journals)
        self.left = at
        self.error = error

    def _ask(self):
        self.left -= 1
        if self.left == 0:
            raise self.error

    async def read(self, *given, **named):
        self._ask()
        return await super().read(*given, **named)

    async def info(self, session_id):
        self._ask()
        return await super().info(session_id)


ids = [f"call {number}" for number in range(9)]
BEGINNING = [
    MessageRecord(Message.system("be brief")),
    *map(said, range(20)),
    calls(*ids),
    *(result(id, "long " * 10) for id in ids),
]
LATER = [
    [said(31), MessageRecord(Message.system("be kind"))],
    [RepairRecord(((25, Message.user("first")),)), said(34)],
    [RepairRecord(((30, Message.user("inserted")),), (30,))],
    [SummaryRecord("they met", 5), said(37)],
    [SummaryRecord("")],
]


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), StoreFailed("gone")], ids=["cancelled", "failed"]
)
@pytest.mark.parametrize("at", range(1, 30))
async def test_after_a_reading_that_was_cancelled_or_failed_the_next_one_is_right(
    at, error, folded
):
    counter = Letters()
    records = list(BEGINNING)
    store = Failing({"s": records}, at, error)
    tail = Tail(store, "s", counter, folded=folded, page=1)
    failures = 0
    for later in (*LATER, []):
        for read in (tail.read_on, tail.read_back):
            try:
                await read()
            except type(error):
                failures += 1
                own = [said(99), result(ids[0], "again")]
                records += own
                tail.wrote(own, await store.append("s", *own))
                await tail.read_on()
            check(tail, records, folded)
        await store.append("s", *later)
        records += later
    assert failures == (store.left <= 0)
    while not tail.whole:
        await tail.read_back()
    check(tail, records, folded)
    assert await tail.all_call_ids() == set(ids)


async def test_the_last_of_these_failures_comes_after_everything_else():
    store = Failing({"s": BEGINNING}, 10**6, StoreFailed("gone"))
    tail = Tail(store, "s", Letters(), page=1)
    for later in (*LATER, []):
        await tail.read_on()
        await tail.read_back()
        await store.append("s", *later)
    assert 10**6 - store.left <= 29


@pytest.mark.parametrize("phase", range(4))
async def test_a_page_that_begins_between_a_call_and_its_result_costs_no_more_than_another(phase):
    turn = [said(0), calls("a"), result("a"), MessageRecord(Message.assistant("done"))]
    store = Watched({"s": [*turn * 1000, *[said(1)] * phase]})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    await tail.read_back()
    assert sum(map(len, store.handed_out)) <= 32 + 64
    assert len(tail.rest) >= 32 + 64 - 3
    assert tail.rest[0].message.role != "tool"


async def test_what_people_say_behind_calls_or_between_them_and_their_results_hides_no_call():
    store = MemoryStore({"s": [said(0), calls("a", "b"), said(1), result("a"), said(2)]})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    newest = [each.message.role for each in tail.newest_exchange()]
    assert newest[-2:] == ["tool", "user"]
    store = MemoryStore({"s": [said(0), calls("a"), said(1), said(2)]})
    tail = Tail(store, "s", Letters())
    await tail.read_on()
    assert [each.message.role for each in tail.newest_exchange()] == ["assistant", "user", "user"]
