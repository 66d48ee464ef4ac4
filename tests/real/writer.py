"""The processes that write while a test looks on: one that is killed, or many at once.

    python tests/real/writer.py

Started once, so that everything is imported. Each line of its input is a job, each line of its
output the answer, both JSON. A job forks processes of their own; a process says on a pipe what it
is about to append, and afterwards that it was appended. Knows nothing of what ought to come of it;
see test_kill, test_writers.
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
    import asyncpg  # noqa: F401  (now, and not in each process)

APPENDED = b"+\n"
LONGEST = 30.0  # seconds; whoever has not written by then never will


def store_at(place):
    if "://" in place:
        return PostgresStore(f"{place}&application_name=writer", connections=1)
    return SqliteStore(place)


class Telling:
    """A store that says on a pipe which records it is about to append, and that they were
    appended."""

    def __init__(self, store, pipe):
        self._store, self._pipe = store, pipe

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def create(self, session_id, *records):
        return await self._told(records, self._store.create(session_id, *records))

    async def append(self, session_id, *records, expected=None):
        return await self._told(
            records, self._store.append(session_id, *records, expected=expected)
        )

    async def _told(self, records, writing: Awaitable):
        os.write(self._pipe, f"[{', '.join(map(record_to_json, records))}]\n".encode())
        done = await writing
        os.write(self._pipe, APPENDED)
        return done


# ---- what is written
# ---------------------------------------------------------------------------------------


async def talk(place, session, seed, pipe):
    """Turn after turn, until somebody ends this process."""
    chance = random.Random(seed)
    engine = ContextEngine(
        store=Telling(store_at(place), pipe),
        window=KeepSystemAndRecent(max_tokens=4000),
    )
    if session not in [each.id for each in await engine.sessions()]:
        await engine.create_session(session, "Be brief.")
    for number in count():
        await turn(engine, session, chance, f"{seed}-{number}")


async def turn(engine, session, chance, name):
    """A question, one to three calls, their results and an answer; now and then more."""
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
    """Something in any script, now and then longer than many of a database's pages."""
    return "Ergebnis ✓ 结果 " * chance.choice((1, 1, 5, 20, 100, 1500))


# ---- processes
# ---------------------------------------------------------------------------------------------


def forked(work: Callable[[], Awaitable]) -> int:
    """A process that does this and ends; returns its id."""
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


def write_until_killed(place, session, seed, delay, after):
    """Have a process write and kill it so many seconds after its "start" or its "first write".

    Returns:
        What it began to append, each time a list of records; how often it said that it had; how it
        ended.
    """
    reading, writing = os.pipe()
    child = forked(lambda: talk(place, session, seed, writing))
    os.close(writing)
    try:
        said = b"".join(listen(reading, delay, after))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        said += b"".join(iter(lambda: os.read(reading, 65536), b""))
    finally:
        os.close(reading)
    lines = said[: said.rfind(b"\n") + 1].splitlines(
        keepends=True
    )  # what was not said to its end was not begun
    begun = [json.loads(line) for line in lines if line != APPENDED]
    return {
        "begun": begun,
        "done": lines.count(APPENDED),
        "ended_by": -os.waitstatus_to_exitcode(status),
    }


def listen(pipe, delay, after) -> Iterator[bytes]:
    """What is said on a pipe, until its process is to be killed or has ended by itself."""
    now = time.monotonic()
    until, waiting = (now + delay, False) if after == "start" else (now + LONGEST, True)
    while (left := until - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            if not (heard := os.read(pipe, 65536)):
                return
            yield heard
            if waiting and APPENDED in heard:
                until, waiting = time.monotonic() + delay, False


def write_together(place, session, writers, messages):
    """Have many processes write to one session, all from the same moment on; returns how each
    ended."""
    reading, writing = os.pipe()
    shares = [len(range(each, messages, writers)) for each in range(writers)]
    children = [
        forked(lambda n=n, s=s: share(place, session, n, s, reading, writing))
        for n, s in enumerate(shares)
    ]
    os.close(reading)
    os.close(writing)  # the last end: now they all begin
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


async def share(place, session, number, messages, begin, held):
    """One writer's messages, one to four in an append: "writer append place/of"."""
    os.close(held)
    os.read(begin, 1)
    async with ContextEngine(store=store_at(place)) as engine:
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


JOBS = {each.__name__: each for each in (write_until_killed, write_together)}


def main():
    """Do one job after the other."""
    for line in sys.stdin:
        job, arguments = json.loads(line)
        sys.stdout.write(f"{json.dumps(JOBS[job](**arguments))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
