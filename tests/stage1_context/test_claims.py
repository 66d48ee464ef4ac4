import asyncio

import pytest

from stage0_gateway import Message, ToolCall
from stage1_context import (
    CallStartedRecord,
    MemoryStore,
    MessageRecord,
    RepairRecord,
    SessionConflict,
    SqliteStore,
    StoreFailed,
    Transcript,
    VariableRecord,
    VariableStore,
)
from stage1_context.claims import calls_of

A, B = CallStartedRecord("a", "f"), CallStartedRecord("b", "f")


def result_of(call_id, text="ok"):
    return MessageRecord(Message.tool(text, call_id))


@pytest.fixture
def transcript():
    return Transcript.of(
        [Message.user("Go."), Message.assistant("", [ToolCall("a", "f"), ToolCall("b", "f")])]
    )


@pytest.mark.parametrize(
    ("record", "calls"),
    [
        (A, {"a"}),
        (result_of("a"), {"a"}),
        (RepairRecord(((1, Message.tool("stopped", "a")), (1, Message.user("x")))), {"a"}),
        (MessageRecord(Message.user("hi")), set()),
        (VariableRecord(1), set()),
    ],
    ids=["begun", "answered", "closed", "a question", "a value"],
)
def test_what_a_record_says_of_calls(record, calls):
    assert calls_of(record) == calls


async def test_what_nobody_else_has_written_is_added(transcript):
    claims = transcript.claims(2)
    await claims.add(A)
    await claims.add(B, result_of("a"))
    assert (await transcript.info()).records == 5


@pytest.mark.parametrize(
    "rival", [A, result_of("a"), RepairRecord(((1, Message.tool("stopped", "a")),))]
)
@pytest.mark.parametrize("claimed", [A, result_of("a")], ids=["begin", "answer"])
async def test_whoever_comes_second_is_told_and_adds_nothing(transcript, rival, claimed):
    claims = transcript.claims(2)
    await transcript.store.append("", rival)
    for _ in range(2):
        with pytest.raises(SessionConflict, match="Somebody else goes on with these calls"):
            await claims.add(claimed, B)
    assert (await transcript.info()).records == 3


async def test_what_is_about_something_else_is_no_rival_and_not_forgotten(transcript):
    claims = transcript.claims(2)
    await transcript.store.append("", B, VariableRecord(1), MessageRecord(Message.user("hi")))
    await claims.add(A)
    with pytest.raises(SessionConflict):
        await claims.add(B)
    assert (await transcript.info()).records == 6


async def test_what_others_have_taken_may_be_left_out(transcript):
    claims = transcript.claims(2)
    await transcript.store.append("", result_of("a", "theirs"))
    await claims.add(result_of("a"), result_of("b"), skip=True)
    await claims.add(result_of("a"), skip=True)
    assert [each.text for each in list(await transcript.history())[2:]] == ["theirs", "ok"]


async def test_what_was_written_before_does_not_count(transcript):
    await transcript.store.append("", A)
    await transcript.claims(3).add(A)
    assert (await transcript.info()).records == 4


async def test_what_one_run_writes_at_once_is_no_rival_of_itself(tmp_path):
    store = SqliteStore(tmp_path / "sessions.db")
    await store.create("s")
    claims, ids = Transcript(store, "s").claims(0), [f"c{number}" for number in range(20)]
    await asyncio.gather(*(claims.add(CallStartedRecord(each, "f")) for each in ids))
    await asyncio.gather(*(claims.add(result_of(each)) for each in ids))
    assert (await store.info("s")).records == 40
    await store.aclose()


async def test_whoever_has_met_a_rival_begins_nothing_more(transcript):
    claims = transcript.claims(2)
    await transcript.store.append("", A)
    with pytest.raises(SessionConflict):
        await claims.add(A)
    with pytest.raises(SessionConflict):
        await claims.add(B)
    await claims.add(result_of("b"), skip=True)  # what was begun before is still answered
    assert (claims.lost, (await transcript.info()).records) == (True, 4)


class Breaking(MemoryStore):
    """Writes what it is given, and then the line breaks, once."""

    broken = False

    async def append(self, session_id, *records, expected=None):
        count = await super().append(session_id, *records, expected=expected)
        if not self.broken:
            self.broken = True
            raise StoreFailed("the line broke")
        return count


async def test_what_was_written_though_the_store_failed_is_no_rival():
    store = Breaking({"s": ()})
    claims = Transcript(store, "s").claims(0)
    with pytest.raises(StoreFailed):
        await claims.add(A)
    await claims.add(result_of("a"))
    assert (await store.info("s")).records == 2


class Slow(MemoryStore):
    """Takes a moment for everything."""

    async def append(self, session_id, *records, expected=None):
        await asyncio.sleep(0)
        return await super().append(session_id, *records, expected=expected)

    async def read(self, *args, **rest):
        await asyncio.sleep(0)
        return await super().read(*args, **rest)


@pytest.mark.parametrize("steps", range(6))
async def test_what_was_begun_to_be_added_is_added_however_often_somebody_cancels(steps):
    store = Slow({"s": (VariableRecord(1),)})
    adding = asyncio.create_task(Transcript(store, "s").claims(0).add(A))
    await asyncio.sleep(0)
    for _ in range(steps):
        adding.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({adding})
    assert (await store.info("s")).records == 2


# ---- appends that are interrupted
# -------------------------------------------------------------------------


class Interrupted(MemoryStore):
    """Its first append is cancelled, before or after it has written; a rival may write at the same
    moment."""

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


GO_ON = Message.user("Go on.")
ADDED = {
    "begin a call": (lambda transcript: transcript.claims(1).add(A), [A]),
    "answer a call": (
        lambda transcript: transcript.claims(1).add(result_of("a")),
        [result_of("a")],
    ),
    "reply": (
        lambda transcript: transcript.append(GO_ON, GO_ON, seen=1),
        [MessageRecord(GO_ON)] * 2,
    ),
}


@pytest.mark.parametrize("writes", [True, False], ids=["after it wrote", "before it wrote"])
@pytest.mark.parametrize(
    "rival", [(), (VariableRecord(1),)], ids=["alone", "beside another writer"]
)
@pytest.mark.parametrize(("add", "added"), ADDED.values(), ids=ADDED)
async def test_an_interrupted_append_adds_each_record_once(add, added, rival, writes):
    first = MessageRecord(Message.user("Go."))
    store = Interrupted({"s": [first]}, writes=writes, rival=rival)
    transcript = Transcript(store, "s")
    await transcript.for_request()
    await add(transcript)
    assert store.interrupted
    found = [record for _, record in await store.read("s")]
    assert found == ([first, *added, *rival] if writes else [first, *rival, *added])
    assert await transcript.for_request() == await Transcript(store, "s").for_request()


@pytest.mark.parametrize("writes", [True, False])
async def test_an_interrupted_append_says_how_long_the_journal_was_behind_it(writes):
    store = Interrupted({"s": []}, writes=writes, rival=[VariableRecord(1)] * 3)
    assert await Transcript(store, "s").append(GO_ON, GO_ON, seen=0) == (2 if writes else 5)


async def test_an_interrupted_reply_is_a_conflict_where_another_writer_replied():
    rival = (MessageRecord(Message.assistant("Hello.")),)
    store = Interrupted({"s": []}, writes=False, rival=rival)
    with pytest.raises(SessionConflict, match="a reply was added to it elsewhere"):
        await Transcript(store, "s").append(Message.assistant("Hi."), seen=0)
    assert (await store.info("s")).records == 1


async def test_an_interrupted_result_is_left_out_where_another_writer_answered():
    rival = (result_of("a", "theirs"),)
    store = Interrupted({"s": []}, writes=False, rival=rival)
    claims = Transcript(store, "s").claims(0)
    await claims.add(result_of("a"), result_of("b"), skip=True)
    assert [each for _, each in await store.read("s")] == [*rival, result_of("b")]


@pytest.mark.parametrize("writes", [True, False])
async def test_an_interrupted_message_that_may_stand_anywhere_is_not_added_twice(writes):
    store = Interrupted({"s": []}, writes=writes)
    with pytest.raises(asyncio.CancelledError):
        await Transcript(store, "s").append(GO_ON)
    assert (await store.info("s")).records == writes


async def test_an_interrupted_note_is_added():
    store = Interrupted({"s": []}, writes=False)
    await Transcript(store, "s").note(A, B)
    assert await store.read("s") == [(0, A), (1, B)]


class Echoing(Interrupted):
    """A rival that adds the same message as this writer, twice, at the worst moments."""

    echoes = 2

    async def append(self, session_id, *records, expected=None):
        if self.interrupted and self.echoes:
            self.echoes -= 1
            await MemoryStore.append(self, session_id, *records)
        return await super().append(session_id, *records, expected=expected)


async def test_an_interrupted_message_is_not_mistaken_for_the_same_one_of_another_writer():
    store = Echoing({"s": []}, writes=False, rival=[VariableRecord(1)])
    assert await Transcript(store, "s").append(GO_ON, seen=0) == 4


async def test_a_call_that_another_run_begins_after_an_interrupted_beginning_is_theirs():
    store = Interrupted({"s": []}, writes=False)
    claims = Transcript(store, "s").claims(0)
    await claims.add(A)
    await store.append("s", A)  # they take this run for dead
    with pytest.raises(SessionConflict):
        await claims.add(result_of("a"))


async def test_so_is_one_whose_interrupted_beginning_was_refused():
    store = Interrupted({"s": []}, writes=False, rival=[A])
    claims = Transcript(store, "s").claims(0)
    with pytest.raises(SessionConflict):
        await claims.add(B, result_of("a"))
    await store.append("s", B)
    await claims.add(result_of("b"), skip=True)
    assert [each for _, each in await store.read("s")] == [A, B]


async def test_an_interrupted_variable_has_the_id_that_leads_to_its_value():
    store = Interrupted({"s": []}, writes=True)
    variables = VariableStore(store)
    assert await variables.get("s", await variables.put("s", {"x": 1})) == {"x": 1}


async def test_a_run_adds_one_result_for_a_call_however_often_it_adds_one(transcript):
    claims = transcript.claims(2)
    for text in ("completed", "interrupted"):
        await claims.add(result_of("a", text), skip=True)
        await claims.add(result_of("a", text))
    assert [each.text for each in list(await transcript.history())[2:]] == ["completed"]


# ---- replies
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rival",
    [
        Message.assistant("Hello."),
        Message.assistant("", [ToolCall("c", "f")]),
        Message.tool("ok", "a"),
    ],
    ids=["a reply", "calls", "a result"],
)
async def test_a_reply_is_not_added_where_somebody_else_has_replied(transcript, rival):
    await transcript.store.append("", MessageRecord(rival))
    with pytest.raises(SessionConflict, match="a reply was added to it elsewhere"):
        await transcript.append(Message.assistant("Hi."), seen=2)
    assert (await transcript.info()).records == 3


async def test_what_people_say_and_what_is_put_aside_meanwhile_is_no_conflict(transcript):
    await transcript.store.append("", MessageRecord(Message.user("Hurry.")), VariableRecord(1))
    assert await transcript.append(Message.assistant("Hi."), seen=2) == 5
    assert [each.text for each in await transcript.history()][2:] == ["Hurry.", "Hi."]
