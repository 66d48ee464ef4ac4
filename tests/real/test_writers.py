"""Many processes write to one session at once: no message is lost, duplicated or interleaved."""

from itertools import groupby

import pytest

from stage0_gateway import Message
from stage1_context.journal import MessageRecord
from tests.real.locations import store_at, writing_process

pytestmark = pytest.mark.real
WRITERS, MESSAGES = 32, 1000
REPETITIONS = 50


async def test_each_message_of_many_concurrent_writers_is_stored_once(fresh):
    location = await fresh()
    with writing_process() as ask:
        ended = ask(
            "write_concurrently", location=location, session="s", writers=WRITERS, messages=MESSAGES
        )
    assert ended == [0] * WRITERS
    store = store_at(location)
    entries = await store.read("s")
    await store.aclose()
    assert [index for index, _ in entries] == list(range(MESSAGES))
    texts = [record.message.text for _, record in entries]
    assert [record for _, record in entries] == [
        MessageRecord(Message.user(text)) for text in texts
    ]
    assert sorted(texts) == sorted(text for writer in range(WRITERS) for text in share(writer))
    assert torn_appends(texts) == []
    for writer in range(WRITERS):
        assert [text for text in texts if text.startswith(f"{writer} ")] == share(writer)


async def test_processes_can_create_the_same_tables_concurrently(fresh):
    with writing_process() as ask:
        for _ in range(REPETITIONS):  # a failure here occurs once in twenty times
            ended = ask(
                "write_concurrently", location=await fresh(), session="s", writers=3, messages=3
            )
            assert ended == [0, 0, 0]


def share(writer):
    """Return the messages of a writer, as in writer.py: "writer append part/of", one to four parts in
    an append."""
    texts, left, number = [], len(range(writer, MESSAGES, WRITERS)), 0
    while left:
        several = min(number % 4 + 1, left)
        texts += [f"{writer} {number} {part}/{several}" for part in range(1, several + 1)]
        left, number = left - several, number + 1
    return texts


def torn_appends(texts):
    """Return sequences of messages of one append that are not the complete append in order."""
    runs = [list(run) for _, run in groupby(texts, lambda text: text.rsplit(" ", 1)[0])]
    return [run for run in runs if run[0].split()[2][:2] != "1/" or len(run) != int(run[0][-1])]
