"""A run that is killed at any of its steps is gone on with: nothing is lost, and nothing is done
twice.

The run has ten rounds, some of several calls that end in another order than they began. Where it is
killed is drawn anew each time; KILL_SEED=… in the environment draws those of a run that printed it
again.
"""

import asyncio
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path

import pytest

from stage0_gateway import Message
from stage1_context import MessageHistory, SqliteStore
from stage1_context.journal import CallStartedRecord, MessageRecord, RepairRecord

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not hasattr(os, "fork"), reason="there is no fork here, so every run would start anew"
    ),
]
EVERY = 4  # of so many neighbouring points one is taken
TIMED = 40
AT_ONCE = 2
UNKNOWN = """\
Error (interrupted): The program ended before this call had a result.
It may have happened, in whole or in part. Check before you ask for it again."""
SEED = int(os.environ.get("KILL_SEED") or random.randrange(1_000_000))

_spec = importlib.util.spec_from_file_location("places", Path(__file__).with_name("places.py"))
places = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(places)
ten_rounds = places.load("ten_rounds")


@dataclass
class Life:
    """One process that had the session.

    Attributes:
        ended_by: The signal that ended it, or 0.
        told: What came of it, where it came to its end.
        seconds: How long it took.
        journal: What the session held afterwards.
        traces: What its tools wrote.
    """

    ended_by: int
    told: dict | None
    seconds: float
    journal: list
    traces: list

    def calls(self, what):
        """The calls that had come so far in this life, as often as they had."""
        return Counter(trace["call"] for trace in self.traces if trace["what"] == what)

    @property
    def begun(self):
        """The calls that the journal says are begun, and their tools."""
        return {
            each.call_id: each.tool for each in self.journal if isinstance(each, CallStartedRecord)
        }

    @property
    def finished(self):
        """The calls of which the journal says how they ended."""
        return {ten_rounds.call_of(each) for each in self.journal if ten_rounds.is_outcome(each)}

    @property
    def in_flight(self):
        """The writes that may have happened."""
        return {call for call, tool in self.begun.items() if is_write(tool)} - self.finished


def is_write(tool):
    return ten_rounds.EFFECTS[tool] == "write"


# ---- runs
# --------------------------------------------------------------------------------------------------


@contextmanager
def starter():
    """Yields `start(…)`, which has `long_run.py` start a run and says what became of it."""
    command = [sys.executable, places.HERE / "long_run.py"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def start(**arguments):
            print(json.dumps(arguments), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            assert answer, "long_run.py ended by itself; what it wrote to stderr says why"
            return json.loads(answer)

        yield start


async def lives(start, folder, dialect, kills):
    """A session that one process after the other has: each is killed, and the last one comes to its
    end."""
    folder.mkdir()
    place, traces = folder / "sessions.db", folder / "traces"
    lived = []
    for number, kill in enumerate([*kills, {}]):
        given = {
            "place": str(place),
            "traces": str(traces),
            "dialect": dialect,
            "life": number,
            **kill,
        }
        became = await asyncio.to_thread(start, **given)
        journal = await journal_in(place, folder / f"{number}.db")
        left = (
            [json.loads(line) for line in traces.read_text().splitlines()]
            if traces.exists()
            else []
        )
        lived.append(
            Life(
                **became, journal=journal, traces=[each for each in left if each["life"] == number]
            )
        )
    return lived


async def journal_in(place, copy):
    """What a file holds, read from a copy: the next process should find what the killed one
    left."""
    for end in ("", "-wal"):
        if (part := Path(f"{place}{end}")).exists():
            shutil.copy(part, f"{copy}{end}")
    if not copy.exists():
        return []
    store = SqliteStore(copy)
    journal = await ten_rounds.journal_of(store)
    await store.aclose()
    return journal or []


# ---- what ought to come of them
# ----------------------------------------------------------------------------


def wrong_in(life, before, others):
    """What a process did that it should not have done, after what others had left."""
    begun, there = life.calls("begun"), before.journal if before else []
    finished, in_flight = (before.finished, before.in_flight) if before else (set(), set())
    late = {others[call] for call in life.calls("goes on")} & {*life.calls("ended")} - life.finished
    return {
        "ended by itself": life.ended_by if life.ended_by not in (0, signal.SIGKILL) else None,
        "the journal was changed": life.journal[: len(there)] != there,
        "begun twice": [call for call, times in begun.items() if times > 1],
        "begun before that was written": begun.keys() - life.begun.keys(),
        "ended, and that was not written while another call ran": late,
        "its outcome was there, and it was run again": begun.keys() & finished,
        "a write that was begun before was run again": begun.keys() & in_flight,
    }


def wrong_at_the_end(lived, calm):
    """What is not as it would be had nobody been killed, except for writes that may have
    happened."""
    last, perhaps = lived[-1], set().union(*(life.in_flight for life in lived[:-1]))
    history, wanted = messages(last), [but_perhaps(each, perhaps) for each in messages(calm)]
    reply = " ".join(ten_rounds.seen_in(each.text) for each in wanted if each.role == "tool")
    begun, ended = (
        sum((life.calls(what) for life in lived), Counter()) for what in ("begun", "ended")
    )
    keys = {(trace["call"], trace["key"]) for life in lived for trace in life.traces}
    unknown = perhaps & set(last.told["statuses"])
    return {
        "status": last.told["status"] != "completed" and last.told["status"],
        "reply": last.told["reply"] != reply and last.told["reply"],
        "history": [each for each in zip_longest(history[:-1], wanted[:-1]) if each[0] != each[1]],
        "last message": history[-1].text != reply and history[-1],
        "problems": MessageHistory(history).check_history(),
        "repaired": [each for each in last.journal if isinstance(each, RepairRecord)],
        "not said to be unknown": {
            call for call in unknown if last.told["statuses"][call] != "unknown_effect"
        },
        "said to be unknown": {
            call for call, status in last.told["statuses"].items() if status == "unknown_effect"
        }
        - unknown,
        "written twice": [
            call for call, tool in last.begun.items() if is_write(tool) and begun[call] > 1
        ],
        "never ended": last.begun.keys() - ended.keys() - perhaps,
        "another key": len(keys) != len(begun) and keys,
    }


def messages(life):
    return [each.message for each in life.journal if isinstance(each, MessageRecord)]


def but_perhaps(message, perhaps):
    """A message of a run that nobody killed, where these writes may have happened."""
    if message.tool_call_id not in perhaps:
        return message
    return Message.tool(UNKNOWN, message.tool_call_id, name=message.name, is_error=True)


def wrong(lived, calm, others):
    """All that is wrong with what came of a session, in words; empty if nothing is."""
    found = {}
    for number, life in enumerate(lived):
        before = lived[number - 1] if number else None
        found |= {
            f"life {number}: {what}": why for what, why in wrong_in(life, before, others).items()
        }
    found |= wrong_at_the_end(lived, calm) if lived[-1].told else {"no end": lived[-1].ended_by}
    return {what: why for what, why in found.items() if why}


# ---- the tests
# ---------------------------------------------------------------------------------------------


async def calm(folder, dialect):
    """What comes of a run that nobody kills, of which the others must not differ: the fastest of
    some."""
    with starter() as start:
        lived = [(await lives(start, folder / f"calm {each}", dialect, []))[0] for each in range(3)]
    for life in lived:
        assert life.told["unwritten"] == [], (
            "these had ended, and that was not written while another call ran"
        )
        assert wrong([life], lived[0], ten_rounds.others(dialect)) == {}
    return min(lived, key=lambda life: life.seconds)


async def try_all(folder, dialect, undisturbed, kills):
    """Kill runs like this, each one as a list says; returns what is wrong, and how often there was
    what."""
    left, found, tally = iter(enumerate(kills)), {}, Counter()

    async def work():
        with starter() as start:
            for number, each in left:
                at = folder / f"{number}"
                lived = await lives(start, at, dialect, each)
                found[str(each)] = wrong(lived, undisturbed, ten_rounds.others(dialect))
                found[f"{each}: damage"] = places.damage(str(at / "sessions.db"))
                tally.update(seen_of(lived))
                shutil.rmtree(at)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    return "\n".join(f"{kill}: {what}" for kill, what in found.items() if what), tally


def seen_of(lived):
    """What there was to be seen in these lives, to know whether the test looks at what it
    should."""
    killed = [life for life in lived if life.ended_by == signal.SIGKILL]
    open_calls = [life.begun.keys() - life.finished for life in killed]
    again = sum(
        after.calls("begun").keys() & before.begun.keys() != set()
        for before, after in pairwise(lived)
    )
    return {
        "kills": len(killed),
        "several calls in flight": sum(len(each) > 1 for each in open_calls),
        "writes in flight": sum(bool(life.in_flight) for life in killed),
        "ended out of order": sum(life.finished != results(life) for life in killed),
        "run again": again,
    }


def results(life):
    return {each.tool_call_id for each in messages(life)} - {None}


@pytest.mark.parametrize("dialect", ["native", "prompt"])
async def test_a_run_that_was_killed_at_a_step_is_gone_on_with_and_nothing_is_done_twice(
    dialect, tmp_path, say
):
    chance, undisturbed = random.Random(SEED), await calm(tmp_path, dialect)
    points = undisturbed.told["points"]
    kills = []
    for place in range(SEED % EVERY, len(points), EVERY):
        kills.append([{"kill_at": points[place]}])
        if chance.random() < 1 / 3:  # once more, while it is gone on with
            kills[-1].append({"kill_at": chance.randint(1, len(points) - place + 10)})
    found, tally = await try_all(tmp_path, dialect, undisturbed, kills)
    say(f"{dialect}: KILL_SEED={SEED}, {len(kills)} of {len(points)} points: {dict(tally)}")
    assert not found, found
    assert tally["kills"] >= len(kills)
    assert tally["writes in flight"] >= len(kills) // 20
    if dialect == "native":
        assert tally["ended out of order"] >= len(kills) // 20


@pytest.mark.parametrize("dialect", ["native", "prompt"])
async def test_so_is_one_that_was_killed_at_any_moment(dialect, tmp_path, say):
    chance, undisturbed = random.Random(SEED), await calm(tmp_path, dialect)
    kills = [[*moments(chance, undisturbed.seconds)] for _ in range(TIMED)]
    found, tally = await try_all(tmp_path, dialect, undisturbed, kills)
    say(f"{dialect}: KILL_SEED={SEED}, {dict(tally)}")
    assert not found, found
    assert tally["kills"] >= TIMED // 4


def moments(chance, longest):
    """When to kill: once, or once more while the run is gone on with."""
    yield {"delay": chance.uniform(0, longest * 0.8)}
    if chance.random() < 1 / 3:
        yield {"delay": chance.uniform(0, longest / 2)}
