"""Stage 1: summarize a long conversation, and continue it in another process after a crash.

    .venv/bin/python examples/stage1_long_talk.py

Key points:
  1. A session in a SQLite file survives a crash, also during a tool call.
  2. Compaction replaces old messages with a summary in requests. The journal keeps all messages.
  3. `explain` lists which messages are sent, which are not, and why.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, Message, ToolCall
from stage1_context import ContextEngine, KeepSystemAndRecent, SqliteStore

SENTENCES = ("My name is Ada.", "I live in Oslo.", "I build ships.", "I like tea.")
OPEN_CALL = Message.assistant("", [ToolCall("call_1", "get_time", "{}")])


async def ask(gateway: Gateway, context: ContextEngine, question: str) -> None:
    """Append a question, send the messages of the window, append the reply."""
    await context.add_message("ada", Message.user(question))
    sent = await context.messages_for_request("ada")
    reply = await gateway.chat(sent)
    await context.add_message("ada", reply.message)
    print(f"  {question:17}{len(sent)} messages sent: {reply.content.split('. ')[0]}")


async def talk(gateway: Gateway, context: ContextEngine) -> None:
    """Fill the window, summarize, and end the process during a tool call."""
    await context.create_session("ada", system_prompt="Be brief.")
    for sentence in SENTENCES:
        await ask(gateway, context, sentence)
        compaction = await context.compact("ada", gateway)
        if compaction.done:
            print(f"  {compaction.reason} {await context.get_summary('ada')}")
    await context.add_message("ada", OPEN_CALL)
    print("  The model calls a tool, and the process crashes.", flush=True)
    os._exit(1)


async def resume(gateway: Gateway, context: ContextEngine) -> None:
    """Repair the history, continue the conversation, and explain the window."""
    print("  problems in the history:", await context.repair_history("ada"))
    await ask(gateway, context, "What is my name?")
    print(f"  {len(await context.history('ada'))} messages are stored.")
    print(await context.explain("ada"))


async def main(part: str, path: str) -> None:
    """Run one part in this process."""
    window = KeepSystemAndRecent(max_messages=6 if part == "talk" else 3)
    context = ContextEngine(store=SqliteStore(path), window=window)
    async with Gateway.from_env() as gateway, context:
        await (talk if part == "talk" else resume)(gateway, context)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(*sys.argv[1:]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("talk", "resume"):
                print(f"New process: {name}", flush=True)
                path = Path(folder) / "sessions.db"
                subprocess.run([sys.executable, __file__, name, str(path)])
