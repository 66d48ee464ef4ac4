"""A run that is killed at any step can be resumed: nothing is lost, and nothing is done twice.

The run has ten rounds, some with several calls that end out of order. The moments of the kills are
random; KILL_SEED=… in the environment repeats a run that printed it.
"""

import asyncio
import contextlib
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
from tests.programs import ROOT
from tests.real import ten_rounds
from tests.real.locations import damage

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not hasattr(os, "fork"),
        reason="os.fork is missing, so every run would import everything again",
    ),
]
EVERY = 4  # one of this number of adjacent points is tested
TIMED = 40
AT_ONCE = 2
UNKNOWN = """\
Error (interrupted): The program ended before this call had a result.
It may have happened, in whole or in part. Check before you ask for it again."""
SEED = int(os.environ.get("KILL_SEED") or random.randrange(1_000_000))


@dataclass
class Attempt:
    """One process that ran the session.

    Attributes:
        ended_by: The signal that ended it, or 0.
        outcome: The reported outcome of a run that completed.
        seconds: The duration.
        journal: The records of the session afterwards.
        traces: The lines that its tools wrote.
    """

    ended_by: int
    outcome: dict | None
    seconds: float
    journal: list
    traces: list

    def calls(self, what):
        """Count the calls that reached this step, by call."""
        return Counter(trace["call"] for trace in self.traces if trace["what"] == what)

    @property
    def started(self):
        """The calls with a start record in the journal, and their tools."""
        return {
            each.call_id: each.tool for each in self.journal if isinstance(each, CallStartedRecord)
        }

    @property
    def finished(self):
        """The calls with an outcome in the journal."""
        return {ten_rounds.call_of(each) for each in self.journal if ten_rounds.is_outcome(each)}

    @property
    def in_flight(self):
        """The write calls that may have happened."""
        return {call for call, tool in self.started.items() if is_write(tool)} - self.finished


def is_write(tool):
    return ten_rounds.EFFECTS[tool] == "write"


# ---- runs


@contextmanager
def starter():
    """Yield `start(…)`, which has `long_run.py` start a run and returns its outcome."""
    command = [sys.executable, "-m", "tests.real.long_run"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def start(**arguments):
            print(json.dumps(arguments), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            assert answer, "long_run.py ended unexpectedly; see its stderr"
            return json.loads(answer)

        yield start


def complete_lines(path):
    """Return the values of a file of JSON lines, without a line that a killed program did not end."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


async def run_attempts(start, folder, dialect, kills):
    """Run a session in one process after the other: each is killed, and the last one completes."""
    folder.mkdir()
    location, traces = folder / "sessions.db", folder / "traces"
    attempts = []
    for number, kill in enumerate([*kills, {}]):
        given = {
            "location": str(location),
            "traces": str(traces),
            "dialect": dialect,
            "attempt": number,
            **kill,
        }
        outcome_of_run = await asyncio.to_thread(start, **given)
        journal = await journal_in(location, folder / f"{number}.db")
        left = complete_lines(traces)
        attempts.append(
            Attempt(
                **outcome_of_run,
                journal=journal,
                traces=[each for each in left if each["attempt"] == number],
            )
        )
    return attempts


async def journal_in(location, copy):
    """Return the records of a file, read from a copy, so that the next process finds the file
    unchanged."""
    for end in ("", "-wal"):
        if (part := Path(f"{location}{end}")).exists():
            shutil.copy(part, f"{copy}{end}")
    if not copy.exists():
        return []
    store = SqliteStore(copy)
    journal = await ten_rounds.journal_of(store)
    await store.aclose()
    return journal or []


# ---- expected outcome


def violations_in(attempt, before, awaited):
    """Return the violations of one process, given the process before it."""
    started, known = attempt.calls("started"), before.journal if before else []
    finished, in_flight = (before.finished, before.in_flight) if before else (set(), set())
    late = {awaited[call] for call in attempt.calls("continues")} & {
        *attempt.calls("ended")
    } - attempt.finished
    return {
        "ended by itself": attempt.ended_by
        if attempt.ended_by not in (0, signal.SIGKILL)
        else None,
        "the journal was changed": attempt.journal[: len(known)] != known,
        "started twice": [call for call, times in started.items() if times > 1],
        "started before that was stored": started.keys() - attempt.started.keys(),
        "ended, but not stored while another call ran": late,
        "run again despite a stored outcome": started.keys() & finished,
        "a write that was started before was run again": started.keys() & in_flight,
    }


def violations_at_the_end(attempts, reference):
    """Return the differences to an uninterrupted run, except for writes that may have happened."""
    last, uncertain = attempts[-1], set().union(*(attempt.in_flight for attempt in attempts[:-1]))
    history, wanted = (
        messages(last),
        [with_unknown_effect(each, uncertain) for each in messages(reference)],
    )
    reply = " ".join(ten_rounds.seen_in(each.text) for each in wanted if each.role == "tool")
    started, ended = (
        sum((attempt.calls(what) for attempt in attempts), Counter())
        for what in ("started", "ended")
    )
    keys = {(trace["call"], trace["key"]) for attempt in attempts for trace in attempt.traces}
    unknown = uncertain & set(last.outcome["statuses"])
    return {
        "status": last.outcome["status"] != "completed" and last.outcome["status"],
        "reply": last.outcome["reply"] != reply and last.outcome["reply"],
        "history": [each for each in zip_longest(history[:-1], wanted[:-1]) if each[0] != each[1]],
        "last message": history[-1].text != reply and history[-1],
        "problems": MessageHistory(history).check_history(),
        "repaired": [each for each in last.journal if isinstance(each, RepairRecord)],
        "not reported as unknown": {
            call for call in unknown if last.outcome["statuses"][call] != "unknown_effect"
        },
        "wrongly reported as unknown": {
            call for call, status in last.outcome["statuses"].items() if status == "unknown_effect"
        }
        - unknown,
        "written twice": [
            call for call, tool in last.started.items() if is_write(tool) and started[call] > 1
        ],
        "never ended": last.started.keys() - ended.keys() - uncertain,
        "another key": len(keys) != len(started) and keys,
    }


def messages(attempt):
    return [each.message for each in attempt.journal if isinstance(each, MessageRecord)]


def with_unknown_effect(message, uncertain):
    """Return a message of an uninterrupted run as it is after these uncertain writes."""
    if message.tool_call_id not in uncertain:
        return message
    return Message.tool(UNKNOWN, message.tool_call_id, name=message.name, is_error=True)


def violations(attempts, reference, awaited):
    """Return all violations of a session with descriptions, or an empty dict."""
    found = {}
    for number, attempt in enumerate(attempts):
        before = attempts[number - 1] if number else None
        found |= {
            f"attempt {number}: {what}": why
            for what, why in violations_in(attempt, before, awaited).items()
        }
    found |= (
        violations_at_the_end(attempts, reference)
        if attempts[-1].outcome
        else {"no end": attempts[-1].ended_by}
    )
    return {what: why for what, why in found.items() if why}


# ---- the tests


async def uninterrupted_run(folder, dialect):
    """Run the session without kills several times; return the fastest run, the reference."""
    with starter() as start:
        attempts = [
            (await run_attempts(start, folder / f"reference {each}", dialect, []))[0]
            for each in range(3)
        ]
    for attempt in attempts:
        assert attempt.outcome["unwritten"] == [], (
            "these calls ended, but were not stored while another call ran"
        )
        assert violations([attempt], attempts[0], ten_rounds.awaited_calls(dialect)) == {}
    return min(attempts, key=lambda attempt: attempt.seconds)


async def kill_runs(folder, dialect, reference, kills):
    """Run and kill sessions as listed; return the violations, and counts of observations."""
    left, found, tally = iter(enumerate(kills)), {}, Counter()

    async def work():
        with starter() as start:
            for number, each in left:
                at = folder / f"{number}"
                attempts = await run_attempts(start, at, dialect, each)
                found[str(each)] = violations(
                    attempts, reference, ten_rounds.awaited_calls(dialect)
                )
                found[f"{each}: damage"] = damage(str(at / "sessions.db"))
                tally.update(observations(attempts))
                shutil.rmtree(at)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    return "\n".join(f"{kill}: {what}" for kill, what in found.items() if what), tally


def observations(attempts):
    """Count observations that show whether the test covers the intended cases."""
    killed = [attempt for attempt in attempts if attempt.ended_by == signal.SIGKILL]
    open_calls = [attempt.started.keys() - attempt.finished for attempt in killed]
    again = sum(
        after.calls("started").keys() & before.started.keys() != set()
        for before, after in pairwise(attempts)
    )
    return {
        "kills": len(killed),
        "several calls in flight": sum(len(each) > 1 for each in open_calls),
        "writes in flight": sum(bool(attempt.in_flight) for attempt in killed),
        "ended out of order": sum(attempt.finished != results(attempt) for attempt in killed),
        "run again": again,
    }


def results(attempt):
    return {each.tool_call_id for each in messages(attempt)} - {None}


@pytest.mark.parametrize("dialect", ["native", "prompt"])
async def test_a_run_that_is_killed_at_any_step_resumes_without_repeating_writes(
    dialect, tmp_path, say
):
    random_source, reference = random.Random(SEED), await uninterrupted_run(tmp_path, dialect)
    points = reference.outcome["points"]
    kills = []
    for index in range(SEED % EVERY, len(points), EVERY):
        kills.append([{"kill_at": points[index]}])
        if random_source.random() < 1 / 3:  # a second kill, while the run is resumed
            kills[-1].append({"kill_at": random_source.randint(1, len(points) - index + 10)})
    found, tally = await kill_runs(tmp_path, dialect, reference, kills)
    say(f"{dialect}: KILL_SEED={SEED}, {len(kills)} of {len(points)} points: {dict(tally)}")
    assert not found, found
    assert tally["kills"] >= len(kills)
    assert tally["writes in flight"] >= len(kills) // 20
    if dialect == "native":
        assert tally["ended out of order"] >= len(kills) // 20


@pytest.mark.parametrize("dialect", ["native", "prompt"])
async def test_a_run_that_is_killed_at_any_moment_can_be_resumed(dialect, tmp_path, say):
    random_source, reference = random.Random(SEED), await uninterrupted_run(tmp_path, dialect)
    kills = [[*moments(random_source, reference.seconds)] for _ in range(TIMED)]
    found, tally = await kill_runs(tmp_path, dialect, reference, kills)
    say(f"{dialect}: KILL_SEED={SEED}, {dict(tally)}")
    assert not found, found
    assert tally["kills"] >= TIMED // 4


def moments(random_source, longest):
    """Generate the moments of the kills: one, or a second one while the run is resumed."""
    yield {"delay": random_source.uniform(0, longest * 0.8)}
    if random_source.random() < 1 / 3:
        yield {"delay": random_source.uniform(0, longest / 2)}
