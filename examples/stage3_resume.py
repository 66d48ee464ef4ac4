"""Stage 3: resume a run whose process crashed during a tool call.

    .venv/bin/python examples/stage3_resume.py

Key points:
  1. The journal records the start and the result of each call. It survives the process.
  2. `resume=True` keeps the results of finished calls, and runs the calls that did not start.
  3. A write that started is not run again. The model learns that it may have happened.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine, SqliteStore
from stage3_tools import NativeDialect, Tool, ToolLoopDeps, run_tool_loop

STEPS = ("book_train", "pay", "write_to_ada")


def run_step(step: str, arguments: object) -> str:
    """Run one of the three tools (invented); `pay` ends the process."""
    print("  running:", step, flush=True)
    if step == "pay":
        os._exit(1)
    return "Done."


async def main(part: str, path: str) -> None:
    """Start the run in one process, and resume it in the next one."""
    tools = [
        Tool(step, "A step.", None, partial(run_step, step), effect="write", exclusive=True)
        for step in STEPS
    ]
    calls = Message.assistant("", [ToolCall("", step, "{}") for step in STEPS])
    model = ScriptedModel([calls if part == "start" else "Please check the payment."])
    context = ContextEngine(store=SqliteStore(path))
    async with Gateway("openai:any", api_key="none", transport=model) as gateway, context:
        deps = ToolLoopDeps(gateway, context, tool_registry=tools)
        dialect = NativeDialect()
        if part == "start":
            await context.create_session("trip")
            await run_tool_loop(deps, "trip", "To Rome!", dialect=dialect)
        else:
            await run_tool_loop(deps, "trip", None, dialect=dialect, resume=True)
        for message in list(await context.history("trip"))[2:]:  # after the question and the calls
            print(f"  {message.name or message.role}: {message.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(*sys.argv[1:]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("start", "resume"):
                print(f"New process: {name}", flush=True)
                path = Path(folder) / "sessions.db"
                subprocess.run([sys.executable, __file__, name, str(path)])
