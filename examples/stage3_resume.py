"""Stage 3: a process that dies while a tool runs, and another one that goes on.

    python examples/stage3_resume.py

Key points:
  1. The journal says when a tool begins, and what came of it; nothing else outlives the process.
  2. `resume=True`: what had ended is not run again, what had not begun is run now.
  3. A write that had begun is never run again: nobody knows, and the model is told so.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage1_context import ContextEngine, SqliteStore
from stage2_output import OutputController
from stage3_tools import (
    NativeDialect,
    Tool,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolRegistry,
    run_tool_loop,
)

STEPS = ("book_train", "pay", "write_to_ada")


def run(step: str, arguments: object) -> str:
    """What the three tools do (invented); in the middle of `pay` the process dies."""
    print("  running:", step, flush=True)
    if step == "pay":
        os._exit(1)
    return "Done."


async def main(part: str, path: str) -> None:
    """Begin in one process, and go on in the next."""
    steps = ToolRegistry(
        *(Tool(each, "A step.", None, partial(run, each), exclusive=True) for each in STEPS)
    )
    calls = Message.assistant("", [ToolCall("", each, "{}") for each in STEPS])
    options = ToolLoopOptions(dialect=NativeDialect())
    model = ScriptedModel([calls if part == "begin" else "Please look whether it was paid."])
    context = ContextEngine(store=SqliteStore(path))
    async with Gateway("openai:any", api_key="none", transport=model) as gateway, context:
        deps = ToolLoopDeps(gateway.chat, context, OutputController(), steps)
        if part == "begin":
            await run_tool_loop(deps, await context.create_session("trip"), "To Rome!", options)
        await run_tool_loop(deps, "trip", None, options, resume=True)
        for message in list(await context.history("trip"))[
            2:
        ]:  # the first are the question and the calls
            print(f"  {message.name or message.role}: {message.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(*sys.argv[1:]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("begin", "go on"):
                print(f"A process of its own: {name}", flush=True)
                subprocess.run([sys.executable, __file__, name, str(Path(folder) / "sessions.db")])
