"""Many processes write to one session at once: nothing is lost, nothing is doubled, nothing is
mixed."""

import importlib.util
from itertools import groupby
from pathlib import Path

import pytest

from stage0_gateway import Message
from stage1_context.journal import MessageRecord

pytestmark = pytest.mark.real
WRITERS, MESSAGES = 32, 1000
MADE_AT_ONCE = 50

_spec = importlib.util.spec_from_file_location("places", Path(__file__).with_name("places.py"))
places = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(places)


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(request, tmp_path):
    with places.fresh_places(request.param, tmp_path) as fresh:
        yield fresh


async def test_many_processes_write_to_one_session_and_each_message_is_there_once(fresh):
    place = await fresh()
    with places.writing_process() as ask:
        ended = ask("write_together", place=place, session="s", writers=WRITERS, messages=MESSAGES)
    assert ended == [0] * WRITERS
    store = places.store_at(place)
    entries = await store.read("s")
    await store.aclose()
    assert [index for index, _ in entries] == list(range(MESSAGES))
    texts = [record.message.text for _, record in entries]
    assert [record for _, record in entries] == [
        MessageRecord(Message.user(text)) for text in texts
    ]
    assert sorted(texts) == sorted(text for writer in range(WRITERS) for text in share(writer))
    assert appends_that_are_torn(texts) == []
    for writer in range(WRITERS):
        assert [text for text in texts if text.startswith(f"{writer} ")] == share(writer)


async def test_processes_that_make_the_same_tables_at_once_do_not_get_in_each_other_s_way(fresh):
    with places.writing_process() as ask:
        for _ in range(MADE_AT_ONCE):  # what goes wrong here goes wrong once in twenty times
            ended = ask("write_together", place=await fresh(), session="s", writers=3, messages=3)
            assert ended == [0, 0, 0]


def share(writer):
    """What a writer wrote, as writer.py tells it: "writer append part/of", one to four parts in an
    append."""
    texts, left, number = [], len(range(writer, MESSAGES, WRITERS)), 0
    while left:
        several = min(number % 4 + 1, left)
        texts += [f"{writer} {number} {part}/{several}" for part in range(1, several + 1)]
        left, number = left - several, number + 1
    return texts


def appends_that_are_torn(texts):
    """Runs of messages of one append that are not that append from its first part to its last."""
    runs = [list(run) for _, run in groupby(texts, lambda text: text.rsplit(" ", 1)[0])]
    return [run for run in runs if run[0].split()[2][:2] != "1/" or len(run) != int(run[0][-1])]
