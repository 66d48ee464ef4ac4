"""A run with twenty writes in one reply, whose process is killed. Imported by tests.

    python -m tests.stage3_tools.resume.killed_writes FOLDER CAP KILLED KIND

At most CAP writes run at the same time. The one with the number KILLED kills the process, after the
others have begun. KIND is "async", or "plain" for a function that runs in a thread.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine, SqliteStore
from stage3_tools import NativeDialect, Tool, ToolLoopDeps, run_tool_loop

WRITES = 20
CALLS = [ToolCall(f"c{number}", "write", f'{{"number": {number}}}') for number in range(WRITES)]


def written(folder):
    """Return the numbers of the calls that have begun, in order."""
    log = Path(folder, "log")
    return [int(line) for line in log.read_text().split()] if log.exists() else []


async def run(folder, cap, killed=None, kind="async"):
    """Start the run; or resume it, if no call is to be killed."""

    def begin(number):
        with Path(folder, "log").open("a") as log:
            log.write(f"{number}\n")

    async def write(arguments):
        begin(arguments["number"])
        if arguments["number"] == killed:
            for _ in range(20):  # the others of this moment begin
                await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    def write_in_thread(arguments):
        begin(arguments["number"])
        if arguments["number"] == killed:
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    execute = write if kind == "async" else write_in_thread
    is_new = killed is not None
    replies = [Message.assistant("", CALLS)] if is_new else ["All done."]
    gateway = Gateway("openai:m", api_key="k", transport=ScriptedModel(replies))
    async with gateway, ContextEngine(store=SqliteStore(Path(folder, "sessions.db"))) as engine:
        if is_new:
            await engine.create_session("s")
        return await run_tool_loop(
            ToolLoopDeps(gateway, engine, tool_registry=[Tool("write", execute=execute)]),
            "s",
            "Write." if is_new else None,
            resume=not is_new,
            dialect=NativeDialect(),
            max_parallel_tools=cap,
        )


async def started(folder):
    """Return the numbers of the calls that the journal contains as started."""
    store = SqliteStore(Path(folder, "sessions.db"))
    records = [record for _, record in await store.read("s")]
    await store.aclose()
    return {int(each.call_id[1:]) for each in records if each.kind == "call_started"}


async def violations(folder, cap, killed, kind):
    """Kill a run in a process of its own and resume it; return what is wrong, or an empty list."""
    command = [sys.executable, "-m", __name__, folder, str(cap), str(killed), kind]
    process = await asyncio.to_thread(subprocess.run, command, check=False)
    began, recorded = written(folder), await started(folder)
    result = await run(folder, cap)
    statuses = [each.result.status for each in result.history]
    unknown = {number for number in recorded if f"c{number}" in unknown_ids(result)}
    times = Counter(written(folder))
    found = {
        "the process was not killed": process.returncode != -signal.SIGKILL,
        "a call began before that was recorded": not {*began} <= recorded,
        "more calls are unknown than can run at once": statuses.count("unknown_effect") > cap,
        "a call that had not started is unknown": statuses.count("unknown_effect") > len(unknown),
        "the killed call is not unknown": killed not in unknown,
        "another call than the killed one is unknown": cap == 1 and unknown != {killed},
        "a call ran twice": max(times.values()) > 1,
        "a call is lost": {*range(WRITES)} - times.keys() - unknown,
        "the run did not complete": result.reply != "All done.",
    }
    return [what for what, is_wrong in found.items() if is_wrong]


def unknown_ids(result):
    """Return the ids of the calls that may have happened."""
    return {each.id for each in result.history if each.result.status == "unknown_effect"}


if __name__ == "__main__":
    folder, cap, killed, kind = sys.argv[1:]
    asyncio.run(run(folder, int(cap), int(killed), kind))
