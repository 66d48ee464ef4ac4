import asyncio
from contextlib import nullcontext

import pytest

from stage0_gateway import Message, ToolCall, Usage
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    DropOldest,
    KeepEverything,
    KeepSystemAndRecent,
    MemoryStore,
    MessageRecord,
    RepairRecord,
    SessionConflict,
    SessionNotFound,
    SqliteStore,
    SummaryRecord,
    Transcript,
    VariableDeletedRecord,
    VariableRecord,
    WindowTooSmall,
)
from tests.stage1_context.sessions import (
    HELLO,
    HI,
    MORE,
    SYSTEM,
    AlternatingWindow,
    CharacterCounter,
    FailingStore,
    calls,
    result,
    store_of,
    summary_message,
    user,
)
from tests.tables import for_each


async def unused(transcript, wanted=""):
    [call_id] = await transcript.unused_call_ids([wanted])
    return call_id


async def test_appended_messages_are_sent():
    transcript = Transcript.of([SYSTEM, HI])
    assert await transcript.append(HELLO, MORE) == 4
    assert await transcript.for_request() == [SYSTEM, HI, HELLO, MORE]


async def test_system_messages_are_sent_first_but_keep_their_place_in_the_history():
    transcript = Transcript.of([HI, SYSTEM, HELLO])
    assert await transcript.for_request() == [SYSTEM, HI, HELLO]
    assert (await transcript.history()).messages == (HI, SYSTEM, HELLO)


async def test_a_transcript_reads_the_messages_of_other_writers():
    store = store_of()
    mine, other = Transcript(store, "s"), Transcript(store, "s")
    await mine.append(HI)
    assert await other.for_request() == [HI]
    await other.append(HELLO)
    await store.append("s", MessageRecord(MORE))
    assert await mine.for_request() == await other.for_request() == [HI, HELLO, MORE]


async def test_each_message_is_counted_once_regardless_of_the_number_of_requests():
    counter = CharacterCounter()
    transcript = Transcript.of([SYSTEM, HI], KeepSystemAndRecent(max_tokens=1000), counter)
    for _ in range(3):
        await transcript.for_request(extra_text="tools")
    await transcript.append(HELLO)
    await transcript.for_request(extra_text="tools")
    await transcript.history()
    assert counter.counted == {"be brief": 1, "hi": 1, "tools": 1, "hello": 1}


async def test_without_a_window_no_message_is_counted():
    counter = CharacterCounter()
    transcript = Transcript.of([SYSTEM, HI], None, counter)
    await transcript.for_request()
    transcript.report_usage(Usage(input_tokens=10))
    assert counter.counted == {}


async def test_messages_outside_the_window_remain_in_the_history():
    transcript = Transcript.of([HI, HELLO, MORE], KeepSystemAndRecent(max_messages=1))
    assert await transcript.for_request() == [MORE]
    assert (await transcript.history()).messages == (HI, HELLO, MORE)


@for_each(
    "extra_text, reserve, sent",
    [
        ("", 0, [HI, MORE]),
        ("1234", 0, [HI, MORE]),
        ("12345", 0, [MORE]),
        ("", 4, [HI, MORE]),
        ("", 5, [MORE]),
        ("12", 2, [HI, MORE]),
        ("123", 2, [MORE]),
    ],
)
async def test_the_extra_text_and_the_reserve_use_tokens_of_the_window(extra_text, reserve, sent):
    # HI takes 4 + 2 tokens, MORE takes 4 + 4.
    transcript = Transcript.of([HI, MORE], KeepSystemAndRecent(max_tokens=18), CharacterCounter())
    assert await transcript.for_request(extra_text=extra_text, reserve_tokens=reserve) == sent


async def test_a_changed_extra_text_is_counted_again():
    transcript = Transcript.of([HI], KeepSystemAndRecent(max_tokens=18), CharacterCounter())
    assert await transcript.for_request(extra_text="x" * 12) == [HI]
    with pytest.raises(WindowTooSmall):
        await transcript.for_request(extra_text="x" * 13)
    assert await transcript.for_request(extra_text="x" * 12) == [HI]


async def test_each_message_of_a_long_conversation_is_counted_once_over_many_turns():
    counter = CharacterCounter()
    old = [Message.user(f"old {number}") for number in range(1000)]
    transcript = Transcript.of([SYSTEM, *old], KeepSystemAndRecent(max_tokens=500), counter)
    for number in range(100):
        question = Message.user(f"question {number}")
        await transcript.append(question)
        for _ in range(3):
            await transcript.for_request(extra_text="tools", pinned=question)
        await transcript.append(Message.assistant(f"answer {number}"))
    assert set(counter.counted.values()) == {1}
    assert {f"answer {number}" for number in range(99)} < counter.counted.keys()


# ---- pinned messages

QUESTION = Message.user("question")
STEPS = [calls("a"), result("a")]


async def test_a_pinned_question_inside_the_window_is_sent_once():
    transcript = Transcript.of([SYSTEM, QUESTION, *STEPS], KeepSystemAndRecent(max_messages=3))
    assert await transcript.for_request(pinned=QUESTION) == [SYSTEM, QUESTION, *STEPS]


async def test_a_pinned_question_outside_the_window_is_sent_after_the_system_messages():
    messages = [QUESTION, SYSTEM, *STEPS, Message.system("be kind")]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_messages=2))
    await transcript.set_summary("they met")
    assert await transcript.for_request(pinned=QUESTION) == [
        SYSTEM,
        Message.system("be kind"),
        summary_message("they met"),
        QUESTION,
        *STEPS,
    ]


async def test_a_pinned_question_that_was_summarized_is_sent_unchanged():
    transcript = Transcript.of([QUESTION, *STEPS])
    await transcript.set_summary("they met", until=1)
    assert await transcript.for_request(pinned=QUESTION) == [
        summary_message("they met"),
        QUESTION,
        *STEPS,
    ]


async def test_a_pinned_question_uses_tokens_that_newer_messages_would_use():
    # The question takes 12 tokens, the others 6, 9 and 8.
    messages = [QUESTION, HI, HELLO, MORE]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_tokens=23), CharacterCounter())
    assert await transcript.for_request() == [HI, HELLO, MORE]
    assert await transcript.for_request(pinned=QUESTION) == [QUESTION, MORE]


async def test_a_pinned_question_counts_towards_max_messages():
    transcript = Transcript.of([QUESTION, HI, HELLO, MORE], DropOldest(max_messages=2))
    assert await transcript.for_request(pinned=QUESTION) == [QUESTION, MORE]


async def test_a_pinned_question_that_does_not_fit_beside_the_newest_exchange_is_an_error():
    transcript = Transcript.of(
        [QUESTION, HI], KeepSystemAndRecent(max_tokens=17), CharacterCounter()
    )
    assert await transcript.for_request() == [HI]
    with pytest.raises(WindowTooSmall):
        await transcript.for_request(pinned=QUESTION)


async def test_a_pinned_question_is_not_added_if_the_window_contains_an_equal_one():
    messages = [QUESTION, HELLO, QUESTION, *STEPS]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_messages=3))
    assert await transcript.for_request(pinned=QUESTION) == [QUESTION, *STEPS]


async def test_a_pinned_question_that_occurs_twice_outside_the_window_is_sent_once():
    messages = [QUESTION, HELLO, QUESTION, *STEPS]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_messages=2))
    assert await transcript.for_request(pinned=QUESTION) == [QUESTION, *STEPS]


# ---- the summary


async def test_a_summary_replaces_the_messages_before_it_and_follows_the_system_messages():
    transcript = Transcript.of([HI, SYSTEM, HELLO, MORE])
    await transcript.set_summary("they met", until=3)
    assert await transcript.for_request() == [SYSTEM, summary_message("they met"), MORE]
    assert await transcript.summary() == "they met"
    assert (await transcript.history()).messages == (HI, SYSTEM, HELLO, MORE)


async def test_without_the_summary_all_messages_are_sent_including_new_ones():
    transcript = Transcript.of([HI, HELLO, MORE])
    await transcript.set_summary("they met", until=2)
    assert await transcript.for_request(include_summary=False) == [HI, HELLO, MORE]
    await transcript.append(HI)
    assert await transcript.for_request(include_summary=False) == [HI, HELLO, MORE, HI]
    assert await transcript.for_request() == [summary_message("they met"), MORE, HI]


async def test_a_summary_that_replaces_no_messages_can_be_left_out():
    transcript = Transcript.of([HI])
    await transcript.set_summary("they met")
    assert await transcript.for_request(include_summary=False) == [HI]
    assert await transcript.for_request() == [summary_message("they met"), HI]


async def test_a_new_summary_replaces_the_same_messages_and_an_empty_one_replaces_none():
    store = store_of(HI, HELLO, MORE)
    transcript = Transcript(store, "s")
    await transcript.set_summary("they met", until=2)
    await transcript.set_summary("they said hello")
    assert await transcript.for_request() == [summary_message("they said hello"), MORE]
    await transcript.set_summary("")
    assert await transcript.for_request() == [HI, HELLO, MORE]
    assert await transcript.summary() == ""
    assert (await store.read("s"))[-1] == (5, SummaryRecord("", 0))


async def test_a_summary_uses_tokens_of_the_window():
    transcript = Transcript.of([HI, MORE], KeepSystemAndRecent(max_tokens=141), CharacterCounter())
    await transcript.set_summary("x" * 21)
    for _ in range(3):
        assert await transcript.for_request() == [summary_message("x" * 21), HI, MORE]
        assert await transcript.for_request(reserve_tokens=1) == [summary_message("x" * 21), MORE]


@for_each(
    "window, kept",
    [
        (KeepEverything(), [HELLO, MORE]),
        (DropOldest(max_messages=3), [MORE]),
        (KeepSystemAndRecent(max_messages=1), [MORE]),
        (AlternatingWindow(), [HELLO]),
    ],
)
async def test_no_window_drops_the_summary(window, kept):
    transcript = Transcript.of([SYSTEM, HI, HELLO, MORE], window)
    await transcript.set_summary("they met", until=2)
    assert await transcript.for_request() == [SYSTEM, summary_message("they met"), *kept]
    without = await transcript.for_request(include_summary=False)
    assert summary_message("they met") not in without


async def test_setting_a_summary_with_an_outdated_expected_length_is_a_conflict():
    transcript = Transcript.of([HI])
    with pytest.raises(SessionConflict):
        await transcript.set_summary("they met", expected=0)
    assert await transcript.summary() == ""
    await transcript.set_summary("they met", expected=(await transcript.info()).records)
    assert await transcript.summary() == "they met"


# ---- after a crash

CALLS = Message.assistant("", [ToolCall("a", "f"), ToolCall("b", "g")])
OLD_CALL = calls("old")
RESULT = result("a")
STARTED = CallStartedRecord("b", "g")


@for_each("call_records", [0, 1, 40])
@for_each("answered", [(), (RESULT,)])
async def test_calls_that_a_killed_program_left_open_get_an_interrupted_result(
    answered, call_records
):
    store = store_of(*[HI] * 50, CALLS, *answered, *[STARTED] * call_records)
    transcript = Transcript(store, "s")
    await transcript.close_open_calls()
    sent = await transcript.for_request()
    assert sent[: 51 + len(answered)] == [*[HI] * 50, CALLS, *answered]
    closed = sent[51 + len(answered) :]
    assert [each.tool_call_id for each in closed] == ["a", "b"][len(answered) :]
    assert all(each.is_error and each.text.startswith("[interrupted]") for each in closed)
    assert (await transcript.history()).check_history() == []
    await transcript.append(MORE)
    assert (await Transcript(store, "s").for_request())[-1 - len(closed) :] == [*closed, MORE]


@for_each(
    "messages",
    [
        [],
        [SYSTEM],
        [HI],
        [HI, HELLO],
        [CALLS, RESULT, result("b")],
        [CALLS, RESULT, result("b"), HI],
    ],
)
async def test_close_open_calls_writes_nothing_if_the_newest_exchange_is_complete(messages):
    store = store_of(*messages)
    await Transcript(store, "s").close_open_calls()
    assert (await store.info("s")).records == len(messages)


async def test_closing_open_calls_twice_writes_the_results_once():
    store = store_of(CALLS)
    for _ in range(2):
        await Transcript(store, "s").close_open_calls()
    assert (await store.info("s")).records == 3


async def test_close_open_calls_leaves_older_problems_to_repair_history():
    transcript = Transcript(store_of(OLD_CALL, HI, CALLS, RESULT), "s")
    await transcript.close_open_calls()
    assert (await transcript.history()).check_history() == [
        "user message between a call and its result: old",
        "call without a result: old",
    ]
    assert await transcript.repair_history() == [
        "user message between a call and its result: old",
        "call without a result: old",
    ]
    assert (await transcript.history()).check_history() == []
    sent = await transcript.for_request()
    assert [each.tool_call_id for each in sent] == [None, "old", None, None, "a", "b"]


@for_each("at", [1, 2, 3])
async def test_close_open_calls_works_after_a_failed_read(at):
    """It reads the size of the journal, its control records, and its messages."""
    store = FailingStore(CALLS, at=at, error=asyncio.CancelledError())
    transcript = Transcript(store, "s")
    with pytest.raises(asyncio.CancelledError):
        await transcript.close_open_calls()
    await transcript.close_open_calls()
    assert (await transcript.history()).check_history() == []


async def test_a_valid_history_is_not_repaired():
    store = store_of(HI, CALLS, RESULT, result("b"))
    assert await Transcript(store, "s").repair_history() == []
    assert (await store.info("s")).records == 4


LATE = MessageRecord(result("a", "late"))


class GrowingStore(MemoryStore):
    """Another writer appends a result after each reading."""

    async def read(self, *given, **named):
        found = await super().read(*given, **named)
        await self.append("s", LATE)
        return found


async def test_a_repair_raises_a_conflict_if_the_journal_grew_in_the_meantime():
    store = GrowingStore({"s": [MessageRecord(CALLS)]})
    for repair in (Transcript(store, "s").repair_history, Transcript(store, "s").close_open_calls):
        with pytest.raises(SessionConflict):
            await repair()
    assert {each.kind for _, each in await MemoryStore.read(store, "s")} == {"message", "call"}


async def test_repair_closed_exchanges_leaves_open_calls_of_the_newest_exchange_unanswered():
    transcript = Transcript(store_of(OLD_CALL, HI, CALLS, RESULT), "s")
    await transcript.repair_closed_exchanges()
    sent = await transcript.for_request()
    assert [each.tool_call_id for each in sent] == [None, "old", None, None, "a"]
    assert sent[1].text.startswith("[interrupted]")
    assert [call.id for call in (await transcript.open_calls()).calls] == ["b"]


async def test_repair_closed_exchanges_repairs_the_newest_exchange_if_it_is_closed():
    transcript = Transcript(store_of(HI, calls("a", "a"), RESULT), "s")
    await transcript.repair_closed_exchanges()
    sent = await transcript.for_request()
    assert [each.tool_call_id for each in sent] == [None, None, "a", "a-2"]
    assert (await transcript.history()).check_history() == []


async def test_repair_closed_exchanges_removes_a_result_without_a_call():
    transcript = Transcript(store_of(HI, RESULT, HELLO), "s")
    assert [*await transcript.history()] == [HI, RESULT, HELLO]
    await transcript.repair_closed_exchanges()
    assert [*await transcript.history()] == [HI, HELLO]


async def test_repair_closed_exchanges_keeps_a_result_whose_call_was_not_read():
    store = store_of(calls("a"), *[HI] * 100, RESULT, HELLO)
    await Transcript(store, "s", KeepSystemAndRecent(max_messages=1)).repair_closed_exchanges()
    assert (await store.info("s")).records == 103
    assert [*await Transcript(store, "s").history()] == [calls("a"), RESULT, *[HI] * 100, HELLO]


@for_each("messages, is_conflict", [([OLD_CALL, HI, HELLO], True), ([HI, HELLO], False)])
async def test_repair_closed_exchanges_conflicts_with_another_writer_only_if_it_repairs(
    messages, is_conflict
):
    written = [MessageRecord(each) for each in messages]
    store = GrowingStore({"s": written})
    with pytest.raises(SessionConflict) if is_conflict else nullcontext():
        await Transcript(store, "s").repair_closed_exchanges()
    assert [each for each in store.records("s") if each != LATE] == written


# ---- ids of calls


async def test_a_wanted_call_id_is_returned_once_and_used_ids_are_replaced():
    transcript = Transcript.of([calls("a", "call_3")])
    ids = [await unused(transcript, wanted) for wanted in ("b", "b", "a", "", "", "call_3")]
    assert ids[0] == "b"
    assert all(ids)
    assert len({*ids, "a", "call_3"}) == len(ids) + 2


async def test_a_call_id_of_another_writer_is_not_returned():
    store = store_of()
    transcript = Transcript(store, "s")
    await Transcript(store, "s").append(calls("call_1"))
    assert await unused(transcript) != "call_1"
    assert await unused(transcript, "call_1") != "call_1"


async def test_a_call_id_in_records_that_were_not_read_is_not_returned():
    messages = [calls("a", "call_3"), *[HI] * 1000]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_messages=1))
    await transcript.for_request()
    assert await unused(transcript, "a") == "call_4"
    assert await unused(transcript, "call_3") == "call_5"


async def test_call_ids_hidden_by_a_summary_or_a_repair_are_not_returned():
    repair = RepairRecord(((1, calls("a-2")),), (1,))
    store = store_of(*[calls("a")] * 2, HI, HI, repair, SummaryRecord("they met", 3))
    transcript = Transcript(store, "s")
    assert await unused(transcript, "a") not in ("a", "a-2")
    assert await unused(transcript, "a-2") not in ("a", "a-2")


# ---- concurrent use


async def test_an_unknown_session_raises_an_error_with_its_id():
    transcript = Transcript(MemoryStore(), "s")
    for ask in (transcript.for_request(), transcript.history(), transcript.append(HI)):
        with pytest.raises(SessionNotFound, match="Unknown session 's'"):
            await ask


class YieldingStore(MemoryStore):
    """Lets other tasks run while it reads, as a database does."""

    async def read(self, *given, **named):
        records = await super().read(*given, **named)
        await asyncio.sleep(0)
        return records


async def test_concurrent_readers_read_each_message_once():
    store = YieldingStore({"s": map(MessageRecord, [HI] * 100)})
    transcript = Transcript(store, "s")
    asked = await asyncio.gather(
        transcript.for_request(),
        transcript.append(HELLO),
        transcript.for_request(),
        transcript.summary(),
        unused(transcript),
        transcript.close_open_calls(),
        transcript.for_request(),
    )
    assert {len(asked[each]) for each in (0, 2, 6)} <= {100, 101}
    assert await transcript.for_request() == [*[HI] * 100, HELLO]


async def test_two_transcripts_of_one_store_show_the_same_messages():
    store = store_of(*[CALLS, RESULT, HI, HELLO] * 20)
    mine, other = (Transcript(store, "s", KeepSystemAndRecent(max_messages=30)) for _ in range(2))
    for number in range(40):
        writer = (mine, other)[number % 2]
        if number % 10 == 3:
            await writer.set_summary(f"summary {number}", until=60 + number)
        elif number % 10 == 6:
            await writer.repair_history()
        else:
            await writer.append(user(number))
        fresh = Transcript(store, "s", KeepSystemAndRecent(max_messages=30))
        assert await mine.for_request() == await other.for_request() == await fresh.for_request()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_transcript_can_be_used_in_another_event_loop(kind, tmp_path):
    store = YieldingStore() if kind == "memory" else SqliteStore(tmp_path / "s.db")
    transcript = Transcript(store, "s")

    async def two_at_once(message):
        async def run():
            async with transcript.lock:
                await asyncio.sleep(0)
                await transcript.append(message)
                return await transcript.for_request()

        return await asyncio.gather(
            run(), transcript.for_request(), run(), transcript.for_request()
        )

    async def begin():
        await store.create("s")
        return await two_at_once(HI)

    assert asyncio.run(begin())[2] == [HI, HI]
    assert asyncio.run(two_at_once(MORE))[2] == [HI, HI, MORE, MORE]
    asyncio.run(store.aclose())


def test_a_lock_that_was_never_released_does_not_block_another_event_loop():
    transcript = Transcript.of([HI])

    async def never_released():
        await transcript.lock.acquire()

    async def use_the_lock():
        async with transcript.lock:
            return await transcript.for_request()

    asyncio.run(never_released())
    assert asyncio.run(use_the_lock()) == [HI]


class SlowStore(MemoryStore):
    """Sets `writing` when a write starts, and waits for `proceed` before it writes."""

    def __init__(self, journals):
        super().__init__(journals)
        self.writing, self.proceed = asyncio.Event(), asyncio.Event()

    async def append(self, session_id, *records, expected=None):
        self.writing.set()
        await self.proceed.wait()
        return await super().append(session_id, *records, expected=expected)


@for_each("times", [1, 2])
async def test_a_cancelled_append_is_completed_before_the_cancellation_is_raised(times):
    store = SlowStore({"s": []})
    transcript = Transcript(store, "s")
    done = []

    async def add():
        done.append(await transcript.append(HI))
        await asyncio.sleep(0)
        done.append("continued")

    task = asyncio.ensure_future(add())
    await store.writing.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    store.proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [1]
    assert (await transcript.history()).messages == (HI,)


async def test_a_timeout_during_an_append_is_raised_after_the_append():
    store = SlowStore({"s": []})
    transcript = Transcript(store, "s")

    async def add_in_no_time():
        async with asyncio.timeout(0):  # ends in the next step of the event loop
            asyncio.get_running_loop().call_soon(store.proceed.set)
            await transcript.append(HI)
            await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        await add_in_no_time()
    assert (await transcript.history()).messages == (HI,)


# ---- conflicts between writers

A, B = CallStartedRecord("a", "f"), CallStartedRecord("b", "f")


@for_each(
    "other",
    [
        MessageRecord(Message.assistant("Hello.")),
        MessageRecord(CALLS),
        MessageRecord(RESULT),
        A,
        CallFinishedRecord("a", "completed"),
        ApprovalPendingRecord("a", "f", "{}"),
        RepairRecord(((0, RESULT),)),
    ],
)
@for_each("own", [HELLO, RESULT, A])
async def test_a_reply_or_a_call_record_of_another_writer_is_a_conflict(other, own):
    transcript = Transcript.of([HI, CALLS])
    await transcript.store.append("", other)
    for _ in range(2):
        with pytest.raises(SessionConflict, match="Another writer continued the session"):
            await transcript.append(own, since=2)
    assert (await transcript.info()).records == 3


async def test_the_same_record_of_another_writer_is_a_conflict():
    transcript = Transcript.of([HI, CALLS])
    await transcript.store.append("", A)
    with pytest.raises(SessionConflict):
        await transcript.append(A, since=2)


async def test_user_messages_variables_and_summaries_of_other_writers_are_not_conflicts():
    transcript = Transcript.of([HI, CALLS])
    others = [
        MessageRecord(MORE),
        VariableRecord(1),
        VariableDeletedRecord("var_1"),
        SummaryRecord("they met"),
    ]
    await transcript.store.append("", *others)
    assert await transcript.append(A, RESULT, since=2) == 8
    assert [record for _, record in await transcript.store.read("", 6)] == [
        A,
        MessageRecord(RESULT),
    ]


async def test_a_session_that_was_deleted_and_recreated_is_a_conflict():
    transcript = Transcript(store_of(HI, CALLS), "s")
    await transcript.store.delete("s")
    await transcript.store.create("s")
    with pytest.raises(SessionConflict):
        await transcript.append(A, since=2)


class InterruptedStore(MemoryStore):
    """Cancels its first append before or after the write; then another writer appends `others`."""

    def __init__(self, journals, *, writes, others=()):
        super().__init__(journals)
        self.writes, self.others, self.interrupted = writes, others, False

    async def append(self, session_id, *records, expected=None):
        if not self.writes:
            await self.interrupt(session_id)
        length = await super().append(session_id, *records, expected=expected)
        await self.interrupt(session_id)
        return length

    async def interrupt(self, session_id):
        if self.interrupted:
            return
        self.interrupted = True
        await super().append(session_id, *self.others)
        asyncio.current_task().cancel()  # as asyncio.run does when it ends
        await asyncio.sleep(0)


@for_each("writes", [True, False])
@for_each("others", [(), (VariableRecord(1),)])
@for_each("own", [[A], [MessageRecord(RESULT)], [MessageRecord(HI)] * 2])
async def test_an_interrupted_append_adds_each_record_once(own, others, writes):
    first = MessageRecord(CALLS)
    store = InterruptedStore({"s": [first]}, writes=writes, others=others)
    transcript = Transcript(store, "s")
    await transcript.for_request()
    length = await transcript.append(*own, since=1)
    assert store.interrupted
    found = [record for _, record in await store.read("s")]
    assert found == ([first, *own, *others] if writes else [first, *others, *own])
    assert length == (1 + len(own) if writes else len(found))
    assert await transcript.for_request() == await Transcript(store, "s").for_request()


async def test_an_interrupted_append_behind_a_note_of_another_writer_adds_each_record_once():
    earlier = [MessageRecord(CALLS), VariableRecord(1), SummaryRecord("they met")]
    store = InterruptedStore({"s": earlier}, writes=True)
    assert await Transcript(store, "s").append(A, MessageRecord(RESULT), since=1) == 5
    assert store.interrupted
    assert [*store.records("s")] == [*earlier, A, MessageRecord(RESULT)]


async def test_an_interrupted_append_is_a_conflict_if_another_writer_replied():
    store = InterruptedStore({"s": []}, writes=False, others=[MessageRecord(HELLO)])
    with pytest.raises(SessionConflict):
        await Transcript(store, "s").append(Message.assistant("Hi."), since=0)
    assert (await store.info("s")).records == 1


async def test_an_interrupted_append_is_a_conflict_if_another_writer_replied_and_wrote_the_same():
    others = [MessageRecord(HELLO), A]
    store = InterruptedStore({"s": []}, writes=False, others=others)
    with pytest.raises(SessionConflict):
        await Transcript(store, "s").append(A, since=0)
    assert [*store.records("s")] == others


@for_each("writes", [True, False])
async def test_an_interrupted_append_without_expected_is_not_repeated(writes):
    store = InterruptedStore({"s": []}, writes=writes)
    with pytest.raises(asyncio.CancelledError):
        await Transcript(store, "s").append(HI)
    assert (await store.info("s")).records == writes


# ---- messages without waiting


async def test_a_transcript_in_memory_offers_its_messages_without_await(tmp_path):
    transcript = Transcript.of([SYSTEM, CALLS, MORE, RESULT])
    assert transcript.messages == (await transcript.history()).messages
    with pytest.raises(ValueError, match="Use await history"):
        _ = Transcript(SqliteStore(tmp_path / "s.db"), "s").messages
