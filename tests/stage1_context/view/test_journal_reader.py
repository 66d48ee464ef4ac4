import asyncio
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    MessageRecord,
    RepairRecord,
    StoreFailed,
    SummaryRecord,
    VariableRecord,
)
from stage1_context.recovery.repair import repairs
from stage1_context.view.journal_reader import JournalReader, is_open
from stage1_context.view.projection import shown_exchanges
from tests.stage1_context.sessions import (
    CharacterCounter,
    FailingStore,
    RecordingStore,
    calls,
    records,
    result,
    store_of,
    user,
)
from tests.tables import for_each

STARTED = CallStartedRecord("a", "f")


def reader_of(store, **options):
    """Return a reader of the session "s" that has read nothing."""
    return JournalReader(store, "s", CharacterCounter(), **options)


async def opened(store, **options):
    """Return a reader that has read the end of the session "s"."""
    reader = reader_of(store, **options)
    await reader.read_new()
    return reader


async def read_all(reader):
    while not reader.has_all:
        await reader.read_back()
    return reader


async def append(store, *entries):
    """Append messages and records; return the records, and the length of the journal."""
    new = records(entries)
    return new, await store.append("s", *new)


async def call_ids(reader):
    """Return the ids of all calls."""
    await reader.unused_call_ids([])
    return reader._call_ids


# ---- reference implementation


def shown_messages(journal, summaries=True):
    """Return the system messages and the other messages of a complete journal, with their indices."""
    until, inserted, hidden = 0, [], set()
    for record in journal:
        if isinstance(record, SummaryRecord):
            until = record.until if record.text and summaries else 0
        elif isinstance(record, RepairRecord):
            hidden.update(record.hidden)
            inserted = [entry for entry in inserted if entry[0] not in record.hidden] + [
                *record.inserted
            ]
    system, exchanges = [], []
    for index, record in enumerate(journal):
        if not isinstance(record, MessageRecord):
            continue
        shown = [] if index in hidden else [record.message]
        shown += [message for before, message in inserted if before == index]
        if record.message.role == "system":
            system += [(index, message) for message in shown]
        elif index >= until:
            for message in shown:
                add(exchanges, index, message)
    return system, [entry for exchange in exchanges for entry in exchange]


def add(exchanges, index, message):
    """Add a message, or a result after the newest call without one."""
    if message.role != "tool":
        exchanges.append([(index, message)])
    elif calling := [exchange for exchange in exchanges if lacks(exchange, message.tool_call_id)]:
        calling[-1].append((index, message))


def lacks(exchange, call_id):
    """Return whether an exchange has a call with this id and without a result."""
    called = [call.id for call in exchange[0][1].tool_calls]
    answered = [message.tool_call_id for _, message in exchange[1:]]
    return called.count(call_id) > answered.count(call_id)


def pairs(counted):
    return [(entry.index, entry.message) for entry in counted]


def check(reader, journal, summaries=True):
    """Assert that the reader shows whole exchanges from the end of the journal."""
    system, rest = shown_messages(journal, summaries)
    assert pairs(reader.system) == system
    assert pairs(reader.messages) == rest[len(rest) - len(reader.messages) :]
    assert bool(reader.messages) == bool(rest)
    if reader.has_all:
        assert len(reader.messages) == len(rest)
        return
    assert not reader.messages or reader.messages[0].message.role != "tool"


# ---- pages


async def test_opening_a_long_journal_reads_only_control_records_and_the_last_page():
    control = {
        0: Message.system("be brief"),
        1000: SummaryRecord("they met", 900),
        2000: SummaryRecord("they met again", 1500),
        3000: RepairRecord((), (2999,)),
        4000: Message.system("be kind"),
    }
    store = RecordingStore(*(control.get(number) or user(number) for number in range(5000)))
    reader = await opened(store)
    assert store.pages == [[0, 1000, 2000, 3000, 4000], list(range(4968, 5000))]
    assert [counted.message.text for counted in reader.system] == ["be brief", "be kind"]
    assert [counted.index for counted in reader.messages] == list(range(4968, 5000))
    assert not reader.has_all


async def test_each_page_is_twice_as_long_up_to_a_limit_and_is_read_once():
    store = RecordingStore(*map(user, range(13_000)))
    reader = await read_all(await opened(store))
    pages = [len(page) for page in store.pages[1:]]
    assert pages == [32, 64, 128, 256, 512, 1024, 2048, 4096, 4096, 744]
    assert sum(pages) == len(reader.messages) == 13_000
    await reader.read_back()
    assert len(store.pages) == len(pages) + 1


async def test_a_journal_that_is_opened_again_is_read_from_its_shortest_page_on():
    store = RecordingStore(*map(user, range(500)))
    reader = await read_all(await opened(store))
    await append(store, SummaryRecord("they met", 1))
    store.pages.clear()
    await reader.read_new()
    assert [len(page) for page in store.pages] == [1, 1, 31]  # the summary twice


async def test_messages_replaced_by_a_summary_are_not_read():
    summary = SummaryRecord("they met", 990)
    store = RecordingStore(*map(user, range(1000)), summary, *map(user, range(5)))
    reader = await opened(store)
    assert reader.has_all
    assert store.pages == [[1000], [*range(990, 1000), *range(1001, 1006)]]


async def test_read_new_reads_only_new_records():
    store = RecordingStore(*map(user, range(1000)))
    reader = await opened(store)
    store.pages.clear()
    await append(store, user(1000), STARTED, VariableRecord("x" * 10_000))
    await reader.read_new()
    await reader.read_new()
    assert store.pages == [[1000]]
    await append(store, RepairRecord((), (500,)))
    await reader.read_new()
    store.pages.clear()
    await reader.read_new()
    assert store.pages == []


async def test_appended_records_are_not_read_again_unless_another_writer_appended_before():
    store = RecordingStore(*map(user, range(1000)))
    reader = reader_of(store)
    reader.on_append(records([user(0)]), 1)  # the reader has not read the journal yet
    await reader.read_new()
    store.pages.clear()
    reader.on_append(*await append(store, user(1000), STARTED, user(1002)))
    await reader.read_new()
    assert store.pages == []
    await append(store, user(1003))
    reader.on_append(*await append(store, user(1004)))
    await reader.read_new()
    assert store.pages == [[1003, 1004]]
    assert [counted.index for counted in reader.messages][-5:] == [999, 1000, 1002, 1003, 1004]


@for_each("control", [RepairRecord((), (2,)), SummaryRecord("they met", 2)])
async def test_an_appended_control_record_changes_the_messages_shown(control):
    journal = records([user(0), calls("a"), user(2), result("a", "long")])
    store = store_of(*journal)
    reader = await opened(store)
    reader.on_append(*await append(store, control))
    await reader.read_new()
    check(reader, [*journal, control])


@for_each("many", [31, 32, 33, 100])
async def test_the_newest_message_is_read_even_if_many_other_records_follow_it(many):
    reader = await opened(store_of(*map(user, range(100)), *[STARTED] * many))
    assert reader.messages[-1].index == 99


async def test_the_messages_never_begin_between_a_call_and_its_results():
    ids = [str(number) for number in range(200)]
    reader = await opened(
        store_of(*map(user, range(1000)), calls(*ids), *map(result, ids), user(0))
    )
    # The results that were read wait for their call.
    assert [counted.index for counted in reader.messages] == [1201]
    await reader.read_back()
    assert reader.messages[0].index <= 1000
    assert not reader.has_all


@for_each("others", range(4))
async def test_a_page_that_begins_between_a_call_and_its_result_causes_no_extra_reads(others):
    turn = [user(0), calls("a"), result("a"), Message.assistant("done")]
    store = RecordingStore(*turn * 1000, *[user(1)] * others)
    reader = await opened(store)
    await reader.read_back()
    assert store.records_read <= 32 + 64
    assert len(reader.messages) >= 32 + 64 - 3
    assert reader.messages[0].message.role != "tool"


async def test_a_late_result_is_shown_when_its_call_is_read():
    reader = await opened(
        store_of(*map(user, range(500)), calls("a"), *map(user, range(200)), result("a"))
    )
    assert {counted.message.role for counted in reader.messages} == {"user"}
    exchange = await reader.newest_exchange()
    assert pairs(exchange) == [(500, calls("a")), (701, result("a"))]
    assert not reader.has_all


async def test_a_result_that_is_appended_before_its_call_is_read_is_shown_once():
    store = store_of(user(0), calls("a"), *map(user, range(1, 100)))
    reader = await opened(store)
    await append(store, result("a"), user(100))
    await reader.read_new()
    await read_all(reader)
    await append(store, calls("b"), result("b"))
    await reader.read_new()
    messages = [
        user(0),
        calls("a"),
        result("a"),
        *map(user, range(1, 101)),
        calls("b"),
        result("b"),
    ]
    assert [counted.message for counted in reader.messages] == messages


@for_each(
    "messages, exchange",
    [
        (
            [user(0), calls("a", "b"), user(1), result("a"), user(2)],
            [(1, calls("a", "b")), (3, result("a"))],
        ),
        ([user(0), calls("a"), user(1), user(2)], [(1, calls("a"))]),
    ],
)
async def test_user_messages_after_or_between_calls_and_results_do_not_hide_open_calls(
    messages, exchange
):
    reader = await opened(store_of(*messages))
    newest = await reader.newest_exchange()
    assert pairs(newest) == exchange
    assert is_open(newest)


async def test_a_removed_summary_that_separated_a_call_from_its_results_is_harmless():
    store = store_of(*map(user, range(500)), calls("a", "b"), result("a"), result("b"), user(0))
    reader = await opened(store)
    for summary, first in (
        (SummaryRecord("they met", 502), [503]),
        (SummaryRecord(""), range(501)),
    ):
        await append(store, summary)
        await reader.read_new()
        assert reader.messages[0].index in first


@for_each("length", [1, 49, 50, 51, 80])
async def test_a_session_that_was_deleted_and_recreated_is_read_again(length):
    old = [user(0), Message.system("be brief"), *map(user, range(48))]
    store = store_of(*old, SummaryRecord("they met", 3), calls("a"))
    readers = [await opened(store), await opened(store, summaries=False)]
    await store.delete("s")
    new = [user(number) for number in range(100, 100 + length)]
    await store.create("s", *records(new))
    for reader in readers:
        await reader.read_new()
        await read_all(reader)
        assert [counted.message for counted in reader.messages] == new
        assert (reader.system, reader.projection.summary, await call_ids(reader)) == ([], "", set())


async def test_an_old_message_is_found_if_all_newer_ones_are_hidden():
    store = store_of(*map(user, range(100)), RepairRecord((), tuple(range(1, 100))))
    reader = await opened(store)
    assert [counted.index for counted in reader.messages] == [0]


async def test_a_summary_may_replace_messages_that_are_appended_later():
    journal = records([user(0), SummaryRecord("all of it", 4)])
    store = store_of(*journal)
    readers = {True: reader_of(store), False: reader_of(store, summaries=False)}
    for entry in (user(2), user(3), user(4), SummaryRecord("", 0), user(5)):
        for reader in readers.values():
            await reader.read_new()
        journal += (await append(store, entry))[0]
    for summaries, reader in readers.items():
        await reader.read_new()
        await reader.read_back()
        check(reader, journal, summaries)
        assert len(reader.messages) == 5


async def test_messages_hidden_in_advance_by_a_summary_are_shown_once_after_it_is_removed():
    journal = records([user(0), user(1), SummaryRecord("they met", 5)])
    store = store_of(*journal)
    reader = reader_of(store)
    for new in ([user(number) for number in range(3, 8)], [SummaryRecord("")]):
        await reader.read_new()
        check(reader, journal)
        journal += (await append(store, *new))[0]
    await reader.read_new()
    check(reader, journal)


# ---- counting


async def test_each_message_is_counted_once():
    counter = CharacterCounter()
    store = store_of(Message.system("be brief"), *map(user, range(300)))
    reader = JournalReader(store, "s", counter)
    for number in range(300, 310):
        await reader.read_new()
        await reader.read_back()
        await append(store, user(number))
    await reader.read_new()
    assert (reader.has_all, counter.counted) == (True, {})  # no token count was requested
    for _ in range(2):
        assert sum(counted.tokens for counted in (*reader.system, *reader.messages)) > 310
    assert counter.counted == {"be brief": 1, **{f"message {number}": 1 for number in range(310)}}
    assert reader.messages[-1].tokens == 4 + len("message 309")


# ---- call ids


async def test_unused_call_ids_reads_only_the_calls():
    store = RecordingStore(calls("a"), *map(user, range(10_000)), calls("b"), result("b"), user(0))
    reader = await opened(store)
    store.pages.clear()
    assert await reader.unused_call_ids(["a", "b", "c"]) == ["call_3", "call_4", "c"]
    assert store.pages == [[0, 10_001]]


async def test_call_ids_are_read_once():
    store = RecordingStore(calls("first"), *map(user, range(100)), calls("last"), result("last"))
    reader = await opened(store)
    assert await call_ids(reader) == {"first", "last"}
    store.pages.clear()
    await call_ids(reader)
    assert store.pages == []


async def test_call_ids_of_a_repair_are_found():
    store = store_of(calls("a"), calls("a"), *map(user, range(100)))
    reader = await opened(store)
    await append(store, RepairRecord(((1, calls("a-2")),), (1,)))
    await reader.read_new()
    assert await call_ids(reader) == {"a", "a-2"}
    assert await call_ids(await opened(store)) == {"a", "a-2"}


async def test_call_ids_in_summarized_messages_are_found_also_after_the_summary_is_removed():
    store = store_of(calls("a"), *map(user, range(200)), SummaryRecord("x", 150))
    reader = await opened(store)
    for summary in (SummaryRecord("y", 190), SummaryRecord("")):
        await append(store, summary)
        await reader.read_new()
    await reader.read_back()
    assert await call_ids(reader) == {"a"}


# ---- comparison with the complete journal

parts = st.floats(0, 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 6)),
        st.just(("system",)),
        st.tuples(
            st.just("call"), st.integers(1, 5), st.booleans(), st.sampled_from(["", "x" * 30])
        ),
        st.tuples(st.just("other records"), st.integers(1, 6)),
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


def boundary(journal, part):
    """Return the index of a record at about this part of the journal that is not a result."""
    index = int(len(journal) * part)
    while index < len(journal) and is_result(journal[index]):
        index += 1
    return index


def is_result(record):
    return isinstance(record, MessageRecord) and record.message.role == "tool"


def new_entries(step, journal):
    """Return the messages and records that a step appends."""
    number = len(journal)
    match step:
        case ("add", many):
            return [user(number + offset) for offset in range(many)]
        case ("system",):
            return [Message.system(f"rule {number}")]
        case ("call", many, is_answered, text):
            ids = [f"{number}.{position}" for position in range(many)]
            answered = ids[::-1] if is_answered else ids[: many // 2]
            return [calls(*ids), *(result(id, f"{id}{text}") for id in answered)]
        case ("other records", many):
            others = (
                STARTED,
                VariableRecord([number]),
                CallFinishedRecord("a", "completed"),
                ApprovalPendingRecord("a", "f", "{}"),
            )
            return [others[offset % 4] for offset in range(many)]
        case ("summary", part):
            return [SummaryRecord(f"summary {number}", boundary(journal, part))]
        case ("remove summary",):
            return [SummaryRecord("")]
        case ("repair",):
            return repairs(shown_exchanges([*enumerate(journal)]))
        case ("hide", part):
            found = [index for index, record in enumerate(journal) if record.kind == "message"]
            return [RepairRecord((), (found[int(len(found) * part * 0.99)],))] if found else []
    return []


@given(steps, st.booleans(), st.sets(st.integers(0, 40)))
async def test_a_reader_always_shows_the_end_of_the_complete_journal(steps, summaries, own):
    """The steps whose numbers are in `own` are writes of the reader's own program."""
    store, journal = store_of(), []
    reader = reader_of(store, summaries=summaries, page=1)
    for number, step in enumerate([*steps, ("read new",)]):
        if entries := new_entries(step, journal):
            new, length = await append(store, *entries)
            journal += new
            if number in own:
                reader.on_append(new, length)
        elif step[0] == "open":
            reader = reader_of(store, summaries=summaries, page=1)
        elif step[0] == "read new":
            await reader.read_new()
            check(reader, journal, summaries)
        elif step[0] == "read back":
            await reader.read_new()
            before, had_all = len(reader.messages), reader.has_all
            await reader.read_back()
            check(reader, journal, summaries)
            assert had_all or len(reader.messages) > before or reader.has_all
    await read_all(reader)
    check(reader, journal, summaries)
    assert await call_ids(reader) >= {
        call.id
        for record in journal
        if isinstance(record, MessageRecord)
        for call in record.message.tool_calls
    }


few_ids = st.sampled_from("abc")
mixed_messages = st.lists(
    st.one_of(
        st.just(user(0)),
        st.lists(few_ids, min_size=1, max_size=4).map(lambda ids: calls(*ids)),
        few_ids.map(result),
        few_ids.map(result),
    ),
    max_size=16,
)


@given(mixed_messages, mixed_messages, st.booleans())
async def test_results_that_arrive_later_follow_the_newest_call_that_they_answer(old, new, own):
    """Ids are repeated, messages come between calls and results, and results have no call."""
    store, journal = store_of(*old), records(old)
    reader = await read_all(await opened(store, page=1))
    for message in new:
        appended, length = await append(store, message)
        journal += appended
        if own:
            reader.on_append(appended, length)
        await reader.read_new()
        check(reader, journal)


# ---- cancelled or failed reads

IDS = [f"call {number}" for number in range(9)]
BEGINNING = [
    Message.system("be brief"),
    *map(user, range(20)),
    calls(*IDS),
    *(result(id, "long " * 10) for id in IDS),
]
LATER = [
    [user(31), Message.system("be kind")],
    [RepairRecord(((25, Message.user("first")),)), user(34)],
    [RepairRecord(((30, Message.user("inserted")),), (30,))],
    [SummaryRecord("they met", 5), user(37)],
    [SummaryRecord("")],
]


@for_each("summaries", [True, False])
@for_each("error", [asyncio.CancelledError(), StoreFailed("gone")])
async def test_a_read_after_a_cancelled_or_failed_one_is_correct(error, summaries):
    for at in count(1):
        store, failures = FailingStore(*BEGINNING, at=at, error=error), 0
        journal, reader = records(BEGINNING), reader_of(store, summaries=summaries, page=1)
        for later in (*LATER, []):
            for read in (reader.read_new, reader.read_back):
                try:
                    await read()
                except type(error):
                    failures += 1
                    own, length = await append(store, user(99), result(IDS[0], "again"))
                    journal += own
                    reader.on_append(own, length)
                    await reader.read_new()
                check(reader, journal, summaries)
            journal += (await append(store, *later))[0]
        assert failures == (store.left <= 0)
        if not failures:  # each of the reads above has failed once
            break
        await read_all(reader)
        check(reader, journal, summaries)
        assert await call_ids(reader) == set(IDS)
    assert at > 20
