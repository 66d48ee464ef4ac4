"""`StoreContract`: tests of the promises of `SessionStore`.

The module knows no store. The tests of the three stores of this project are subclasses too.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, get_args

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stage0_gateway import (
    ImagePart,
    Message,
    TextPart,
    ToolCall,
)
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    ContextError,
    MemoryStore,
    MessageRecord,
    Record,
    RepairRecord,
    SessionConflict,
    SessionExists,
    SessionNotFound,
    SessionStore,
    StoreFailed,
    SummaryRecord,
    VariableDeletedRecord,
    VariableRecord,
    record_to_json,
)

OpenStore = Callable[[], SessionStore]

WRITERS = 32
"""The number of stores that write at the same time."""

RECORDS_OF_A_JOURNAL = 10_000
"""The number of records that one call stores: an imported session is created with its journal."""


def user_record(text: str) -> MessageRecord:
    """Return the record of a user message."""
    return MessageRecord(Message.user(text))


ONE, TWO, THREE = map(user_record, ("one", "two", "three"))
SYSTEM = MessageRecord(Message.system("Be brief."))


def nested(depth: int) -> list[Any]:
    """Return lists in each other, to this depth."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


RANGES: dict[str, tuple[tuple[int, ...], list[int]]] = {
    "all": ((), [0, 1, 2, 3]),
    "from a start": ((2,), [2, 3]),
    "up to an end": ((0, 2), [0, 1]),
    "in between": ((1, 3), [1, 2]),
    "nothing": ((2, 2), []),
    "nothing of the first": ((0, 0), []),
    "an end before the start": ((3, 1), []),
    "an end after the last": ((1, 99), [1, 2, 3]),
    "a start after the last": ((4,), []),
    "far after the last": ((2**70, 2**80), []),
    "up to very far": ((3, 2**80), [3]),
}
"""Arguments of `read` for a journal of four records, and the indices that it returns."""

KINDS: dict[str, tuple[Collection[str], list[int]]] = {
    "one": (["message"], [1, 3]),
    "two": ({"system", "summary"}, [0, 2]),
    "one without records": (("variable",), []),
    "an unknown kind": (["'; DROP TABLE session; --"], []),
    "none": ((), []),
}
"""Kinds, and the indices of the records of these kinds in a journal of four records."""

VALID_IDS = {
    "quotes": "'\"`",
    "SQL": "'); DROP TABLE session; --",
    "patterns": "%_*?[a]$1 : :id {}",
    "emoji": "👩‍👩‍👧 été Ω",
    "lines": " a\n\tb\r ",
    "long": "".join(chr(0x4E00 + each) for each in range(10_000)),
    "a path": "../../etc/passwd",
}
SIMILAR_IDS = ["a", "A", "a ", "é", "e\u0301", "ａ"]
INVALID_IDS = {"empty": "", "NUL": "a\0b", "half a pair": "\ud83d"}

RECORDS: dict[str, Record] = {
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
"""Records of every kind, with contents that a careless store changes."""

UNWRITABLE = {
    "an object": object(),
    "a set": {1, 2},
    "bytes": b"bytes",
    "not a number": float("nan"),
    "infinity": [float("-inf")],
    "far too deep": nested(100_000),
}
"""Values that JSON cannot hold."""

Operation = tuple[str, str | None, list[Record], dict[str, Any]]
_IDS = st.sampled_from(["a", "b", "'é"])
_RECORDS: st.SearchStrategy[list[Record]] = st.lists(
    st.sampled_from([SYSTEM, ONE, SummaryRecord("short", 1), VariableRecord([1])]), max_size=3
)
_NUMBERS = st.integers(0, 6)
_RANGE_OR_KINDS = st.fixed_dictionaries(
    {},
    optional={
        "start": _NUMBERS,
        "end": _NUMBERS,
        "kinds": st.sets(st.sampled_from(["message", "system", "summary", "variable"])),
    },
)
OPERATIONS: st.SearchStrategy[list[Operation]] = st.lists(
    st.one_of(
        st.tuples(st.just("create"), _IDS, _RECORDS, st.just({})),
        st.tuples(st.just("append"), _IDS, _RECORDS, st.just({})),
        st.tuples(st.just("append"), _IDS, _RECORDS, st.builds(dict, expected=_NUMBERS)),
        st.tuples(st.just("read"), _IDS, st.just([]), _RANGE_OR_KINDS),
        st.tuples(st.just("info"), _IDS, st.just([]), st.just({})),
        st.tuples(st.just("delete"), _IDS, st.just([]), st.just({})),
        st.tuples(st.just("sessions"), st.none(), st.just([]), st.just({})),
    ),
    max_size=25,
)
"""Sequences of method, session id, records and other arguments."""


async def results_of(store: SessionStore, operations: Sequence[Operation]) -> list[Any]:
    """Return the result or the error of each operation; empty the store afterwards."""
    results: list[Any] = []
    for name, session_id, records, options in operations:
        ids = [] if session_id is None else [session_id]
        try:
            result = await getattr(store, name)(*ids, *records, **options)
        except ContextError as error:
            result = type(error), getattr(error, "session_id", None)
        if name == "info" and not isinstance(result, tuple):
            result = (result.id, result.records)
        if name == "sessions":
            result = [(each.id, each.records) for each in result]
        results.append(result)
    for each in await store.sessions():
        await store.delete(each.id)
    return results


async def close(stores: Sequence[SessionStore]) -> None:
    """Close stores."""
    await asyncio.gather(*(each.aclose() for each in stores))


@pytest.mark.asyncio
class StoreContract:
    """Tests of the promises of `SessionStore`.

    A subclass defines the fixture `open_store`, a function that returns a new store. All stores
    that it returns within one test use the same journals, which are empty at the beginning of the
    test. The tests close every store.
    """

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Return a function that opens a store; a subclass defines it."""
        raise NotImplementedError(
            f"{type(self).__name__} needs the fixture open_store: a function that returns a store."
        )

    @pytest_asyncio.fixture
    async def store(self, open_store: OpenStore) -> AsyncIterator[SessionStore]:
        """A store, which is closed after the test."""
        opened = open_store()
        yield opened
        await opened.aclose()

    # ---- create, append, read

    async def test_the_stores_of_open_store_use_the_same_journals_which_are_empty_at_first(
        self, open_store: OpenStore
    ) -> None:
        one, other = open_store(), open_store()
        assert await one.sessions() == [], "open_store opened journals of an earlier test"
        await one.create("s", ONE)
        try:
            assert await other.read("s") == [(0, ONE)]
        except SessionNotFound:
            pytest.fail("the second store of open_store does not use the journals of the first")
        await close([one, other])

    async def test_append_returns_the_length_of_the_journal(self, store: SessionStore) -> None:
        await store.create("s")
        assert (await store.info("s")).records == 0
        assert await store.append("s", ONE) == 1
        assert await store.append("s", TWO, THREE) == 3
        assert await store.append("s") == 3
        assert (await store.info("s")).records == 3
        assert await store.read("s") == [(0, ONE), (1, TWO), (2, THREE)]

    async def test_a_session_can_be_created_with_records(self, store: SessionStore) -> None:
        await store.create("s", SYSTEM, ONE)
        assert await store.append("s", TWO) == 3
        assert await store.read("s") == [(0, SYSTEM), (1, ONE), (2, TWO)]

    async def test_a_range_of_a_journal_is_read_with_its_indices(
        self, store: SessionStore, subtests: pytest.Subtests
    ) -> None:
        records = [SYSTEM, ONE, TWO, THREE]
        await store.create("s", *records)
        for name, (given_range, found) in RANGES.items():
            with subtests.test(name):
                expected = [(index, records[index]) for index in found]
                assert await store.read("s", *given_range) == expected

    async def test_records_of_some_kinds_are_read_with_their_indices(
        self, store: SessionStore, subtests: pytest.Subtests
    ) -> None:
        records: list[Record] = [SYSTEM, ONE, SummaryRecord("short"), TWO]
        await store.create("s", *records)
        for name, (kinds, found) in KINDS.items():
            with subtests.test(name):
                expected = [(index, records[index]) for index in found]
                assert await store.read("s", kinds=kinds) == expected
                assert await store.read("s", 2, 3, kinds=kinds) == [(2, records[2])] * (2 in found)

    async def test_create_and_append_store_any_number_of_records(self, store: SessionStore) -> None:
        numbers = [VariableRecord(number) for number in range(RECORDS_OF_A_JOURNAL)]
        await store.create("s", *numbers)
        assert await store.append("s", *numbers) == 2 * len(numbers)
        assert await store.read("s") == list(enumerate(numbers * 2))

    async def test_journals_of_different_sessions_are_separate(self, store: SessionStore) -> None:
        await store.create("a", ONE)
        await store.create("b")
        await store.append("a", TWO)
        assert (await store.read("a"), await store.read("b")) == ([(0, ONE), (1, TWO)], [])

    async def test_a_change_of_the_list_that_read_returns_does_not_change_the_journal(
        self, store: SessionStore
    ) -> None:
        await store.create("s", ONE)
        (await store.read("s")).append((1, TWO))
        assert await store.read("s") == [(0, ONE)]

    # ---- session ids

    async def test_session_ids_may_contain_any_characters(self, store: SessionStore) -> None:
        for session_id in VALID_IDS.values():
            await store.create(session_id, user_record(session_id))
            await store.append(session_id, ONE)
        for session_id in VALID_IDS.values():
            assert await store.read(session_id) == [(0, user_record(session_id)), (1, ONE)]
        assert {each.id for each in await store.sessions()} == {*VALID_IDS.values()}

    async def test_similar_session_ids_are_different_sessions(self, store: SessionStore) -> None:
        for session_id in SIMILAR_IDS:
            await store.create(session_id, user_record(session_id))
        for session_id in SIMILAR_IDS:
            assert await store.read(session_id) == [(0, user_record(session_id))]

    async def test_an_invalid_session_id_is_rejected(
        self, store: SessionStore, subtests: pytest.Subtests
    ) -> None:
        for name, session_id in INVALID_IDS.items():
            with subtests.test(name):
                with pytest.raises(ValueError):  # noqa: PT011 - the text is the store's own
                    await store.create(session_id, ONE)
                assert await store.sessions() == []
                for use in (
                    store.read(session_id),
                    store.append(session_id, ONE),
                    store.info(session_id),
                    store.delete(session_id),
                ):
                    with pytest.raises(SessionNotFound):
                        await use

    async def test_an_existing_session_is_not_created_again(self, store: SessionStore) -> None:
        await store.create("s", ONE)
        with pytest.raises(SessionExists) as caught:
            await store.create("s", TWO, THREE)
        assert caught.value.session_id == "s"
        assert await store.read("s") == [(0, ONE)]

    async def test_an_unknown_session_raises_session_not_found(self, store: SessionStore) -> None:
        await store.create("s", ONE)
        for use in (store.read("x"), store.append("x", ONE), store.info("x"), store.delete("x")):
            with pytest.raises(SessionNotFound) as caught:
                await use
            assert caught.value.session_id == "x"
        assert [each.id for each in await store.sessions()] == ["s"]

    # ---- contents of records

    async def test_a_record_is_read_exactly_as_it_was_written(
        self, store: SessionStore, subtests: pytest.Subtests
    ) -> None:
        assert {type(record) for record in RECORDS.values()} == {*get_args(Record)}
        for name, record in RECORDS.items():
            with subtests.test(name):
                await store.create(name, record)
                await store.append(name, record)
                ((first, one), (second, other)) = await store.read(name, kinds=[record.kind])
                assert (first, second, type(one)) == (0, 1, type(record))
                # As text, so that 1 is neither 1.0 nor True.
                assert repr(one) == repr(other) == repr(record)
                assert record_to_json(one) == record_to_json(record)

    async def test_nothing_is_written_if_json_cannot_hold_one_of_the_records(
        self, store: SessionStore, subtests: pytest.Subtests
    ) -> None:
        await store.create("s", ONE)
        for name, value in UNWRITABLE.items():
            call = ToolCall("a", "f", provider_data={"openai": {"x": value}})
            with subtests.test(name):
                for record in (VariableRecord(value), MessageRecord(Message.assistant("", [call]))):
                    for use in (
                        store.append("s", TWO, record, THREE),
                        store.create("t", TWO, record),
                    ):
                        with pytest.raises(ValueError):  # noqa: PT011 - the text is the store's own
                            await use
                assert await store.read("s") == [(0, ONE)]
                assert [each.id for each in await store.sessions()] == ["s"]

    # ---- list and delete sessions

    async def test_sessions_are_listed_by_their_last_write_with_the_newest_first(
        self, store: SessionStore
    ) -> None:
        await store.create("a")
        await store.create("b", ONE)
        await store.create("c")
        assert [each.id for each in await store.sessions()] == ["c", "b", "a"]
        await store.append("a", ONE, TWO)
        await store.read("b")
        await store.append("c")
        found = [(each.id, each.records) for each in await store.sessions()]
        assert found == [("c", 0), ("a", 2), ("b", 1)]

    async def test_a_write_that_is_refused_does_not_change_the_order_of_sessions(
        self, store: SessionStore
    ) -> None:
        await store.create("a", ONE)
        await store.create("b", ONE)
        before = await store.sessions()
        with pytest.raises(SessionConflict):
            await store.append("a", TWO, expected=7)
        with pytest.raises(SessionExists):
            await store.create("a", TWO)
        assert await store.sessions() == before

    async def test_a_session_has_the_times_of_its_creation_and_last_write_in_utc(
        self, store: SessionStore
    ) -> None:
        began = datetime.now(UTC)
        await store.create("a")
        await store.create("b")
        await store.append("a", ONE)
        a, b = await store.sessions()
        for each in (a.created, a.updated, b.created, b.updated):
            assert each.utcoffset() == timedelta(0), f"{each!r} does not have the time zone UTC"
        a_moment = timedelta(milliseconds=1)  # a server has its own clock and rounds differently
        assert began - a_moment <= a.created <= b.created == b.updated <= a.updated
        assert a.updated <= datetime.now(UTC) + a_moment
        assert await store.info("a") == a

    async def test_sessions_are_listed_while_others_are_deleted(
        self, open_store: OpenStore
    ) -> None:
        reader, writer = open_store(), open_store()
        await writer.create("kept")

        async def write() -> None:
            for n in range(50):
                await writer.create(str(n))
                await writer.delete(str(n))

        writing = asyncio.create_task(write())
        while not writing.done():
            assert "kept" in {each.id for each in await reader.sessions()}
            await asyncio.sleep(0)
        await writing
        await close([reader, writer])

    async def test_a_deleted_session_is_removed_and_a_new_one_with_its_id_is_empty(
        self, store: SessionStore
    ) -> None:
        await store.create("s", ONE, TWO)
        await store.create("other", THREE)
        await store.delete("s")
        assert [each.id for each in await store.sessions()] == ["other"]
        with pytest.raises(SessionNotFound):
            await store.read("s")
        await store.create("s")
        assert (await store.read("s"), (await store.info("s")).records) == ([], 0)
        assert await store.append("s", THREE) == 1
        assert await store.read("s") == [(0, THREE)]
        assert await store.read("other") == [(0, THREE)]

    # ---- several writers

    async def test_append_compares_the_expected_length(self, store: SessionStore) -> None:
        await store.create("s")
        assert await store.append("s", ONE, expected=0) == 1
        assert await store.append("s", TWO, expected=1) == 2
        for expected in (-1, 0, 1, 3, 2**70):
            for records in ((), (THREE,)):
                with pytest.raises(SessionConflict):
                    await store.append("s", *records, expected=expected)
        assert await store.read("s") == [(0, ONE), (1, TWO)]

    async def test_of_many_concurrent_creates_of_one_session_one_succeeds(
        self, open_store: OpenStore
    ) -> None:
        stores = [open_store() for _ in range(WRITERS)]
        done = await asyncio.gather(
            *(each.create("s", user_record(str(n))) for n, each in enumerate(stores)),
            return_exceptions=True,
        )
        assert done.count(None) == 1, f"{done.count(None)} of {WRITERS} creates succeeded"
        assert {type(each) for each in done} == {type(None), SessionExists}
        assert await stores[0].read("s") == [(0, user_record(str(done.index(None))))]
        await close(stores)

    async def test_concurrent_writers_lose_no_records_and_do_not_interleave_them(
        self, open_store: OpenStore
    ) -> None:
        stores = [open_store() for _ in range(WRITERS)]
        exchanges: list[list[Record]] = [
            [user_record(str(n)), MessageRecord(Message.assistant(str(n)))] for n in range(500)
        ]
        await stores[0].create("s")

        async def write(store: SessionStore, mine: list[list[Record]]) -> list[int]:
            return [await store.append("s", *each) for each in mine]

        lengths = await asyncio.gather(
            *(write(store, exchanges[n::WRITERS]) for n, store in enumerate(stores))
        )
        found = await stores[0].read("s")
        assert sorted(each for some in lengths for each in some) == list(range(2, 1001, 2))
        assert [index for index, _ in found] == list(range(1000))
        records = [record for _, record in found]
        pairs = [records[n : n + 2] for n in range(0, 1000, 2)]
        unknown = [each for each in pairs if each not in exchanges]
        assert unknown == [], "records of another writer are between those of one append"
        assert sorted(pairs, key=repr) == sorted(exchanges, key=repr)
        for n, mine in enumerate(exchanges[n::WRITERS] for n in range(WRITERS)):
            assert [each for each in pairs if each in mine] == mine, f"writer {n} is out of order"
        await close(stores)

    async def test_one_store_serves_many_concurrent_writers(self, store: SessionStore) -> None:
        await store.create("s")
        lengths = await asyncio.gather(*(store.append("s", ONE, TWO) for _ in range(100)))
        assert sorted(lengths) == list(range(2, 201, 2))
        assert [record for _, record in await store.read("s")] == [ONE, TWO] * 100

    async def test_of_many_concurrent_appends_with_the_same_expected_length_one_succeeds(
        self, open_store: OpenStore
    ) -> None:
        stores = [open_store() for _ in range(WRITERS)]
        await stores[0].create("s", ONE)
        done = await asyncio.gather(
            *(each.append("s", user_record(str(n)), expected=1) for n, each in enumerate(stores)),
            return_exceptions=True,
        )
        assert done.count(2) == 1
        assert {type(each) for each in done} == {int, SessionConflict}
        assert await stores[0].read("s", 1) == [(1, user_record(str(done.index(2))))]
        await close(stores)

    async def test_a_writer_that_reads_again_after_a_conflict_eventually_succeeds(
        self, open_store: OpenStore
    ) -> None:
        stores = [open_store() for _ in range(8)]
        await stores[0].create("s")

        async def count(store: SessionStore) -> int:
            while True:
                seen = await store.read("s")
                with suppress(SessionConflict):
                    return await store.append("s", VariableRecord(len(seen)), expected=len(seen))

        assert sorted(await asyncio.gather(*map(count, stores))) == list(range(1, 9))
        assert await stores[0].read("s") == [(n, VariableRecord(n)) for n in range(8)]
        await close(stores)

    async def test_a_concurrent_reader_sees_only_complete_appends(
        self, open_store: OpenStore
    ) -> None:
        writer, reader = open_store(), open_store()
        await writer.create("s")

        async def write() -> None:
            for n in range(50):
                await writer.append("s", *[user_record(str(n))] * 3)

        writing = asyncio.create_task(write())
        seen = [0]
        while not writing.done():
            found = await reader.read("s")
            assert found == [(index, user_record(str(index // 3))) for index in range(len(found))]
            assert len(found) % 3 == 0, "the reader saw a part of an append of three records"
            seen.append(len(found))
            await asyncio.sleep(0)
        await writing
        assert all(before <= after for before, after in pairwise(seen))
        await close([writer, reader])

    async def test_concurrent_appends_and_deletes_leave_no_partial_session(
        self, store: SessionStore
    ) -> None:
        for _ in range(20):
            await store.create("s", ONE)
            await asyncio.gather(
                store.append("s", TWO),
                store.delete("s"),
                store.append("s", TWO),
                return_exceptions=True,
            )
            assert await store.sessions() == []

    async def test_a_cancelled_append_writes_all_of_its_records_or_none(
        self, store: SessionStore
    ) -> None:
        await store.create("s")
        for n in range(60):
            writing = asyncio.create_task(store.append("s", *[user_record(str(n))] * 2))
            for _ in range(n % 20):
                await asyncio.sleep(0)
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
        # The store may still be executing the cancelled operation; operations run in order.
        length = await store.append("s", ONE, TWO)
        records = [record for _, record in await store.read("s")]
        texts = [each.message.text for each in records[:-2] if isinstance(each, MessageRecord)]
        assert records[-2:] == [ONE, TWO]
        assert len(records) == len(texts) + 2 == length == (await store.info("s")).records
        assert texts[::2] == texts[1::2] == sorted({*texts}, key=int)

    # ---- close

    async def test_every_use_of_a_closed_store_raises_store_failed(
        self, store: SessionStore
    ) -> None:
        await store.create("s", ONE)
        await store.aclose()
        await store.aclose()
        for use in (
            store.create("t"),
            store.append("s", TWO),
            store.read("s"),
            store.info("s"),
            store.sessions(),
            store.delete("s"),
        ):
            with pytest.raises(StoreFailed):
                await use

    # ---- event loops, and any sequence of operations

    async def test_a_store_can_be_used_from_several_event_loops_in_turn(
        self, open_store: OpenStore
    ) -> None:
        store = open_store()

        async def append_two() -> tuple[int, int]:
            return await asyncio.gather(store.append("s", ONE), store.append("s", TWO))

        def use() -> list[tuple[int, Record]]:
            asyncio.run(store.create("s"))
            for n in range(5):
                assert sorted(asyncio.run(append_two())) == [2 * n + 1, 2 * n + 2]
            found = asyncio.run(store.read("s"))
            asyncio.run(store.aclose())
            return found

        assert [index for index, _ in await asyncio.to_thread(use)] == list(range(10))

    @settings(deadline=None, suppress_health_check=list(HealthCheck))
    @given(operations=OPERATIONS)
    async def test_any_operations_have_the_same_results_as_those_of_a_memory_store(
        self, store: SessionStore, operations: list[Operation]
    ) -> None:
        assert await results_of(store, operations) == await results_of(MemoryStore(), operations)
