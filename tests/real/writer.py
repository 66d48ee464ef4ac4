"""The processes that write during a test: one that is killed, or many at once.

    python -m tests.real.writer

Started once, so that everything is imported. Each line of the input is a job, each line of the
output its answer; both are JSON. A job forks its own processes. A process reports on a pipe before
and after it appends records. The expected result is checked by test_kill and test_writers.
"""

import asyncio
import json
import os
import random
import select
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import count

from stage0_gateway import Message, ToolCall
from stage1_context import ContextEngine, KeepSystemAndRecent, SessionExists, SqliteStore
from stage1_context.journal import (
    CallFinishedRecord,
    CallStartedRecord,
    MessageRecord,
    record_to_json,
)
from stage1_context.stores.postgres import PostgresStore

with suppress(ImportError):
    import asyncpg  # noqa: F401  (imported once, and not in each process)

APPENDED = b"+\n"
LONGEST = 30.0  # maximum seconds until the first write


def store_at(location):
    if "://" in location:
        return PostgresStore(f"{location}&application_name=writer", connections=1)
    return SqliteStore(location)


class ReportingStore:
    """A store that reports records on a pipe before and after they are appended."""

    def __init__(self, store, pipe):
        self._store, self._pipe = store, pipe

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def create(self, session_id, *records):
        return await self._report(records, self._store.create(session_id, *records))

    async def append(self, session_id, *records, expected=None):
        return await self._report(
            records, self._store.append(session_id, *records, expected=expected)
        )

    async def _report(self, records, writing: Awaitable):
        os.write(self._pipe, f"[{', '.join(map(record_to_json, records))}]\n".encode())
        done = await writing
        os.write(self._pipe, APPENDED)
        return done


# ---- what is written


async def write_forever(location, session, seed, pipe):
    """Write turn after turn until the process is killed."""
    chance = random.Random(seed)
    engine = ContextEngine(
        store=ReportingStore(store_at(location), pipe),
        window=KeepSystemAndRecent(max_tokens=4000),
    )
    if session not in [each.id for each in await engine.sessions()]:
        await engine.create_session(session, "Be brief.")
    for number in count():
        await turn(engine, session, chance, f"{seed}-{number}")


async def turn(engine, session, chance, name):
    """Write a question, one to three calls, their results and an answer, and sometimes more."""
    transcript = engine.transcript(session)
    await engine.add_message(session, Message.user(f"Question {name}"))
    await engine.messages_for_request(session)
    calls = [ToolCall(f"{name}-{each}", "look_up", "{}") for each in range(chance.randint(1, 3))]
    await transcript.append(Message.assistant(f"Looking, {name}.", calls))
    results = [Message.tool(text(chance), call.id, name=call.name) for call in calls]
    if chance.random() < 0.5:
        await transcript.append(*results)
    else:
        for call, result in zip(calls, results, strict=True):
            records = CallStartedRecord(call.id, call.name), CallFinishedRecord(call.id, "ok")
            await engine.store.append(session, *records, MessageRecord(result))
    await transcript.append(Message.assistant(f"Answer {name}"))
    if chance.random() < 0.2:
        await engine.variables.put(session, {"name": name, "value": text(chance)})
    if chance.random() < 0.2:
        await transcript.set_summary(
            f"Notes {name}", until=(await engine.store.info(session)).records
        )


def text(chance):
    """Return text in several scripts, sometimes longer than many pages of a database."""
    return "Ergebnis ✓ 结果 " * chance.choice((1, 1, 5, 20, 100, 1500))


# ---- processes


def forked(work: Callable[[], Awaitable]) -> int:
    """Fork a process that runs this work; return its id."""
    if child := os.fork():
        return child
    status = 1
    try:
        asyncio.run(work())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def write_until_killed(location, session, seed, delay, after):
    """Fork a process that writes; kill it a delay after its "start" or its "first write".

    Returns:
        The appends that it started, each as a list of records; the number of acknowledged appends;
        the signal that ended it.
    """
    reading, writing = os.pipe()
    child = forked(lambda: write_forever(location, session, seed, writing))
    os.close(writing)
    try:
        output = b"".join(read_reports(reading, delay, after))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        output += b"".join(iter(lambda: os.read(reading, 65536), b""))
    finally:
        os.close(reading)
    lines = output[: output.rfind(b"\n") + 1].splitlines(
        keepends=True
    )  # an incomplete line is an append that did not start
    started = [json.loads(line) for line in lines if line != APPENDED]
    return {
        "started": started,
        "done": lines.count(APPENDED),
        "ended_by": -os.waitstatus_to_exitcode(status),
    }


def read_reports(pipe, delay, after) -> Iterator[bytes]:
    """Generate the output of a pipe until its process must be killed or has ended."""
    now = time.monotonic()
    until, waiting = (now + delay, False) if after == "start" else (now + LONGEST, True)
    while (left := until - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            if not (data := os.read(pipe, 65536)):
                return
            yield data
            if waiting and APPENDED in data:
                until, waiting = time.monotonic() + delay, False


def write_concurrently(location, session, writers, messages):
    """Let many processes write to one session from the same moment on; return their exit codes."""
    reading, writing = os.pipe()
    shares = [len(range(each, messages, writers)) for each in range(writers)]
    children = [
        forked(lambda n=n, s=s: write_share(location, session, n, s, reading, writing))
        for n, s in enumerate(shares)
    ]
    os.close(reading)
    os.close(writing)  # the last open end; now all processes start
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


async def write_share(location, session, number, messages, begin, held):
    """Write one writer's messages, one to four in an append: "writer append part/of"."""
    os.close(held)
    os.read(begin, 1)
    async with ContextEngine(store=store_at(location)) as engine:
        with suppress(SessionExists):
            await engine.create_session(session)
        transcript, left = engine.transcript(session), messages
        for each in count():
            if not left:
                break
            several = min(each % 4 + 1, left)
            texts = [f"{number} {each} {part}/{several}" for part in range(1, several + 1)]
            await transcript.append(*map(Message.user, texts))
            left -= several


JOBS = {each.__name__: each for each in (write_until_killed, write_concurrently)}


def main():
    """Run one job after the other."""
    for line in sys.stdin:
        job, arguments = json.loads(line)
        sys.stdout.write(f"{json.dumps(JOBS[job](**arguments))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
