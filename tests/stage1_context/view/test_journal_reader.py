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
from stage1_context.view.journal_reader import JournalReader, is_open
from stage1_context.view.projection import shown_exchanges
from tests.tables import for_each


class Letters:
    """Counts letters, and records how often each text was counted."""

    def __init__(self):
        self.seen = Counter()

    def count(self, text):
        self.seen[text] += 1
        return len(text)


class WatchedStore(MemoryStore):
    """Records the indices of the records that were read."""

    def __init__(self, journals):
        super().__init__(journals)
        self.pages_read = []

    async def read(self, session_id, start=0, end=None, *, kinds=None):
        found = await super().read(session_id, start, end, kinds=kinds)
        self.pages_read.append([index for index, _ in found])
        return found


def user(number):
    return MessageRecord(Message.user(f"message {number}"))


def calls(*ids):
    return MessageRecord(Message.assistant("", [ToolCall(id, "f") for id in ids]))


def result(id, text="done"):
    return MessageRecord(Message.tool(text, id))


def fold(records, summaries=True):
    """The system messages and the other messages of a complete journal (reference implementation)."""
    until, inserted, hidden = 0, [], set()
    for record in records:
        if isinstance(record, SummaryRecord):
            until = record.until if record.text and summaries else 0
        elif isinstance(record, RepairRecord):
            hidden.update(record.hidden)
            inserted = [each for each in inserted if each[0] not in record.hidden] + [
                *record.inserted
            ]
    system, exchanges = [], []
    for index, record in enumerate(records):
        if not isinstance(record, MessageRecord):
            continue
        shown = [] if index in hidden else [record.message]
        shown += [message for place, message in inserted if place == index]
        if record.message.role == "system":
            system += [(index, message) for message in shown]
        elif index >= until:
            for message in shown:
                add(exchanges, index, message)
    return system, [entry for each in exchanges for entry in each]


def add(exchanges, index, message):
    """Add a message, or a result after the newest call without one."""
    if message.role != "tool":
        exchanges.append([(index, message)])
    elif calling := [each for each in exchanges if lacks(each, message.tool_call_id)]:
        calling[-1].append((index, message))


def lacks(exchange, call_id):
    calls = [call.id for call in exchange[0][1].tool_calls]
    results = [message.tool_call_id for _, message in exchange[1:]]
    return calls.count(call_id) > results.count(call_id)


async def call_ids(reader):
    """The ids of all calls."""
    await reader.unused_call_ids([])
    return reader._call_ids


def pairs(counted):
    return [(each.index, each.message) for each in counted]


def check(reader, records, summaries):
    """Assert that the reader shows whole exchanges from the end of the journal."""
    system, rest = fold(records, summaries)
    assert pairs(reader.system) == system
    assert pairs(reader.messages) == rest[len(rest) - len(reader.messages) :]
    assert bool(reader.messages) == bool(rest)
    if reader.has_all:
        assert len(reader.messages) == len(rest)
        return
    assert not reader.messages or reader.messages[0].message.role != "tool"


# ---- pages
# ----------------------------------------------------------------------------------------


async def test_opening_a_long_journal_reads_only_control_records_and_the_last_page():
    control = {
        0: MessageRecord(Message.system("be brief")),
        1000: SummaryRecord("they met", 900),
        2000: SummaryRecord("they met again", 1500),
        3000: RepairRecord((), (2999,)),
        4000: MessageRecord(Message.system("be kind")),
    }
    store = WatchedStore({"s": [control.get(number) or user(number) for number in range(5000)]})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    assert store.pages_read == [[0, 1000, 2000, 3000, 4000], list(range(4968, 5000))]
    assert [each.message.text for each in reader.system] == ["be brief", "be kind"]
    assert [each.index for each in reader.messages] == list(range(4968, 5000))
    assert not reader.has_all


async def test_each_page_is_twice_as_long_up_to_a_limit_and_is_read_once():
    store = WatchedStore({"s": map(user, range(20_000))})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    while not reader.has_all:
        await reader.read_back()
    pages = [len(page) for page in store.pages_read[1:]]
    assert pages[:9] == [32, 64, 128, 256, 512, 1024, 2048, 4096, 4096]
    assert max(pages) == 4096
    assert sum(pages) == len(reader.messages) == 20_000
    await reader.read_back()
    assert len(store.pages_read) == len(pages) + 1


async def test_messages_replaced_by_a_summary_are_not_read():
    store = WatchedStore(
        {"s": [*map(user, range(1000)), SummaryRecord("they met", 990), *map(user, range(5))]}
    )
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    assert reader.has_all
    assert store.pages_read == [[1000], [*range(990, 1000), *range(1001, 1006)]]


async def test_read_new_reads_only_new_records():
    store = WatchedStore({"s": map(user, range(1000))})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    store.pages_read.clear()
    await store.append("s", user(1000), CallStartedRecord("a", "f"), VariableRecord("x" * 10_000))
    await reader.read_new()
    await reader.read_new()
    assert store.pages_read == [[1000]]


async def test_appended_records_are_not_read_again_unless_another_writer_appended_before():
    store = WatchedStore({"s": map(user, range(1000))})
    reader = JournalReader(store, "s", Letters())
    reader.on_append([user(0)], 1)  # the reader has not read the journal yet
    await reader.read_new()
    store.pages_read.clear()
    own = [user(1000), CallStartedRecord("a", "f"), user(1002)]
    reader.on_append(own, await store.append("s", *own))
    await reader.read_new()
    assert store.pages_read == []
    await store.append("s", user(1003))
    reader.on_append([user(1004)], await store.append("s", user(1004)))
    await reader.read_new()
    assert store.pages_read == [[1003, 1004]]
    assert [each.index for each in reader.messages][-5:] == [999, 1000, 1002, 1003, 1004]


@pytest.mark.parametrize("control", [RepairRecord((), (2,)), SummaryRecord("they met", 2)])
async def test_an_appended_control_record_changes_the_messages_shown(control):
    records = [user(0), calls("a"), user(2), result("a", "long")]
    store = MemoryStore({"s": records})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    reader.on_append([control], await store.append("s", control))
    await reader.read_new()
    check(reader, [*records, control], True)


@pytest.mark.parametrize("many", [31, 32, 33, 100])
async def test_the_newest_message_is_read_even_if_many_other_records_follow_it(many):
    store = MemoryStore({"s": [*map(user, range(100)), *[CallStartedRecord("a", "f")] * many]})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    assert reader.messages[-1].index == 99


async def test_the_messages_never_begin_between_a_call_and_its_results():
    ids = [str(number) for number in range(200)]
    store = MemoryStore({"s": [*map(user, range(1000)), calls(*ids), *map(result, ids), user(0)]})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    # The results that were read wait for their call.
    assert [each.index for each in reader.messages] == [1201]
    await reader.read_back()
    assert reader.messages[0].index <= 1000
    assert not reader.has_all


async def test_a_late_result_is_shown_when_its_call_is_read():
    store = MemoryStore(
        {"s": [*map(user, range(500)), calls("a"), *map(user, range(200)), result("a")]}
    )
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    assert {each.message.role for each in reader.messages} == {"user"}
    exchange = await reader.newest_exchange()
    assert [(each.index, each.message.role) for each in exchange] == [
        (500, "assistant"),
        (701, "tool"),
    ]
    assert not reader.has_all


async def test_a_removed_summary_that_separated_a_call_from_its_results_is_harmless():
    store = MemoryStore(
        {"s": [*map(user, range(500)), calls("a", "b"), result("a"), result("b"), user(0)]}
    )
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    for summary, first in (
        (SummaryRecord("they met", 502), [503]),
        (SummaryRecord(""), range(501)),
    ):
        await store.append("s", summary)
        await reader.read_new()
        assert reader.messages[0].index in first


async def test_after_a_repair_only_new_records_are_read():
    store = WatchedStore({"s": map(user, range(1000))})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    await store.append("s", RepairRecord((), (500,)))
    await reader.read_new()
    store.pages_read.clear()
    await reader.read_new()
    assert store.pages_read == []


@pytest.mark.parametrize("length", [1, 49, 50, 51, 80])
async def test_a_session_that_was_deleted_and_recreated_is_read_again(length):
    old = [user(0), MessageRecord(Message.system("be brief")), *map(user, range(48))]
    store = MemoryStore({"s": [*old, SummaryRecord("they met", 3), calls("a")]})
    readers = [
        JournalReader(store, "s", Letters()),
        JournalReader(store, "s", Letters(), summaries=False),
    ]
    for reader in readers:
        await reader.read_new()
    await store.delete("s")
    await store.create("s", *map(user, range(100, 100 + length)))
    for reader in readers:
        await reader.read_new()
        while not reader.has_all:
            await reader.read_back()
        assert [each.message for each in reader.messages] == [
            user(100 + number).message for number in range(length)
        ]
        assert (reader.system, reader.projection.summary, await call_ids(reader)) == ([], "", set())


async def test_an_old_message_is_found_if_all_newer_ones_are_hidden():
    store = MemoryStore({"s": [*map(user, range(100)), RepairRecord((), tuple(range(1, 100)))]})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    assert [each.index for each in reader.messages] == [0]


async def test_a_summary_may_replace_messages_that_are_appended_later():
    records = [user(0), SummaryRecord("all of it", 4)]
    store = MemoryStore({"s": records})
    readers = [
        JournalReader(store, "s", Letters()),
        JournalReader(store, "s", Letters(), summaries=False),
    ]
    for new in (user(2), user(3), user(4), SummaryRecord("", 0), user(5)):
        for reader in readers:
            await reader.read_new()
        await store.append("s", new)
        records.append(new)
    for reader, summaries in zip(readers, (True, False), strict=True):
        await reader.read_new()
        await reader.read_back()
        check(reader, records, summaries)
        assert len(reader.messages) == 5


# ---- counting
# --------------------------------------------------------------------------------------------


async def test_messages_hidden_in_advance_by_a_summary_are_shown_once_after_it_is_removed():
    records = [user(0), user(1), SummaryRecord("they met", 5)]
    store = MemoryStore({"s": records})
    reader = JournalReader(store, "s", Letters())
    for new in ([user(number) for number in range(3, 8)], [SummaryRecord("")]):
        await reader.read_new()
        check(reader, records, True)
        await store.append("s", *new)
        records += new
    await reader.read_new()
    check(reader, records, True)


async def test_each_message_is_counted_once():
    counter = Letters()
    store = MemoryStore({"s": [MessageRecord(Message.system("be brief")), *map(user, range(300))]})
    reader = JournalReader(store, "s", counter)
    for number in range(300, 310):
        await reader.read_new()
        await reader.read_back()
        await store.append("s", user(number))
    await reader.read_new()
    assert (reader.has_all, counter.seen) == (True, {})  # no token count was requested
    for _ in range(2):
        assert sum(each.tokens for each in (*reader.system, *reader.messages)) > 310
    assert counter.seen == {"be brief": 1, **{f"message {number}": 1 for number in range(310)}}
    assert reader.messages[-1].tokens == 4 + len("message 309")


# ---- call ids
# ------------------------------------------------------------------------------------


async def test_unused_call_ids_reads_only_the_calls():
    store = WatchedStore(
        {"s": [calls("a"), *map(user, range(10_000)), calls("b"), result("b"), user(0)]}
    )
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    store.pages_read.clear()
    assert await reader.unused_call_ids(["a", "b", "c"]) == ["call_3", "call_4", "c"]
    assert [index for page in store.pages_read for index in page] == [0, 10_001]


async def test_all_call_ids_are_found_at_any_position():
    store = WatchedStore(
        {"s": [calls("first"), *map(user, range(10_000)), calls("last"), result("last")]}
    )
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    assert await call_ids(reader) == {"first", "last"}
    store.pages_read.clear()
    await call_ids(reader)
    assert store.pages_read == []


async def test_call_ids_of_a_repair_are_found():
    repair = RepairRecord(((1, calls("a-2").message),), (1,))
    store = MemoryStore({"s": [calls("a"), calls("a"), *map(user, range(100))]})
    opened = JournalReader(store, "s", Letters())
    await opened.read_new()
    await store.append("s", repair)
    for reader in (opened, JournalReader(store, "s", Letters())):
        await reader.read_new()
        assert await call_ids(reader) == {"a", "a-2"}


async def test_call_ids_in_summarized_messages_are_found_also_after_the_summary_is_removed():
    store = MemoryStore({"s": [calls("a"), *map(user, range(200)), SummaryRecord("x", 150)]})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    await store.append("s", SummaryRecord("y", 190))
    await reader.read_new()
    await store.append("s", SummaryRecord(""))
    await reader.read_new()
    await reader.read_back()
    assert await call_ids(reader) == {"a"}


# ---- comparison with the complete journal
# -------------------------------------------------------------------

parts = st.floats(0, 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 6)),
        st.just(("system",)),
        st.tuples(
            st.just("call"), st.integers(1, 5), st.booleans(), st.sampled_from(["", "x" * 30])
        ),
        st.tuples(st.just("noise"), st.integers(1, 6)),
        st.tuples(st.just("summary"), parts),
        st.just(("remove summary",)),
        st.just(("repair",)),
        st.tuples(st.just("hide"), parts),
        st.just(("read new",)),
        st.just(("read new",)),
        st.just(("read back",)),
        st.just(("open",)),
    ),
    max_size=40,
)


def boundary(records, part):
    """The index of a record at about this part of the journal that is not a result."""
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
        case ("add", many):
            return [user(number + each) for each in range(many)]
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
        case ("remove summary",):
            return [SummaryRecord("")]
        case ("repair",):
            entries = list(enumerate(records))
            return repairs(shown_exchanges(entries))
        case ("hide", part):
            found = [index for index, each in enumerate(records) if each.kind == "message"]
            return [RepairRecord((), (found[int(len(found) * part * 0.99)],))] if found else []
    return []


@given(steps, st.booleans(), st.sets(st.integers(0, 40)))
async def test_a_reader_always_shows_the_end_of_the_complete_journal(steps, summaries, own):
    store, records = MemoryStore({"s": []}), []
    reader = JournalReader(store, "s", Letters(), summaries=summaries, page=1)
    for number, step in enumerate([*steps, ("read new",)]):
        if new := new_records(step, records):
            records += new
            length = await store.append("s", *new)
            if number in own:
                reader.on_append(new, length)
        elif step[0] == "open":
            reader = JournalReader(store, "s", Letters(), summaries=summaries, page=1)
        elif step[0] == "read new":
            await reader.read_new()
            check(reader, records, summaries)
        elif step[0] == "read back":
            await reader.read_new()
            there = len(reader.messages)
            was_whole = reader.has_all
            await reader.read_back()
            check(reader, records, summaries)
            assert was_whole or len(reader.messages) > there or reader.has_all
    while not reader.has_all:
        await reader.read_back()
    check(reader, records, summaries)
    assert await call_ids(reader) >= {
        call.id
        for each in records
        if isinstance(each, MessageRecord)
        for call in each.message.tool_calls
    }


few_ids = st.sampled_from("abc")
mixed_records = st.lists(
    st.one_of(
        st.just(user(0)),
        st.lists(few_ids, min_size=1, max_size=4).map(lambda ids: calls(*ids)),
        few_ids.map(result),
        few_ids.map(result),
    ),
    max_size=16,
)


@given(mixed_records, mixed_records, st.booleans())
async def test_results_that_arrive_later_follow_the_newest_call_that_they_answer(old, new, own):
    """Ids are repeated, messages come between calls and results, and results have no call."""
    store = MemoryStore({"s": old})
    reader = JournalReader(store, "s", Letters(), page=1)
    await reader.read_new()
    while not reader.has_all:
        await reader.read_back()
    for number, record in enumerate(new, 1):
        length = await store.append("s", record)
        if own:
            reader.on_append([record], length)
        await reader.read_new()
        check(reader, [*old, *new[:number]], True)


# ---- cancelled or failed reads
# --------------------------------------------------------------------------------


class FailingStore(MemoryStore):
    """Raises an error once, at the nth operation."""

    def __init__(self, journals, at, error):
        super().__init__(journals)
        self.left = at
        self.error = error

    def _fail_once(self):
        self.left -= 1
        if self.left == 0:
            raise self.error

    async def read(self, *given, **named):
        self._fail_once()
        return await super().read(*given, **named)

    async def info(self, session_id):
        self._fail_once()
        return await super().info(session_id)


ids = [f"call {number}" for number in range(9)]
BEGINNING = [
    MessageRecord(Message.system("be brief")),
    *map(user, range(20)),
    calls(*ids),
    *(result(id, "long " * 10) for id in ids),
]
LATER = [
    [user(31), MessageRecord(Message.system("be kind"))],
    [RepairRecord(((25, Message.user("first")),)), user(34)],
    [RepairRecord(((30, Message.user("inserted")),), (30,))],
    [SummaryRecord("they met", 5), user(37)],
    [SummaryRecord("")],
]


@for_each("summaries", [True, False])
@for_each("error", [asyncio.CancelledError(), StoreFailed("gone")])
@for_each("at", range(1, 34))
async def test_a_read_after_a_cancelled_or_failed_one_is_correct(at, error, summaries):
    counter = Letters()
    records = list(BEGINNING)
    store = FailingStore({"s": records}, at, error)
    reader = JournalReader(store, "s", counter, summaries=summaries, page=1)
    failures = 0
    for later in (*LATER, []):
        for read in (reader.read_new, reader.read_back):
            try:
                await read()
            except type(error):
                failures += 1
                own = [user(99), result(ids[0], "again")]
                records += own
                reader.on_append(own, await store.append("s", *own))
                await reader.read_new()
            check(reader, records, summaries)
        await store.append("s", *later)
        records += later
    assert failures == (store.left <= 0)
    while not reader.has_all:
        await reader.read_back()
    check(reader, records, summaries)
    assert await call_ids(reader) == set(ids)


async def test_the_test_above_covers_every_read():
    store = FailingStore({"s": BEGINNING}, 10**6, StoreFailed("gone"))
    reader = JournalReader(store, "s", Letters(), page=1)
    for later in (*LATER, []):
        await reader.read_new()
        await reader.read_back()
        await store.append("s", *later)
    assert 10**6 - store.left <= 33


@pytest.mark.parametrize("phase", range(4))
async def test_a_page_that_begins_between_a_call_and_its_result_causes_no_extra_reads(phase):
    turn = [user(0), calls("a"), result("a"), MessageRecord(Message.assistant("done"))]
    store = WatchedStore({"s": [*turn * 1000, *[user(1)] * phase]})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    await reader.read_back()
    assert sum(map(len, store.pages_read)) <= 32 + 64
    assert len(reader.messages) >= 32 + 64 - 3
    assert reader.messages[0].message.role != "tool"


async def test_user_messages_after_or_between_calls_and_results_do_not_hide_open_calls():
    store = MemoryStore({"s": [user(0), calls("a", "b"), user(1), result("a"), user(2)]})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    newest = await reader.newest_exchange()
    assert [each.message.role for each in newest] == ["assistant", "tool"]
    assert is_open(newest)
    store = MemoryStore({"s": [user(0), calls("a"), user(1), user(2)]})
    reader = JournalReader(store, "s", Letters())
    await reader.read_new()
    newest = await reader.newest_exchange()
    assert [each.message.role for each in newest] == ["assistant"]
    assert is_open(newest)
