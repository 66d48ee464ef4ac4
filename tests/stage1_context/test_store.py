import pytest

from stage0_gateway import Message
from stage1_context import MemoryStore, MessageRecord, SessionExists, SessionNotFound

ONE, TWO, THREE = (MessageRecord(Message.user(text)) for text in ("one", "two", "three"))


async def test_a_journal_grows_and_says_how_long_it_is():
    store = MemoryStore()
    await store.create("s")
    assert await store.append("s", ONE) == 1
    assert await store.append("s", TWO, THREE) == 3
    assert await store.append("s") == 3
    assert await store.read("s") == [ONE, TWO, THREE]


async def test_a_journal_is_read_on_from_an_index():
    store = MemoryStore({"s": [ONE, TWO, THREE]})
    assert [await store.read("s", start) for start in (1, 3, 9)] == [[TWO, THREE], [], []]


async def test_journals_are_kept_apart():
    store = MemoryStore()
    await store.create("a")
    await store.create("b")
    await store.append("a", ONE)
    assert await store.read("b") == []


async def test_what_is_handed_in_or_out_is_a_copy():
    given = [ONE]
    store = MemoryStore({"s": given})
    given.append(TWO)
    (await store.read("s")).append(THREE)
    assert await store.read("s") == [ONE]


async def test_an_id_that_is_taken_is_refused_and_its_journal_left_alone():
    store = MemoryStore({"s": [ONE]})
    with pytest.raises(
        SessionExists, match=r"There is a session 's' already\. Use it, or choose another id\."
    ):
        await store.create("s")
    assert await store.read("s") == [ONE]


@pytest.mark.parametrize(
    ("ids", "named"),
    [([], "none yet"), (["a", "b"], "'a', 'b'"), (list("abcdefg"), "'c', 'd', 'e', 'f', 'g'")],
    ids=["none", "some", "many"],
)
async def test_an_unknown_session_is_answered_with_those_there_are(ids, named):
    store = MemoryStore({id: [] for id in ids})
    text = f"There is no session 'x'. Sessions: {named}. Create one with create_session()."
    for ask in (store.read("x"), store.append("x", ONE)):
        with pytest.raises(SessionNotFound) as caught:
            await ask
        assert str(caught.value) == text
