"""A process that is killed while it writes keeps all acknowledged records, and none partially.

The moments are random; KILL_SEED=… in the environment repeats a run that printed it.
"""

import json
import os
import random
import signal
from collections import Counter
from itertools import chain

import pytest

from stage0_gateway import Message
from stage1_context import ContextEngine, KeepSystemAndRecent, MessageHistory, SessionNotFound
from stage1_context.journal import record_to_json
from tests.real.locations import damage, settled, store_at, writing_process

pytestmark = pytest.mark.real
KILLS, LATEST = 200, 0.05  # seconds after the start, or after the first write
KILLS_IN_A_SESSION = 10
SEED = int(os.environ.get("KILL_SEED") or random.randrange(1_000_000))


class Reader:
    """Reads the records that a killed process left, repairs the session and continues it."""

    def __init__(self, location):
        self.location, self.store = location, store_at(location)
        self._known = {}  # the records of each session at the last check

    async def check(self, session, report):
        """Compare the reports of a process with its records; return counts."""
        assert report["ended_by"] == signal.SIGKILL, "the writer ended unexpectedly; see its stderr"
        started, done = report["started"], report["done"]
        assert len(started) - done in (0, 1)
        acknowledged = [*self._known.get(session, []), *chain.from_iterable(started[:done])]
        stored = await self.records(session)
        assert stored[: len(acknowledged)] == acknowledged
        more = stored[len(acknowledged) :]
        assert more in ([], [*chain.from_iterable(started[done:])])
        problems = await self._resume(session) if stored else []
        return Counter(
            {
                "appends acknowledged": done,
                "in the middle of an append": len(started) - done,
                "which was kept": bool(more),
                "left a call without a result": bool(problems),
                "before anything was written": not done,
            }
        )

    async def reopen(self):
        """Close the store, and use another one from now on."""
        await self.store.aclose()
        self.store = store_at(self.location)

    async def _resume(self, session):
        """Repair a session and add a message; return the problems that were repaired."""
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
        """Return the sessions that have changed since the last check."""
        return [
            session
            for session, known in self._known.items()
            if await self.records(session) != known
        ]

    async def records(self, session):
        """Return all records of a session as JSON values."""
        try:
            entries = await self.store.read(session)
        except SessionNotFound:
            return []
        assert [index for index, _ in entries] == list(range(len(entries)))
        return [json.loads(record_to_json(record)) for _, record in entries]


async def test_a_killed_process_loses_no_acknowledged_record(kind, fresh, say):
    chance, tally = random.Random(SEED), Counter()
    with writing_process() as ask:
        grown = Reader(await fresh())
        for kill in range(KILLS):
            reader = Reader(await fresh()) if kill % 5 == 0 else grown
            session = f"session {kill // KILLS_IN_A_SESSION}"
            report = ask(
                "write_until_killed",
                location=reader.location,
                session=session,
                seed=kill,
                **moment(chance),
            )
            await settled(reader.location)
            tally += await reader.check(session, report)
            assert damage(reader.location) == []
            if reader is not grown or chance.random() < 0.2:
                await reader.reopen()  # the next process finds a closed file without a log
        assert await grown.lost() == []
        await grown.store.aclose()
    say(f"{kind}: KILL_SEED={SEED}, {KILLS} kills: {dict(tally)}")
    assert tally["in the middle of an append"] >= KILLS // 5
    assert tally["left a call without a result"] >= KILLS // 20
    assert tally["before anything was written"] <= KILLS // 2


def moment(chance):
    """Return a random moment for the kill."""
    return {
        "delay": chance.uniform(0, LATEST),
        "after": chance.choices(["start", "first write"], [1, 3])[0],
    }
