"""Many processes write to one session at once: no message is lost, duplicated or interleaved."""

import importlib.util
from itertools import groupby
from pathlib import Path

import pytest

from stage0_gateway import Message
from stage1_context.journal import MessageRecord

pytestmark = pytest.mark.real
WRITERS, MESSAGES = 32, 1000
MADE_AT_ONCE = 50

_spec = importlib.util.spec_from_file_location(
    "locations", Path(__file__).with_name("locations.py")
)
locations = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(locations)


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(request, tmp_path):
    with locations.fresh_locations(request.param, tmp_path) as fresh:
        yield fresh


async def test_each_message_of_many_concurrent_writers_is_stored_once(fresh):
    location = await fresh()
    with locations.writing_process() as ask:
        ended = ask(
            "write_together", location=location, session="s", writers=WRITERS, messages=MESSAGES
        )
    assert ended == [0] * WRITERS
    store = locations.store_at(location)
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
    with locations.writing_process() as ask:
        for _ in range(MADE_AT_ONCE):  # a failure here occurs once in twenty times
            ended = ask(
                "write_together", location=await fresh(), session="s", writers=3, messages=3
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
