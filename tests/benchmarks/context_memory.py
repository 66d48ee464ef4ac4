"""Memory of a session that is opened among 1,000 sessions with 1,000,000 messages in a SQLite file.

    python tests/benchmarks/context_memory.py

A new process opens the file and one session, builds the next request, and compares the memory used
with the size of the request's messages, texts included. The peak of Python's allocations is traced.
The growth of the process (its private memory, from Linux's /proc) includes SQLite's pages and the
stack of its thread. It is measured for the first session, which includes loading SQLite, and for 20
more. A file with a single session shows whether the other sessions matter.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import tracemalloc
from itertools import islice
from pathlib import Path

import conversation
from loopback import at_most, table

from stage0_gateway import Message
from stage1_context import ContextEngine, KeepSystemAndRecent, SqliteStore
from stage1_context.journal import MessageRecord

_SESSIONS, _MESSAGES, _MORE = 1000, 1000, 20
_WINDOWS = {
    "20 messages": KeepSystemAndRecent(max_messages=20),
    "1,000 tokens": KeepSystemAndRecent(max_tokens=1000),
    "4,000 tokens": KeepSystemAndRecent(max_tokens=4000),
}
_BAR = 20.0


async def fill(path: Path, sessions: int) -> None:
    """Write this number of sessions with short messages."""
    store = SqliteStore(path)
    records = [
        MessageRecord(Message.user(each.text[:60]))
        for each in islice(conversation.conversation(), _MESSAGES)
    ]
    for number in range(sessions):
        await store.create(f"session {number}", *records)
    await store.aclose()


async def measure(path: str, window: str, sessions: int) -> dict[str, float]:
    """Return the memory growth in bytes; runs in a new process."""
    before = private_memory()
    async with ContextEngine(store=SqliteStore(path), window=_WINDOWS[window]) as engine:
        request = await engine.messages_for_request(f"session {sessions // 2}")
        first = private_memory()
        for number in range(min(_MORE, sessions - 1)):
            await engine.messages_for_request(f"session {number * sessions // 50}")
        more = (private_memory() - first) / _MORE
    return {"window": size(request), "first": first - before, "more": more}


async def trace(path: str, window: str, sessions: int) -> dict[str, float]:
    """Return the peak of Python's allocations, which tracing increases a little."""
    tracemalloc.start()
    async with ContextEngine(store=SqliteStore(path), window=_WINDOWS[window]) as engine:
        await engine.messages_for_request(f"session {sessions // 2}")
        return {"peak": tracemalloc.get_traced_memory()[1]}


def private_memory() -> int:
    """Return the private memory of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("This needs Linux 4.5 or later.")


def size(request: list[Message]) -> int:
    """Return the size of a request's messages in bytes."""
    texts = {id(each.content): sys.getsizeof(each.content) for each in request}
    return sys.getsizeof(request) + sum(map(sys.getsizeof, request)) + sum(texts.values())


def in_new_process(job: str, path: Path, window: str, sessions: int) -> dict[str, float]:
    """Run a job in a new process."""
    command = [sys.executable, __file__, job, str(path), window, str(sessions)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def row(path: Path, window: str, sessions: int) -> tuple[str, ...]:
    """Return a table row."""
    peak = in_new_process("trace", path, window, sessions)["peak"]
    grown = in_new_process("measure", path, window, sessions)
    base = grown["window"]
    return (
        f"{window}, {sessions * _MESSAGES:,} in the file",
        f"{base / 1e3:.1f}",
        f"{peak / 1e3:.0f}",
        at_most(_BAR, peak / base),
        f"{grown['first'] / 1e3:.0f}",
        f"{grown['first'] / base:.1f}",
        at_most(_BAR, grown["more"] / base) if sessions > 1 else "",
    )


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for sessions in (1, _SESSIONS):
            path = Path(folder) / f"{sessions}.sqlite"
            asyncio.run(fill(path, sessions))
            lines += [row(path, window, sessions) for window in _WINDOWS]
    heading = (
        "",
        "request, kB",
        "traced, kB",
        "x request",
        "process, kB",
        "x request",
        "each further session",
    )
    table("Opening a session of a SQLite file and windowing it", heading, *lines)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        job, path, window, sessions = sys.argv[1:]
        found = asyncio.run({"measure": measure, "trace": trace}[job](path, window, int(sessions)))
        sys.stdout.write(json.dumps(found))
    else:
        main()
