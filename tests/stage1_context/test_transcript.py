import asyncio
from collections import Counter

import pytest

from stage0_gateway import Message, ToolCall, Usage
from stage1_context import (
    ApprovalPendingRecord,
    CallFinishedRecord,
    CallStartedRecord,
    DropOldest,
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

SYSTEM, HI, HELLO = Message.system("be brief"), Message.user("hi"), Message.assistant("hello")
MORE = Message.user("more")


class Counting:
    def __init__(self):
        self.seen = Counter()

    def count(self, text):
        self.seen[text] += 1
        return len(text)


async def unused(transcript, wanted=""):
    [call_id] = await transcript.unused_call_ids([wanted])
    return call_id


async def test_what_is_appended_is_what_is_sent():
    transcript = Transcript.of([SYSTEM, HI])
    assert await transcript.append(HELLO, MORE) == 4
    assert await transcript.for_request() == [SYSTEM, HI, HELLO, MORE]


async def test_system_messages_are_sent_first_but_kept_where_they_were_said():
    transcript = Transcript.of([HI, SYSTEM, HELLO])
    assert await transcript.for_request() == [SYSTEM, HI, HELLO]
    assert (await transcript.history()).messages == (HI, SYSTEM, HELLO)


async def test_a_transcript_reads_on_what_another_writer_appends():
    store = MemoryStore({"s": []})
    mine, other = Transcript(store, "s"), Transcript(store, "s")
    await mine.append(HI)
    assert await other.for_request() == [HI]
    await other.append(HELLO)
    await store.append("s", MessageRecord(MORE))
    assert await mine.for_request() == await other.for_request() == [HI, HELLO, MORE]


async def test_each_message_is_counted_once_whatever_the_number_of_requests():
    counter = Counting()
    transcript = Transcript.of([SYSTEM, HI], KeepSystemAndRecent(max_tokens=1000), counter)
    for _ in range(3):
        await transcript.for_request(extra_text="tools")
    await transcript.append(HELLO)
    await transcript.for_request(extra_text="tools")
    await transcript.history()
    assert counter.seen == {"be brief": 1, "hi": 1, "tools": 1, "hello": 1}


async def test_without_a_window_nothing_is_counted():
    counter = Counting()
    transcript = Transcript.of([SYSTEM, HI], None, counter)
    await transcript.for_request()
    transcript.report_usage(Usage(input_tokens=10))
    assert counter.seen == {}


async def test_what_stands_outside_the_window_is_still_history():
    transcript = Transcript.of([HI, HELLO, MORE], KeepSystemAndRecent(max_messages=1))
    assert await transcript.for_request() == [MORE]
    assert (await transcript.history()).messages == (HI, HELLO, MORE)


@pytest.mark.parametrize(
    ("alongside", "reserve", "sent"),
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
async def test_text_alongside_and_the_reserve_take_room(alongside, reserve, sent):
    # HI takes 4 + 2 tokens, MORE takes 4 + 4.
    transcript = Transcript.of([HI, MORE], KeepSystemAndRecent(max_tokens=18), Counting())
    assert await transcript.for_request(extra_text=alongside, reserve_tokens=reserve) == sent


async def test_text_alongside_that_changes_is_counted_anew():
    transcript = Transcript.of([HI], KeepSystemAndRecent(max_tokens=18), Counting())
    assert await transcript.for_request(extra_text="x" * 12) == [HI]
    with pytest.raises(WindowTooSmall):
        await transcript.for_request(extra_text="x" * 13)
    assert await transcript.for_request(extra_text="x" * 12) == [HI]


async def test_each_message_of_a_long_conversation_is_counted_once_over_many_turns():
    counter = Counting()
    old = [Message.user(f"old {number}") for number in range(1000)]
    transcript = Transcript.of([SYSTEM, *old], KeepSystemAndRecent(max_tokens=500), counter)
    for number in range(100):
        question = Message.user(f"question {number}")
        await transcript.append(question)
        for _ in range(3):
            await transcript.for_request(extra_text="tools", pinned=question)
        await transcript.append(Message.assistant(f"answer {number}"))
    assert set(counter.seen.values()) == {1}
    assert {f"answer {number}" for number in range(99)} < counter.seen.keys()


# ---- what is pinned
# --------------------------------------------------------------------------------------

QUESTION = Message.user("question")
STEPS = [Message.assistant("", [ToolCall("a", "f")]), Message.tool("done", "a")]


async def test_a_pinned_question_that_is_in_the_window_is_not_doubled():
    transcript = Transcript.of([SYSTEM, QUESTION, *STEPS], KeepSystemAndRecent(max_messages=3))
    assert await transcript.for_request(pinned=QUESTION) == [SYSTEM, QUESTION, *STEPS]


async def test_a_pinned_question_that_the_window_has_moved_past_stands_behind_the_system_messages():
    messages = [QUESTION, SYSTEM, *STEPS, Message.system("be kind")]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_messages=2))
    await transcript.set_summary("they met")
    assert await transcript.for_request(pinned=QUESTION) == [
        SYSTEM,
        Message.system("be kind"),
        told("they met"),
        QUESTION,
        *STEPS,
    ]


async def test_a_pinned_question_that_was_summarized_is_sent_as_it_was_said():
    transcript = Transcript.of([QUESTION, *STEPS])
    await transcript.set_summary("they met", until=1)
    assert await transcript.for_request(pinned=QUESTION) == [told("they met"), QUESTION, *STEPS]


async def test_what_is_pinned_takes_room_from_the_newest_messages():
    # The question takes 12 tokens, the others 6, 9 and 8.
    messages = [QUESTION, HI, HELLO, MORE]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_tokens=23), Counting())
    assert await transcript.for_request() == [HI, HELLO, MORE]
    assert await transcript.for_request(pinned=QUESTION) == [QUESTION, MORE]


async def test_what_is_pinned_counts_as_a_message_where_all_messages_do():
    transcript = Transcript.of([QUESTION, HI, HELLO, MORE], DropOldest(max_messages=2))
    assert await transcript.for_request(pinned=QUESTION) == [QUESTION, MORE]


async def test_where_the_pinned_question_and_the_newest_exchange_do_not_fit_together_that_is_an_error():
    transcript = Transcript.of([QUESTION, HI], KeepSystemAndRecent(max_tokens=17), Counting())
    assert await transcript.for_request() == [HI]
    with pytest.raises(WindowTooSmall):
        await transcript.for_request(pinned=QUESTION)


async def test_of_two_equal_questions_the_one_in_the_window_is_enough():
    messages = [QUESTION, HELLO, QUESTION, *STEPS]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_messages=3))
    assert await transcript.for_request(pinned=QUESTION) == [QUESTION, *STEPS]


async def test_of_two_equal_questions_outside_of_the_window_one_is_sent():
    messages = [QUESTION, HELLO, QUESTION, *STEPS]
    transcript = Transcript.of(messages, KeepSystemAndRecent(max_messages=2))
    assert await transcript.for_request(pinned=QUESTION) == [QUESTION, *STEPS]


# ---- the summary
# -----------------------------------------------------------------------------------------


def told(summary):
    return Message.system(
        f"Summary of the conversation before the messages that follow:\n{summary}"
    )


async def test_a_summary_stands_for_the_messages_before_it_behind_the_system_messages():
    transcript = Transcript.of([HI, SYSTEM, HELLO, MORE])
    await transcript.set_summary("they met", until=3)
    assert await transcript.for_request() == [SYSTEM, told("they met"), MORE]
    assert await transcript.summary() == "they met"
    assert (await transcript.history()).messages == (HI, SYSTEM, HELLO, MORE)


async def test_without_the_summary_all_messages_are_shown_and_new_ones_too():
    transcript = Transcript.of([HI, HELLO, MORE])
    await transcript.set_summary("they met", until=2)
    assert await transcript.for_request(include_summary=False) == [HI, HELLO, MORE]
    await transcript.append(HI)
    assert await transcript.for_request(include_summary=False) == [HI, HELLO, MORE, HI]
    assert await transcript.for_request() == [told("they met"), MORE, HI]


async def test_a_summary_that_stands_for_nothing_can_be_left_out():
    transcript = Transcript.of([HI])
    await transcript.set_summary("they met")
    assert await transcript.for_request(include_summary=False) == [HI]
    assert await transcript.for_request() == [told("they met"), HI]


async def test_a_new_text_stands_for_the_same_messages_and_an_empty_one_for_none():
    store = journal(HI, HELLO, MORE)
    transcript = Transcript(store, "s")
    await transcript.set_summary("they met", until=2)
    await transcript.set_summary("they said hello")
    assert await transcript.for_request() == [told("they said hello"), MORE]
    await transcript.set_summary("")
    assert await transcript.for_request() == [HI, HELLO, MORE]
    assert await transcript.summary() == ""
    assert (await store.read("s"))[-1] == (5, SummaryRecord("", 0))


async def test_a_summary_takes_room():
    transcript = Transcript.of([HI, MORE], KeepSystemAndRecent(max_tokens=100), Counting())
    await transcript.set_summary("x" * 21)
    for _ in range(3):
        assert await transcript.for_request() == [told("x" * 21), HI, MORE]
        assert await transcript.for_request(reserve_tokens=1) == [told("x" * 21), MORE]


async def test_a_summary_is_not_written_over_what_the_writer_has_not_seen():
    transcript = Transcript.of([HI])
    with pytest.raises(SessionConflict):
        await transcript.set_summary("they met", expected=0)
    assert await transcript.summary() == ""
    await transcript.set_summary("they met", expected=(await transcript.info()).records)
    assert await transcript.summary() == "they met"


# ---- after a crash
# ---------------------------------------------------------------------------------------

CALLS = Message.assistant("", [ToolCall("a", "f"), ToolCall("b", "g")])
RESULT = Message.tool("done", "a")
STARTED = CallStartedRecord("b", "g")


def journal(*messages, behind=()):
    return MemoryStore({"s": [*map(MessageRecord, messages), *behind]})


@pytest.mark.parametrize("noise", [0, 1, 40])
@pytest.mark.parametrize("answered", [(), (RESULT,)])
async def test_calls_that_a_killed_program_left_open_get_a_result_that_says_so(answered, noise):
    store = journal(*[HI] * 50, CALLS, *answered, behind=[STARTED] * noise)
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


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [SYSTEM],
        [HI],
        [HI, HELLO],
        [CALLS, RESULT, Message.tool("x", "b")],
        [CALLS, RESULT, Message.tool("x", "b"), HI],
    ],
)
async def test_where_the_newest_exchange_lacks_no_result_nothing_is_written(messages):
    store = journal(*messages)
    await Transcript(store, "s").close_open_calls()
    assert (await store.info("s")).records == len(messages)


async def test_closing_twice_writes_once():
    store = journal(CALLS)
    for _ in range(2):
        await Transcript(store, "s").close_open_calls()
    assert (await store.info("s")).records == 3


async def test_older_problems_are_left_to_the_repair_of_the_history():
    old = Message.assistant("", [ToolCall("old", "f")])
    transcript = Transcript(journal(old, HI, CALLS, RESULT), "s")
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


async def test_a_reading_that_failed_before_does_not_hide_the_open_calls():
    class FailsOnce(MemoryStore):
        left = 3

        async def read(self, *given, **named):
            self.left -= 1
            if self.left == 0:
                raise asyncio.CancelledError
            return await super().read(*given, **named)

    for at in (1, 2):
        store = FailsOnce({"s": [MessageRecord(CALLS)]})
        store.left = at
        transcript = Transcript(store, "s")
        with pytest.raises(asyncio.CancelledError):
            await transcript.close_open_calls()
        await transcript.close_open_calls()
        assert (await transcript.history()).check_history() == []


async def test_a_sound_history_is_not_repaired():
    store = journal(HI, CALLS, RESULT, Message.tool("x", "b"))
    assert await Transcript(store, "s").repair_history() == []
    assert (await store.info("s")).records == 4


async def test_a_repair_is_not_written_if_the_journal_grew_meanwhile():
    class Grows(MemoryStore):
        async def read(self, *given, **named):
            found = await super().read(*given, **named)
            await self.append("s", MessageRecord(Message.tool("late", "a")))
            return found

    store = Grows({"s": [MessageRecord(CALLS)]})
    for repair in (Transcript(store, "s").repair_history, Transcript(store, "s").close_open_calls):
        with pytest.raises(SessionConflict):
            await repair()
    assert {each.kind for _, each in await MemoryStore.read(store, "s")} == {"message", "call"}


# ---- ids of calls
# ----------------------------------------------------------------------------------------


async def test_a_wanted_call_id_is_given_once_and_taken_ones_are_replaced():
    transcript = Transcript.of(
        [Message.assistant("", [ToolCall("a", "f"), ToolCall("call_3", "f")])]
    )
    ids = [await unused(transcript, wanted) for wanted in ("b", "b", "a", "", "", "call_3")]
    assert ids[0] == "b"
    assert all(ids)
    assert len({*ids, "a", "call_3"}) == len(ids) + 2


async def test_an_id_that_another_writer_used_is_not_given_out():
    store = MemoryStore({"s": []})
    transcript = Transcript(store, "s")
    await Transcript(store, "s").append(Message.assistant("", [ToolCall("call_1", "f")]))
    assert await unused(transcript) != "call_1"
    assert await unused(transcript, "call_1") != "call_1"


async def test_an_id_is_not_given_out_that_stands_where_nobody_has_read():
    first = Message.assistant("", [ToolCall("a", "f"), ToolCall("call_3", "f")])
    transcript = Transcript.of([first, *[HI] * 10_000], KeepSystemAndRecent(max_messages=1))
    await transcript.for_request()
    assert await unused(transcript, "a") == "call_4"
    assert await unused(transcript, "call_3") == "call_5"


async def test_ids_that_a_summary_or_a_repair_has_put_out_of_sight_are_taken_all_the_same():
    repair = RepairRecord(((1, Message.assistant("", [ToolCall("a-2", "f")])),), (1,))
    calls = [Message.assistant("", [ToolCall("a", "f")])] * 2
    store = journal(*calls, HI, HI, behind=[repair, SummaryRecord("they met", 3)])
    transcript = Transcript(store, "s")
    assert await unused(transcript, "a") not in ("a", "a-2")
    assert await unused(transcript, "a-2") not in ("a", "a-2")


# ---- several at once
# -------------------------------------------------------------------------------------


async def test_a_session_that_is_not_there_is_named():
    transcript = Transcript(MemoryStore(), "s")
    for ask in (transcript.for_request(), transcript.history(), transcript.append(HI)):
        with pytest.raises(SessionNotFound, match="Unknown session 's'"):
            await ask


class Yielding(MemoryStore):
    """Lets others run while it reads, as a database does."""

    async def read(self, *given, **named):
        records = await super().read(*given, **named)
        await asyncio.sleep(0)
        return records


async def test_many_readers_at_once_see_each_message_once():
    store = Yielding({"s": map(MessageRecord, [HI] * 100)})
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


async def test_two_transcripts_of_one_store_show_the_same_whatever_either_writes():
    store = MemoryStore({"s": map(MessageRecord, [CALLS, RESULT, HI, HELLO] * 20)})
    mine, other = (Transcript(store, "s", KeepSystemAndRecent(max_messages=30)) for _ in range(2))
    for number in range(40):
        writer = (mine, other)[number % 2]
        if number % 10 == 3:
            await writer.set_summary(f"summary {number}", until=60 + number)
        elif number % 10 == 6:
            await writer.repair_history()
        else:
            await writer.append(Message.user(f"message {number}"))
        fresh = Transcript(store, "s", KeepSystemAndRecent(max_messages=30))
        assert await mine.for_request() == await other.for_request() == await fresh.for_request()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_transcript_goes_on_in_another_event_loop(kind, tmp_path):
    store = Yielding() if kind == "memory" else SqliteStore(tmp_path / "s.db")
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


def test_a_run_that_was_cut_off_with_its_event_loop_does_not_lock_the_transcript_for_ever():
    transcript = Transcript.of([HI])

    async def never_released():
        await transcript.lock.acquire()

    async def go_on():
        async with transcript.lock:
            return await transcript.for_request()

    asyncio.run(never_released())
    assert asyncio.run(go_on()) == [HI]


class Slow(MemoryStore):
    """Writes, and then takes its time to say so, as a database does; says when it has begun."""

    def __init__(self, journals):
        super().__init__(journals)
        self.writing, self.go_on = asyncio.Event(), asyncio.Event()

    async def append(self, session_id, *records, expected=None):
        self.writing.set()
        await self.go_on.wait()
        return await super().append(session_id, *records, expected=expected)


@pytest.mark.parametrize("times", [1, 2])
async def test_who_is_cancelled_while_a_message_is_added_stops_after_it_was_added(times):
    store = Slow({"s": []})
    transcript = Transcript(store, "s")
    done = []

    async def add():
        done.append(await transcript.append(HI))
        await asyncio.sleep(0)
        done.append("went on")

    task = asyncio.ensure_future(add())
    await store.writing.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [1]
    assert (await transcript.history()).messages == (HI,)


async def test_a_time_limit_that_runs_out_while_a_message_is_added_is_still_a_time_limit():
    store = Slow({"s": []})
    transcript = Transcript(store, "s")

    async def add_in_no_time():
        async with asyncio.timeout(0):
            asyncio.get_running_loop().call_later(0.01, store.go_on.set)
            await transcript.append(HI)
            await asyncio.sleep(10)

    with pytest.raises(TimeoutError):
        await add_in_no_time()
    assert (await transcript.history()).messages == (HI,)


# ---- conflicts between writers
# ------------------------------------------------------------------------------

A, B = CallStartedRecord("a", "f"), CallStartedRecord("b", "f")


@pytest.mark.parametrize(
    "rival",
    [
        MessageRecord(Message.assistant("Hello.")),
        MessageRecord(CALLS),
        MessageRecord(RESULT),
        A,
        CallFinishedRecord("a", "completed"),
        ApprovalPendingRecord("a", "f", "{}"),
        RepairRecord(((0, RESULT),)),
    ],
    ids=lambda record: record.kind,
)
@pytest.mark.parametrize("own", [HELLO, RESULT, A], ids=["a reply", "a result", "a start"])
async def test_a_reply_or_progress_of_another_writer_is_a_conflict(rival, own):
    transcript = Transcript.of([HI, CALLS])
    await transcript.store.append("", rival)
    for _ in range(2):
        with pytest.raises(SessionConflict, match="Another writer continued the session"):
            await transcript.append(own, expected=2)
    assert (await transcript.info()).records == 3


async def test_the_same_record_of_another_writer_is_a_conflict():
    transcript = Transcript.of([HI, CALLS])
    await transcript.store.append("", A)
    with pytest.raises(SessionConflict):
        await transcript.append(A, expected=2)


async def test_user_messages_variables_and_summaries_of_others_are_no_conflict():
    transcript = Transcript.of([HI, CALLS])
    others = [
        MessageRecord(MORE),
        VariableRecord(1),
        VariableDeletedRecord("var_1"),
        SummaryRecord("they met"),
    ]
    await transcript.store.append("", *others)
    assert await transcript.append(A, RESULT, expected=2) == 8
    assert [record for _, record in await transcript.store.read("", 6)] == [
        A,
        MessageRecord(RESULT),
    ]


async def test_a_session_that_was_deleted_and_created_anew_is_a_conflict():
    transcript = Transcript(journal(HI, CALLS), "s")
    await transcript.store.delete("s")
    await transcript.store.create("s")
    with pytest.raises(SessionConflict):
        await transcript.append(A, expected=2)


class Interrupted(MemoryStore):
    """Its first append is cancelled, before or after the write; another writer may append then."""

    def __init__(self, journals, *, writes, rival=()):
        super().__init__(journals)
        self.writes, self.rival, self.interrupted = writes, rival, False

    async def append(self, session_id, *records, expected=None):
        first, self.interrupted = not self.interrupted, True
        if first and not self.writes:
            await self.interrupt(session_id)
        length = await super().append(session_id, *records, expected=expected)
        if first:
            await self.interrupt(session_id)
        return length

    async def interrupt(self, session_id):
        await super().append(session_id, *self.rival)
        asyncio.current_task().cancel()  # as asyncio.run does when it ends
        await asyncio.sleep(0)


@pytest.mark.parametrize("writes", [True, False], ids=["after it wrote", "before it wrote"])
@pytest.mark.parametrize(
    "rival", [(), (VariableRecord(1),)], ids=["alone", "beside another writer"]
)
@pytest.mark.parametrize("own", [[A], [MessageRecord(RESULT)], [MessageRecord(HI)] * 2])
async def test_an_interrupted_append_adds_each_record_once(own, rival, writes):
    first = MessageRecord(CALLS)
    store = Interrupted({"s": [first]}, writes=writes, rival=rival)
    transcript = Transcript(store, "s")
    await transcript.for_request()
    length = await transcript.append(*own, expected=1)
    assert store.interrupted
    found = [record for _, record in await store.read("s")]
    assert found == ([first, *own, *rival] if writes else [first, *rival, *own])
    assert length == (1 + len(own) if writes else len(found))
    assert await transcript.for_request() == await Transcript(store, "s").for_request()


async def test_an_interrupted_append_is_a_conflict_if_another_writer_replied():
    store = Interrupted({"s": []}, writes=False, rival=[MessageRecord(HELLO)])
    with pytest.raises(SessionConflict):
        await Transcript(store, "s").append(Message.assistant("Hi."), expected=0)
    assert (await store.info("s")).records == 1


@pytest.mark.parametrize("writes", [True, False])
async def test_an_interrupted_append_without_expected_is_not_repeated(writes):
    store = Interrupted({"s": []}, writes=writes)
    with pytest.raises(asyncio.CancelledError):
        await Transcript(store, "s").append(HI)
    assert (await store.info("s")).records == writes


# ---- messages without waiting
# ------------------------------------------------------------------------------


async def test_a_transcript_in_memory_has_its_messages_without_waiting(tmp_path):
    transcript = Transcript.of([SYSTEM, CALLS, MORE, RESULT])
    assert transcript.messages == (await transcript.history()).messages
    with pytest.raises(ValueError, match="Use await history"):
        _ = Transcript(SqliteStore(tmp_path / "s.db"), "s").messages
