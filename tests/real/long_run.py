"""A run of `ten_rounds.py` that can be killed at any of its steps.

    python -m tests.real.long_run

Starts runs as processes of their own. Each line of the input describes a run, each line of the
output its outcome; both are JSON. A run resumes its session, or asks the question in a new session.
Each step passes a named point, and the run kills itself at one of them. The expected outcome is
checked by test_kill_run.
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
from tests.real.ten_rounds import (
    EFFECTS,
    MODELS,
    QUESTION,
    ROUNDS,
    SESSION,
    awaited_calls,
    call_of,
    is_outcome,
    journal_of,
)
from tests.real.writer import forked

PATIENCE = 5.0  # seconds until a missing record of another call is reported
LONGEST = 30  # seconds until a run is stopped
LONG_RESULT = 200  # repetitions of the end of a long result
DIALECTS = {"native": NativeDialect, "prompt": PromptDialect}

# ---- the points at which a run may be killed


class Points:
    """The steps of a run in order; the process is killed at one of them.

    Args:
        kill_at: The name or the number of that step, or None.
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


class ObservedStore:
    """A store that reaches a point before and after each operation."""

    def __init__(self, store, points):
        self._store, self._points = store, points
        self.written = defaultdict(
            asyncio.Event
        )  # by call id: set when its outcome is in the journal

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def create(self, session_id, *records):
        await self._at("create", self._store.create(session_id, *records), writes=True)

    async def append(self, session_id, *records, expected=None):
        name = f"append {', '.join(map(describe, records))}"
        writing = self._store.append(session_id, *records, expected=expected)
        length = await self._at(name, writing, writes=True)
        self.mark_outcomes(records)
        return length

    async def read(self, *arguments, **settings):
        return await self._at("read", self._store.read(*arguments, **settings))

    async def info(self, session_id):
        return await self._at("info", self._store.info(session_id))

    def mark_outcomes(self, records):
        for each in filter(is_outcome, records):
            self.written[call_of(each)].set()

    async def _at(self, name, operation, writes=False):
        self._points.reach(f"before {name}")
        self._points.where = name if writes else self._points.where
        done = await operation
        self._points.where = None
        self._points.reach(f"after {name}")
        return done


def describe(record):
    """Return a short description of a record."""
    if isinstance(record, MessageRecord) and not record.message.tool_call_id:
        return f"{record.message.role} message"
    return f"{record.kind} {call_of(record)}"


# ---- tools that record their calls


class Tools:
    """Tools that write to a file when they start and when they end.

    Args:
        traces: The file.
        attempt: The number of this process among the processes of the session.
        points: The points of the run.
        written: An event per call id, set when the outcome is stored.
        awaited: The call that must be stored before another call ends.
    """

    def __init__(self, traces, attempt, points, written, awaited):
        self._file = os.open(traces, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(self._file, b"\n")  # ends a line that a killed program did not end
        self._attempt, self._points, self._written, self._awaited = (
            attempt,
            points,
            written,
            awaited,
        )
        self.unwritten = []  # awaited calls that were not stored in time

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
        self._start(name, context)
        return self._end(name, arguments["label"], context)

    async def _slow(self, name, arguments, context: ToolContext):
        self._start(name, context)
        if awaited_call := self._awaited.get(context.call_id):
            try:
                await asyncio.wait_for(self._written[awaited_call].wait(), PATIENCE)
            except TimeoutError:
                self.unwritten.append(awaited_call)
            self._trace("continues", name, context)
            self._points.reach(f"{context.call_id} continues")
        return self._end(name, arguments["label"], context)

    def _start(self, name, context):
        self._points.reach(f"{context.call_id} before its effect")
        self._trace("started", name, context)
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
            "attempt": self._attempt,
            "what": what,
            "tool": name,
            "call": context.call_id,
            "key": context.idempotency_key,
        }
        os.write(self._file, f"{json.dumps(trace)}\n".encode())


# ---- processes


async def resume_run(location, traces, dialect, attempt, kill_at, pipe):
    """Run the session as far as possible; report the start and the outcome on a pipe."""
    points = Points(kill_at)
    points.watch_database()
    store = ObservedStore(SqliteStore(location), points)
    journal = await journal_of(store)
    os.write(pipe, b"\n")
    store.mark_outcomes(journal or [])
    for each in journal or []:
        if isinstance(each, CallStartedRecord) and EFFECTS[each.tool] == "write":
            store.written[
                each.call_id
            ].set()  # it is not run again, so other calls must not wait for it
    tools = Tools(traces, attempt, points, store.written, awaited_calls(dialect))
    asked = any(isinstance(each, MessageRecord) for each in journal or [])
    write, dialect_class = MODELS[dialect], DIALECTS[dialect]

    async def chat(messages, **settings):
        points.reach("before the model's reply")
        reply = await write(ROUNDS[dialect], messages, **settings)
        points.reach("after the model's reply")
        return reply

    async with ContextEngine(store=store) as engine:
        if journal is None:
            await engine.create_session(SESSION)
        deps = ToolLoopDeps(chat, engine, OutputController(), tools.registry())
        options = ToolLoopOptions(dialect=dialect_class(), max_tool_rounds=20)
        result = await run_tool_loop(
            deps, SESSION, None if asked else QUESTION, options, resume=asked
        )
    statuses = {each.result.call_id: each.result.status for each in result.history}
    outcome = {"status": result.status, "reply": result.reply, "statuses": statuses}
    outcome |= {"points": points.passed, "unwritten": tools.unwritten}
    os.write(pipe, json.dumps(outcome).encode())


def run(location, traces, dialect, attempt, kill_at=None, delay=None):
    """Run a process that is killed at a point or after a delay, or not at all.

    Returns:
        The signal that ended it, or 0; its duration in seconds; the reported outcome.
    """
    reading, writing = os.pipe()

    async def work():
        signal.alarm(LONGEST)
        await resume_run(location, traces, dialect, attempt, kill_at, writing)

    child, began = forked(work), time.monotonic()
    os.close(writing)
    output = os.read(reading, 1)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    output += b"".join(iter(lambda: os.read(reading, 65536), b""))
    os.close(reading)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - began
    outcome = json.loads(output) if output.strip() else None
    return {"ended_by": -os.waitstatus_to_exitcode(status), "seconds": seconds, "outcome": outcome}


def main():
    """Start one run after the other."""
    ToolRegistry(
        Tool("any", "", None, print)
    )  # warm-up, so that not each process loads the modules
    gc.freeze()  # avoids copies of the heap in each process
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(run(**json.loads(line)))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
