"""A process that is killed while it writes loses nothing it acknowledged, and leaves nothing half
written.

The moments are drawn anew each time; KILL_SEED=… in the environment draws those of a run that
printed it again.
"""

import importlib.util
import json
import os
import random
import signal
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from stage0_gateway import Message
from stage1_context import ContextEngine, KeepSystemAndRecent, MessageHistory, SessionNotFound
from stage1_context.journal import record_to_json

pytestmark = pytest.mark.real
KILLS, LATEST = 200, 0.05  # seconds after the start, or after the first write
KILLS_IN_A_SESSION = 10
SEED = int(os.environ.get("KILL_SEED") or random.randrange(1_000_000))

_spec = importlib.util.spec_from_file_location("places", Path(__file__).with_name("places.py"))
places = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(places)


class Reader:
    """Looks at what a killed process left, repairs it and goes on with it."""

    def __init__(self, place):
        self.place, self.store = place, places.store_at(place)
        self._known = {}  # what each session held when it was looked at last

    async def check(self, session, told):
        """Compare what a process said with what is there; gives what there is to count."""
        assert told["ended_by"] == signal.SIGKILL, "the writer ended by itself; its stderr says why"
        begun, done = told["begun"], told["done"]
        assert len(begun) - done in (0, 1)
        acknowledged = [*self._known.get(session, []), *chain.from_iterable(begun[:done])]
        there = await self.records(session)
        assert there[: len(acknowledged)] == acknowledged
        more = there[len(acknowledged) :]
        assert more in ([], [*chain.from_iterable(begun[done:])])
        problems = await self._go_on(session) if there else []
        return Counter(
            {
                "appends acknowledged": done,
                "in the middle of an append": len(begun) - done,
                "which was kept": bool(more),
                "left a call without a result": bool(problems),
                "before anything was written": not done,
            }
        )

    async def _go_on(self, session):
        """Repair a session and say something in it; gives what was wrong with it."""
        engine = ContextEngine(store=self.store, window=KeepSystemAndRecent(max_tokens=4000))
        before = await self.records(session)
        problems = await engine.repair_history(session)
        assert (await engine.history(session)).check_history() == []
        await engine.add_message(session, Message.user("Go on."))
        shown = await engine.messages_for_request(session)
        assert MessageHistory(shown).check_history() == []
        assert shown[-1] == Message.user("Go on.")
        self._known[session] = now = await self.records(session)
        assert now[: len(before)] == before
        unanswered = sum(each.startswith("call without") for each in problems)
        assert len(now) - len(before) == unanswered + 1
        return problems

    async def lost(self):
        """The sessions that are not what they were when they were looked at last."""
        return [
            session
            for session, known in self._known.items()
            if await self.records(session) != known
        ]

    async def records(self, session):
        """All records of a session in their form in JSON."""
        try:
            entries = await self.store.read(session)
        except SessionNotFound:
            return []
        assert [index for index, _ in entries] == list(range(len(entries)))
        return [json.loads(record_to_json(record)) for _, record in entries]


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request):
    return request.param


async def test_a_killed_process_loses_nothing_that_it_acknowledged(kind, tmp_path, say):
    chance, tally = random.Random(SEED), Counter()
    with places.fresh_places(kind, tmp_path) as fresh, places.writing_process() as ask:
        grown = Reader(await fresh())
        for kill in range(KILLS):
            reader = Reader(await fresh()) if kill % 5 == 0 else grown
            session = f"session {kill // KILLS_IN_A_SESSION}"
            told = ask(
                "write_until_killed",
                place=reader.place,
                session=session,
                seed=kill,
                **moment(chance),
            )
            await places.settled(reader.place)
            tally += await reader.check(session, told)
            assert places.damage(reader.place) == []
            if reader is not grown or chance.random() < 0.2:
                await (
                    reader.store.aclose()
                )  # the next process finds nobody at the file, and its log folded in
        assert await grown.lost() == []
        await grown.store.aclose()
    say(f"{kind}: KILL_SEED={SEED}, {KILLS} kills: {dict(tally)}")
    assert tally["in the middle of an append"] >= KILLS // 5
    assert tally["left a call without a result"] >= KILLS // 20
    assert tally["before anything was written"] <= KILLS // 2


def moment(chance):
    """When to kill."""
    return {
        "delay": chance.uniform(0, LATEST),
        "after": chance.choices(["start", "first write"], [1, 3])[0],
    }
