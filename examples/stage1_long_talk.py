"""Stage 1: a long talk that is compacted, stopped dead in mid-call, and resumed in another process.

    python examples/stage1_long_talk.py

Key points:
  1. A session in a SQLite file outlives its process, also one that stops in the middle of a tool
  call. 2. A full window is compacted: a summary stands for the old messages, and the journal keeps
  them all. 3. What is sent, what is not, and why can be asked for.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the packages, before examples of the same name

from stage0_gateway import Gateway, Message, ToolCall
from stage1_context import ContextEngine, KeepSystemAndRecent, SqliteStore

TALK = ("My name is Ada.", "I live in Oslo.", "I build ships.", "I like tea.")


async def ask(gateway: Gateway, context: ContextEngine, question: str) -> None:
    """Add a question, send what the window shows, add the reply."""
    await context.add_message("ada", Message.user(question))
    shown = await context.messages_for_request("ada")
    reply = await gateway.chat(shown)
    await context.add_message("ada", reply.message)
    print(f"  {question:17}{len(shown)} messages sent: {reply.content.split('. ')[0]}")


async def main(part: str, store: SqliteStore) -> None:
    """Talk, summarize where the window is full, and stop in mid-call; then continue elsewhere."""
    window = KeepSystemAndRecent(max_messages=6 if part == "talk" else 3)
    async with Gateway.from_env() as gateway, ContextEngine(store=store, window=window) as context:
        if part == "talk":
            await context.create_session("ada", system_prompt="Be brief.")
            for question in TALK:
                await ask(gateway, context, question)
                if (compaction := await context.compact("ada", gateway.chat)).done:
                    print(f"  {compaction.reason} {await context.get_summary('ada')}")
            await context.add_message(
                "ada", Message.assistant("", [ToolCall("call_1", "get_time", "{}")])
            )
            print("  The model asks for a tool, and the process stops dead.", flush=True)
            os._exit(1)
        print("  wrong with the history:", await context.repair_history("ada"))
        await ask(gateway, context, "What is my name?")
        print(
            f"  {len(await context.history('ada'))} messages are kept.\n"
            f"{await context.explain('ada')}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1], SqliteStore(sys.argv[2])))
    else:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("talk", "resume"):
                print(f"A process of its own: {name}", flush=True)
                subprocess.run([sys.executable, __file__, name, str(Path(folder) / "sessions.db")])
