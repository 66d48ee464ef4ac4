"""Behavior that every store must provide, tested with each: in memory, SQLite, PostgreSQL."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stage0_gateway import ImagePart, Message, TextPart, ToolCall
from stage1_context.errors import (
    ContextError,
    SessionConflict,
    SessionExists,
    SessionNotFound,
    StoreFailed,
)
from stage1_context.journal import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    MessageRecord,
    Record,
    RepairRecord,
    SummaryRecord,
    VariableDeletedRecord,
    VariableRecord,
    record_to_json,
)
from stage1_context.store import MemoryStore, SessionInfo, run_shielded

AT_ONCE = 32


def user_record(text):
    return MessageRecord(Message.user(text))


ONE, TWO, THREE = map(user_record, ("one", "two", "three"))
SYSTEM = MessageRecord(Message.system("Be brief."))

# ---- creating, appending, reading
# --------------------------------------------------------------------------


async def test_append_returns_the_length_of_the_journal(store):
    await store.create("s")
    assert (await store.info("s")).records == 0
    assert await store.append("s", ONE) == 1
    assert await store.append("s", TWO, THREE) == 3
    assert await store.append("s") == 3
    assert (await store.info("s")).records == 3
    assert await store.read("s") == [(0, ONE), (1, TWO), (2, THREE)]


async def test_a_session_can_be_created_with_records(store):
    await store.create("s", SYSTEM, ONE)
    assert await store.append("s", TWO) == 3
    assert await store.read("s") == [(0, SYSTEM), (1, ONE), (2, TWO)]


RANGES = {
    "all": ((), [0, 1, 2, 3]),
    "from a start": ((2,), [2, 3]),
    "up to an end": ((0, 2), [0, 1]),
    "in between": ((1, 3), [1, 2]),
    "nothing": ((2, 2), []),
    "an end before the start": ((3, 1), []),
    "an end after the last": ((1, 99), [1, 2, 3]),
    "a start after the last": ((4,), []),
    "far after the last": ((2**70, 2**80), []),
    "up to very far": ((3, 2**80), [3]),
}


@pytest.mark.parametrize(("given", "found"), RANGES.values(), ids=RANGES)
async def test_a_range_of_a_journal_is_read_with_its_indices(store, given, found):
    records = [SYSTEM, ONE, TWO, THREE]
    await store.create("s", *records)
    assert await store.read("s", *given) == [(index, records[index]) for index in found]


KINDS = {
    "one": (["message"], [1, 3]),
    "two": ({"system", "summary"}, [0, 2]),
    "one without records": (("variable",), []),
    "an unknown kind": (["'; DROP TABLE session; --"], []),
    "none": ((), []),
}


@pytest.mark.parametrize(("kinds", "found"), KINDS.values(), ids=KINDS)
async def test_records_can_be_filtered_by_kind_and_are_read_with_their_indices(store, kinds, found):
    records = [SYSTEM, ONE, SummaryRecord("short"), TWO]
    await store.create("s", *records)
    assert await store.read("s", kinds=kinds) == [(index, records[index]) for index in found]
    assert await store.read("s", 2, 3, kinds=kinds) == [(2, records[2])] * (2 in found)


async def test_journals_of_different_sessions_are_separate(store):
    await store.create("a", ONE)
    await store.create("b")
    await store.append("a", TWO)
    assert (await store.read("a"), await store.read("b")) == ([(0, ONE), (1, TWO)], [])


async def test_read_returns_a_copy(store):
    await store.create("s", ONE)
    (await store.read("s")).append((1, TWO))
    assert await store.read("s") == [(0, ONE)]


# ---- ids
# -------------------------------------------------------------------------------------------------

STRANGE = {
    "quotes": "'\"`",
    "SQL": "'); DROP TABLE session; --",
    "patterns": "%_$1 ? :id {}",
    "emoji": "👩‍👩‍👧 été Ω",
    "lines": " a\n\tb\r ",
    "long": "".join(chr(0x4E00 + each) for each in range(10_000)),
    "a path": "../../etc/passwd",
}


async def test_session_ids_may_contain_any_characters(store):
    for id in STRANGE.values():
        await store.create(id, user_record(id))
        await store.append(id, ONE)
    assert [await store.read(id) for id in STRANGE.values()] == [
        [(0, user_record(id)), (1, ONE)] for id in STRANGE.values()
    ]
    assert {each.id for each in await store.sessions()} == {*STRANGE.values()}


async def test_similar_session_ids_are_different_sessions(store):
    ids = ["a", "A", "a ", "é", "e\u0301", "ａ"]
    for id in ids:
        await store.create(id, user_record(id))
    assert [await store.read(id) for id in ids] == [[(0, user_record(id))] for id in ids]


@pytest.mark.parametrize("id", ["", "a\0b", "\ud83d"], ids=["empty", "NUL", "half a pair"])
async def test_an_id_that_one_kind_of_store_cannot_hold_is_rejected_by_all_stores(store, id):
    with pytest.raises(
        ValueError, match="A session id is non-empty text that UTF-8 can encode, without NUL, not"
    ):
        await store.create(id, ONE)
    assert await store.sessions() == []
    for ask in (store.read(id), store.append(id, ONE), store.info(id), store.delete(id)):
        with pytest.raises(SessionNotFound):
            await ask


async def test_an_existing_session_id_is_rejected_and_its_journal_is_unchanged(store):
    await store.create("s", ONE)
    with pytest.raises(
        SessionExists,
        match=r"^The session 's' exists already\. Choose another id, or continue it with "
        r"create_session\('s', exist_ok=True\)\.$",
    ):
        await store.create("s", TWO, THREE)
    assert await store.read("s") == [(0, ONE)]


@pytest.mark.parametrize(
    ("ids", "named"),
    [([], "none yet"), (["b", "a"], "'b', 'a'"), (list("gfedcba"), "'e', 'd', 'c', 'b', 'a'")],
    ids=["none", "some", "many"],
)
async def test_an_unknown_session_raises_an_error_that_lists_the_most_recent_sessions(
    store, ids, named
):
    for id in ids:
        await store.create(id)
    text = f"Unknown session 'x'. Sessions: {named}. Create one with create_session()."
    for ask in (store.read("x"), store.append("x", ONE), store.info("x"), store.delete("x")):
        with pytest.raises(SessionNotFound) as caught:
            await ask
        assert str(caught.value) == text


# ---- contents of records
# ------------------------------------------------------------------------------


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


RECORDS = {
    "system": SYSTEM,
    "text": user_record("any \0 text: 'quotes' \"too\" \\u0000 \\ 👩‍👩‍👧 \u2028 \x1b \x7f \uffff"),
    "half a pair": user_record("\ud83d and \udc00"),
    "no text": user_record(""),
    "long text": user_record("𝄞 0123456789" * 100_000),
    "parts": MessageRecord(
        Message.user((TextPart("What is this?"), ImagePart(url="https://example.com/cat.png")))
    ),
    "image": MessageRecord(
        Message.user((ImagePart(data="AP8A" * 99_999, media_type="image/png"),))
    ),
    "calls": MessageRecord(
        Message.assistant(
            "", [ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "g", "no json")], raw_text="{\0"
        )
    ),
    "result": MessageRecord(Message.tool("no such city", "a", is_error=True, name="f")),
    "started": CallStartedRecord("a", "f"),
    "finished": CallFinishedRecord("a", "ok"),
    "approval": ApprovalPendingRecord("a", "delete_everything", '{"really": true}'),
    "summary": SummaryRecord("They talked.", 7),
    "removed summary": SummaryRecord(""),
    "repair": RepairRecord(
        ((2, Message.tool("interrupted", "a")), (2, Message.user("\ud83d"))), (0, 1)
    ),
    "repair of nothing": RepairRecord(),
    "no value": VariableRecord(None),
    "variable deleted": VariableDeletedRecord("var_7"),
    "numbers": VariableRecord([0, -0.0, 1e308, 5e-324, 0.1, 2**64, -(10**4000), 1.0, True]),
    "names": VariableRecord(
        {"": 1, "\0": 2, "kind": "message", "é": {"\ud83d": []}, "z": 0, "a": 0}
    ),
    "deep": VariableRecord(nested(200)),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
async def test_a_record_is_read_exactly_as_it_was_written(store, record):
    await store.create("s", record)
    await store.append("s", record)
    ((first, one), (second, other)) = await store.read("s", kinds=[record.kind])
    assert (first, second, type(one)) == (0, 1, type(record))
    # As text, so that 1 is neither 1.0 nor True.
    assert repr(one) == repr(other) == repr(record)
    assert record_to_json(one) == record_to_json(record)


def test_the_records_above_include_every_kind():
    assert {type(record) for record in RECORDS.values()} == {*get_args(Record)}


UNWRITABLE = {
    "an object": object(),
    "a set": {1, 2},
    "bytes": b"bytes",
    "not a number": float("nan"),
    "infinity": [float("-inf")],
    "far too deep": nested(100_000),
}


@pytest.mark.parametrize("value", UNWRITABLE.values(), ids=UNWRITABLE)
@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.real)], indirect=True
)
async def test_no_record_is_appended_if_one_of_them_cannot_be_written(store, value):
    await store.create("s", ONE)
    for ask in (
        store.append("s", TWO, VariableRecord(value), THREE),
        store.create("t", TWO, VariableRecord(value)),
    ):
        with pytest.raises(ValueError, match="'variable' record cannot be written as JSON"):
            await ask
    assert await store.read("s") == [(0, ONE)]
    assert [each.id for each in await store.sessions()] == ["s"]


# ---- listing and deleting sessions
# ---------------------------------------------------------------------


async def test_sessions_are_listed_by_their_last_write_with_the_newest_first(store):
    began = datetime.now(UTC)
    await store.create("a")
    await store.create("b", ONE)
    await store.create("c")
    assert [each.id for each in await store.sessions()] == ["c", "b", "a"]
    await store.append("a", ONE, TWO)
    await store.read("b")
    await store.append("c")
    found = await store.sessions()
    assert [(each.id, each.records) for each in found] == [("c", 0), ("a", 2), ("b", 1)]
    c, a, b = found
    a_moment = timedelta(milliseconds=1)  # a server has its own clock and rounds differently
    assert began - a_moment <= a.created < b.created == b.updated < c.created
    assert c.created < a.updated < c.updated <= datetime.now(UTC) + a_moment
    assert {each.created.tzinfo.utcoffset(None) for each in found} == {timedelta(0)}


async def test_a_deleted_session_is_removed_and_a_new_one_with_its_id_is_empty(store):
    await store.create("s", ONE, TWO)
    await store.create("other", THREE)
    before = await store.info("s")
    await store.delete("s")
    assert [each.id for each in await store.sessions()] == ["other"]
    with pytest.raises(SessionNotFound):
        await store.read("s")
    await store.create("s")
    assert (await store.read("s"), (await store.info("s")).records) == ([], 0)
    assert (await store.info("s")).created != before.created
    assert await store.append("s", THREE) == 1
    assert await store.read("s") == [(0, THREE)]
    assert await store.read("other") == [(0, THREE)]


# ---- several writers
# -------------------------------------------------------------------------------------


async def test_append_succeeds_if_expected_is_the_length_of_the_journal(store):
    await store.create("s")
    assert await store.append("s", ONE, expected=0) == 1
    assert await store.append("s", TWO, THREE, expected=1) == 3


@pytest.mark.parametrize("seen", [-1, 0, 1, 3, 2**70])
async def test_append_writes_nothing_if_expected_is_not_the_length_of_the_journal(store, seen):
    await store.create("s", ONE, TWO)
    text = f"The session 's' has 2 records, not {seen}: "
    for records in ((), (THREE,)):
        with pytest.raises(SessionConflict, match=f"^{text}another writer appended to it"):
            await store.append("s", *records, expected=seen)
    assert await store.read("s") == [(0, ONE), (1, TWO)]


async def closing(stores):
    await asyncio.gather(*(each.aclose() for each in stores))


async def test_of_many_concurrent_creates_of_one_session_exactly_one_succeeds(open_store):
    stores = [open_store() for _ in range(AT_ONCE)]
    done = await asyncio.gather(
        *(each.create("s", user_record(str(n))) for n, each in enumerate(stores)),
        return_exceptions=True,
    )
    assert sorted(map(type, done), key=str) == sorted(
        [type(None)] + [SessionExists] * (AT_ONCE - 1), key=str
    )
    assert await stores[0].read("s") == [(0, user_record(str(done.index(None))))]
    await closing(stores)


async def test_concurrent_writers_lose_no_records_and_do_not_interleave_them(open_store):
    stores = [open_store() for _ in range(AT_ONCE)]
    exchanges = [
        [user_record(str(n)), MessageRecord(Message.assistant(str(n)))] for n in range(500)
    ]
    await stores[0].create("s")

    async def write(store, mine):
        return [await store.append("s", *each) for each in mine]

    lengths = await asyncio.gather(
        *(write(store, exchanges[n::AT_ONCE]) for n, store in enumerate(stores))
    )
    found = await stores[0].read("s")
    assert sorted(each for some in lengths for each in some) == list(range(2, 1001, 2))
    assert [index for index, _ in found] == list(range(1000))
    records = [record for _, record in found]
    pairs = [records[n : n + 2] for n in range(0, 1000, 2)]
    assert sorted(pairs, key=repr) == sorted(exchanges, key=repr)
    for n, mine in enumerate(exchanges[n::AT_ONCE] for n in range(AT_ONCE)):
        assert [each for each in pairs if each in mine] == mine, f"writer {n} is out of order"
    await closing(stores)


async def test_one_store_serves_many_concurrent_writers(store):
    await store.create("s")
    lengths = await asyncio.gather(*(store.append("s", ONE, TWO) for _ in range(100)))
    assert sorted(lengths) == list(range(2, 201, 2))
    assert [record for _, record in await store.read("s")] == [ONE, TWO] * 100


async def test_of_many_concurrent_appends_with_the_same_expected_length_one_succeeds(open_store):
    stores = [open_store() for _ in range(AT_ONCE)]
    await stores[0].create("s", ONE)
    done = await asyncio.gather(
        *(each.append("s", user_record(str(n)), expected=1) for n, each in enumerate(stores)),
        return_exceptions=True,
    )
    assert done.count(2) == 1
    assert {type(each) for each in done} == {int, SessionConflict}
    assert await stores[0].read("s", 1) == [(1, user_record(str(done.index(2))))]
    await closing(stores)


async def test_a_writer_that_reads_again_after_a_conflict_eventually_succeeds(open_store):
    stores = [open_store() for _ in range(8)]
    await stores[0].create("s")

    async def count(store):
        while True:
            seen = await store.read("s")
            with suppress(SessionConflict):
                return await store.append("s", VariableRecord(len(seen)), expected=len(seen))

    assert sorted(await asyncio.gather(*map(count, stores))) == list(range(1, 9))
    assert await stores[0].read("s") == [(n, VariableRecord(n)) for n in range(8)]
    await closing(stores)


async def test_a_concurrent_reader_sees_only_complete_appends(open_store):
    writer, reader = open_store(), open_store()
    await writer.create("s")

    async def write():
        for n in range(50):
            await writer.append("s", user_record(str(n)), user_record(str(n)), user_record(str(n)))

    writing = asyncio.create_task(write())
    seen = [0]
    while not writing.done():
        found = await reader.read("s")
        assert found == [(index, user_record(str(index // 3))) for index in range(len(found))]
        assert len(found) % 3 == 0
        seen.append(len(found))
        await asyncio.sleep(0)
    await writing
    assert all(before <= after for before, after in pairwise(seen))
    await closing([writer, reader])


async def test_concurrent_appends_and_deletes_leave_no_partial_session(store):
    for _ in range(20):
        await store.create("s", ONE)
        await asyncio.gather(
            store.append("s", TWO),
            store.delete("s"),
            store.append("s", TWO),
            return_exceptions=True,
        )
        assert await store.sessions() == []


async def test_a_cancelled_append_writes_all_of_its_records_or_none(store):
    await store.create("s")
    for n in range(60):
        writing = asyncio.create_task(store.append("s", user_record(str(n)), user_record(str(n))))
        for _ in range(n % 20):
            await asyncio.sleep(0)
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
    # The store may still be executing the cancelled operation; operations run in order.
    length = await store.append("s", ONE, TWO)
    records = [record for _, record in await store.read("s")]
    texts = [record.message.content for record in records[:-2]]
    assert records[-2:] == [ONE, TWO]
    assert len(records) == length == (await store.info("s")).records
    assert texts[::2] == texts[1::2] == sorted({*texts}, key=int)


# ---- closing
# ---------------------------------------------------------------------


async def test_every_use_of_a_closed_store_raises_an_error_that_says_so(store):
    await store.create("s", ONE)
    await store.aclose()
    await store.aclose()
    uses = (store.create("t"), store.append("s", TWO), store.read("s"), store.info("s"))
    for use in (*uses, store.sessions(), store.delete("s")):
        with pytest.raises(StoreFailed, match=r"was closed, by aclose\(\) or at the end of"):
            await use


def test_a_store_can_be_used_from_several_event_loops_in_turn(open_store):
    store = open_store()
    asyncio.run(store.create("s"))

    async def both():
        return await asyncio.gather(store.append("s", ONE), store.append("s", TWO))

    for n in range(5):
        assert sorted(asyncio.run(both())) == [2 * n + 1, 2 * n + 2]
    assert [index for index, _ in asyncio.run(store.read("s"))] == list(range(10))
    asyncio.run(store.aclose())


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.real)], indirect=True
)
def test_a_store_that_is_not_closed_causes_no_warnings(open_store, collect):
    async def use():
        await open_store().create("s", ONE)
        collect()
        found = await open_store().read("s")
        collect()
        return found

    assert asyncio.run(use()) == [(0, ONE)]
    collect()


# ---- any sequence of operations
# --------------------------------------------------------------------------

IDS = st.sampled_from(["a", "b", "'é"])
SOME = st.lists(
    st.sampled_from([SYSTEM, ONE, SummaryRecord("short", 1), VariableRecord([1])]), max_size=3
)
NUMBERS = st.integers(0, 6)
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), IDS, SOME, st.just({})),
    st.tuples(st.just("append"), IDS, SOME, st.just({})),
    st.tuples(st.just("append"), IDS, SOME, st.builds(dict, expected=NUMBERS)),
    st.tuples(
        st.just("read"),
        IDS,
        st.just([]),
        st.fixed_dictionaries(
            {},
            optional={
                "start": NUMBERS,
                "end": NUMBERS,
                "kinds": st.sets(st.sampled_from(["message", "system", "summary", "variable"])),
            },
        ),
    ),
    st.tuples(st.just("info"), IDS, st.just([]), st.just({})),
    st.tuples(st.just("delete"), IDS, st.just([]), st.just({})),
    st.tuples(st.just("sessions"), st.none(), st.just([]), st.just({})),
)


async def answers(store, operations):
    """Return the result or the error of each operation; empty the store afterwards."""
    results = []
    for name, id, records, options in operations:
        try:
            answer = await getattr(store, name)(*([] if id is None else [id]), *records, **options)
        except ContextError as error:
            answer = type(error), str(error)
        infos = (
            answer if name == "sessions" else [answer] if isinstance(answer, SessionInfo) else None
        )
        results.append(answer if infos is None else [(each.id, each.records) for each in infos])
    for each in await store.sessions():
        await store.delete(each.id)
    return results


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, max_size=25))
def test_every_store_gives_the_same_results_as_a_memory_store_for_any_operations(
    open_store, operations
):
    store = open_store()

    async def ask():
        found = await answers(store, operations)
        if not isinstance(store, MemoryStore):  # the next example uses the same one
            await store.aclose()
        return found

    assert asyncio.run(ask()) == asyncio.run(answers(MemoryStore(), operations))


# ---- memory store only
# -----------------------------------------------------------------------------


async def test_a_memory_store_copies_its_initial_records():
    given = [ONE]
    store = MemoryStore({"s": given})
    given.append(TWO)
    assert await store.read("s") == [(0, ONE)]


# ---- writes that cancellation does not interrupt
# ------------------------------------------------------------


async def written(steps, go):
    await go.wait()
    steps.append("written")
    return "value"


async def test_a_cancellation_is_delivered_after_a_shielded_write():
    steps, go = [], asyncio.Event()

    async def work():
        steps.append(await run_shielded(lambda _: written(steps, go)))
        await asyncio.sleep(0)
        steps.append("never")

    task = asyncio.create_task(work())
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert steps == []
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["written", "value"]


async def test_an_error_of_a_shielded_write_is_raised():
    async def failing(_):
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await run_shielded(failing)


@pytest.mark.parametrize("times", [1, 3])
async def test_a_shielded_write_whose_own_task_is_cancelled_runs_again(times):
    steps, go = [], asyncio.Event()
    before = asyncio.all_tasks()
    repeated = []

    def write(is_repeated):
        repeated.append(is_repeated)
        return written(steps, go)

    work = asyncio.create_task(run_shielded(write))
    for _ in range(times):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - before - {work}:
            task.cancel()
    await asyncio.sleep(0)
    go.set()
    assert (await work, steps) == ("value", ["written"])
    assert (repeated[0], set(repeated[1:])) == (False, {True})


async def test_a_shielded_write_that_raises_a_cancellation_itself_is_not_repeated():
    tries = []

    async def closed(_):
        tries.append(1)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run_shielded(closed)
    assert tries == [1]
