"""`llm-stages sessions`: the stored conversations."""

import argparse
import asyncio

from llm_stages.cli.chat import open_engine
from llm_stages.cli.live import shortened
from llm_stages.cli.terminal import Terminal


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """List the sessions, or print one of them; return 0."""
    asyncio.run(_show(options.session, terminal) if options.session else _list(terminal))
    return 0


async def _list(terminal: Terminal) -> None:
    async with open_engine() as engine:
        found = []
        for info in await engine.sessions():
            questions = (await engine.history(info.id)).by_role("user")
            first = shortened(questions[0].text)[:60] if questions else ""
            written = info.updated.strftime("%Y-%m-%d %H:%M")
            found.append({"id": info.id, "written": written, "question": first})
    if terminal.as_json:
        terminal.json(found)
    else:
        terminal.table(
            ("session", "last written (UTC)", "question"), [[*each.values()] for each in found]
        )


async def _show(session_id: str, terminal: Terminal) -> None:
    async with open_engine() as engine:
        messages = await engine.history(session_id)
    if terminal.as_json:
        terminal.json([message.to_dict() for message in messages])
        return
    for message in messages:
        calls = ", ".join(f"{call.name} {call.arguments}" for call in message.tool_calls)
        terminal.text(f"{message.role}: {' '.join(filter(None, (message.text, calls)))}")
