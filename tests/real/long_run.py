"""A run of `ten_rounds.py` that can be killed at any of its steps, and the process that starts such
runs.

    python tests/real/long_run.py

Each line of its input says which run to start, each line of its output what became of it, both
JSON. A run is a process of its own. It goes on with what its session holds, or asks the question if
nobody has; each step passes a point that has a name, and at one of them it kills itself. Knows
nothing of what ought to come of it; see test_kill_run.
"""

import asyncio
import gc
import json
import os
import signal
import sqlite3
import sys
import time
from collections import Counter, defaultdict
from functools import partial

from ten_rounds import (
    EFFECTS,
    MODELS,
    QUESTION,
    ROUNDS,
    SESSION,
    call_of,
    is_outcome,
    journal_of,
    others,
)
from writer import forked

from stage1_context import ContextEngine, SqliteStore
from stage1_context.journal import CallStartedRecord, MessageRecord
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    Tool,
    ToolContext,
    ToolError,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)

PATIENCE = 5.0  # seconds until a call is said not to be noted while another one runs
LONGEST = 30  # seconds; a run that has not ended by then never will
LONG_RESULT = 200  # repetitions of the end of a long result
DIALECTS = {"native": NativeDialect, "prompt": PromptDialect}

# ---- the points at which a run may be killed
# ---------------------------------------------------------------


class Points:
    """The steps of a run, in the order they came; at one of them this process is killed.

    Args:
        kill_at: The name of that one, or its number, or None.
    """

    def __init__(self, kill_at):
        self.passed, self.where = [], "opening"
        self._kill_at, self._count = kill_at, Counter()

    def reach(self, name):
        self._count[name] += 1
        name = name if self._count[name] == 1 else f"{name} ({self._count[name]})"
        self.passed.append(name)
        if self._kill_at in (name, len(self.passed)):
            os.kill(os.getpid(), signal.SIGKILL)

    def watch_database(self):
        """Reach a point before each statement that changes the file."""
        connect = sqlite3.connect

        def watched(*arguments, **settings):
            connection = connect(*arguments, **settings)
            connection.set_trace_callback(statement)
            return connection

        def statement(text):
            word = text.split()[0]
            if self.where and word in ("CREATE", "INSERT", "UPDATE", "COMMIT"):
                self.reach(f"{word} of {self.where}")

        sqlite3.connect = watched


class Watched:
    """A store that reaches a point before and after whatever is done with it."""

    def __init__(self, store, points):
        self._store, self._points = store, points
        self.written = defaultdict(
            asyncio.Event
        )  # by call id: its result is in the journal, or that it ended

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def create(self, session_id, *records):
        await self._at("create", self._store.create(session_id, *records), writes=True)

    async def append(self, session_id, *records, expected=None):
        name = f"append {', '.join(map(named, records))}"
        writing = self._store.append(session_id, *records, expected=expected)
        length = await self._at(name, writing, writes=True)
        self.note(records)
        return length

    async def read(self, *arguments, **settings):
        return await self._at("read", self._store.read(*arguments, **settings))

    async def info(self, session_id):
        return await self._at("info", self._store.info(session_id))

    def note(self, records):
        for each in filter(is_outcome, records):
            self.written[call_of(each)].set()

    async def _at(self, name, doing, writes=False):
        self._points.reach(f"before {name}")
        self._points.where = name if writes else self._points.where
        done = await doing
        self._points.where = None
        self._points.reach(f"after {name}")
        return done


def named(record):
    """A record in a few words."""
    if isinstance(record, MessageRecord) and not record.message.tool_call_id:
        return f"{record.message.role} message"
    return f"{record.kind} {call_of(record)}"


# ---- tools that leave traces
# -------------------------------------------------------------------------------


class Tools:
    """Tools that write to a file when they begin and when they end.

    Args:
        traces: The file.
        life: The number of this process among those that had the session.
        points: What is reached on the way.
        written: What comes of a call, by its id, as an event.
        others: Which other call a call lasts as long as.
    """

    def __init__(self, traces, life, points, written, others):
        self._file = os.open(traces, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._life, self._points, self._written, self._others = life, points, written, others
        self.unwritten = []  # what was waited for in vain

    def registry(self):
        tools = ToolRegistry()
        for name, effect in EFFECTS.items():
            function = self._plain if name == "fetch" else self._slow
            tools.register(
                Tool(
                    name, "", None, partial(function, name), effect=effect, exclusive=name == "move"
                )
            )
        return tools

    def _plain(self, name, arguments, context: ToolContext):
        self._begin(name, context)
        return self._end(name, arguments["label"], context)

    async def _slow(self, name, arguments, context: ToolContext):
        self._begin(name, context)
        if other := self._others.get(context.call_id):
            try:
                await asyncio.wait_for(self._written[other].wait(), PATIENCE)
            except TimeoutError:
                self.unwritten.append(other)
            self._trace("goes on", name, context)
            self._points.reach(f"{context.call_id} goes on")
        return self._end(name, arguments["label"], context)

    def _begin(self, name, context):
        self._points.reach(f"{context.call_id} before its effect")
        self._trace("begun", name, context)
        self._points.reach(f"{context.call_id} after its effect")

    def _end(self, name, label, context):
        self._points.reach(f"{context.call_id} before its end")
        self._trace("ended", name, context)
        self._points.reach(f"{context.call_id} before it returns")
        if name == "miss":
            raise ToolError("not_found", f"{name} {label}: not there")
        return f"{name} {label}: done" + " and more" * (LONG_RESULT if name == "list" else 0)

    def _trace(self, what, name, context):
        trace = {
            "life": self._life,
            "what": what,
            "tool": name,
            "call": context.call_id,
            "key": context.idempotency_key,
        }
        os.write(self._file, f"{json.dumps(trace)}\n".encode())


# ---- processes
# ---------------------------------------------------------------------------------------------


async def live(place, traces, dialect, life, kill_at, pipe):
    """Go on with the session as far as it comes; says on a pipe that it begins, and what came of
    it."""
    points = Points(kill_at)
    points.watch_database()
    store = Watched(SqliteStore(place), points)
    journal = await journal_of(store)
    os.write(pipe, b"\n")
    store.note(journal or [])
    for each in journal or []:
        if isinstance(each, CallStartedRecord) and EFFECTS[each.tool] == "write":
            store.written[each.call_id].set()  # nobody will run it again, or wait for it
    tools = Tools(traces, life, points, store.written, others(dialect))
    asked = any(isinstance(each, MessageRecord) for each in journal or [])
    write, made = MODELS[dialect], DIALECTS[dialect]

    async def chat(messages, **settings):
        points.reach("before the model's reply")
        reply = await write(ROUNDS[dialect], messages, **settings)
        points.reach("after the model's reply")
        return reply

    async with ContextEngine(store=store) as engine:
        if journal is None:
            await engine.create_session(SESSION)
        deps = ToolLoopDeps(chat, engine, OutputController(), tools.registry())
        options = ToolLoopOptions(dialect=made(), max_tool_rounds=20)
        result = await run_tool_loop(
            deps, SESSION, None if asked else QUESTION, options, resume=asked
        )
    statuses = {each.result.call_id: each.result.status for each in result.history}
    told = {"status": result.status, "reply": result.reply, "statuses": statuses}
    told |= {"points": points.passed, "unwritten": tools.unwritten}
    os.write(pipe, json.dumps(told).encode())


def run(place, traces, dialect, life, kill_at=None, delay=None):
    """One process, killed at a point, or so many seconds after it has begun; or not at all.

    Returns:
        How it ended: the number of a signal, or 0; how many seconds it took; what it told.
    """
    reading, writing = os.pipe()

    async def work():
        signal.alarm(LONGEST)
        await live(place, traces, dialect, life, kill_at, writing)

    child, began = forked(work), time.monotonic()
    os.close(writing)
    said = os.read(reading, 1)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    said += b"".join(iter(lambda: os.read(reading, 65536), b""))
    os.close(reading)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - began
    told = json.loads(said) if said.strip() else None
    return {"ended_by": -os.waitstatus_to_exitcode(status), "seconds": seconds, "told": told}


def main():
    """Start one run after the other."""
    ToolRegistry(
        Tool("any", "", None, print)
    )  # loads what is loaded at first use: now, and not in each process
    gc.freeze()  # or each process copies what is collected in it
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(run(**json.loads(line)))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
