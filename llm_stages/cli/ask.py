"""`llm-stages ask`: answer one question, and show the calls while they happen."""

import argparse
import asyncio
import sys
from dataclasses import asdict
from typing import Any

from llm_stages.cli.live import LiveOutput, approver, open_gateway
from llm_stages.cli.terminal import Terminal
from llm_stages.cli.tool_file import load_tools
from llm_stages.runs.run_file import RunFile
from stage1_context import (
    ContextEngine,
)
from stage3_tools import (
    NativeDialect,
    PromptDialect,
    ToolLoopDeps,
    ToolLoopResult,
    run_tool_loop,
)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Answer the question; return 0 if there is a reply, else 1."""
    question = sys.stdin.read() if options.question == "-" else options.question
    if not question.strip():
        terminal.error("The question is empty.")
        return 2
    result = asyncio.run(_answer(question, options, terminal))
    if terminal.as_json:
        terminal.json(as_json(result))
    elif result.reply is None:
        terminal.error(f"{result.status}: {result.status_reason or 'there is no reply'}")
    return 0 if result.status == "completed" else 1


async def _answer(question: str, options: argparse.Namespace, terminal: Terminal) -> ToolLoopResult:
    live = LiveOutput(terminal)
    tools = load_tools(options.tools)
    settings = loop_options(options, terminal, live)
    async with open_gateway(options.model, terminal) as gateway, ContextEngine() as engine:
        deps = ToolLoopDeps(gateway, engine, tool_registry=tools, stream=not terminal.as_json)
        session_id = await engine.create_session()
        result = await run_tool_loop(deps, session_id, question, on_event=live.on_event, **settings)
    if result.reply is not None and not terminal.as_json:
        live.finish(result.reply)
    return result


def loop_options(options: argparse.Namespace, terminal: Terminal, live: LiveOutput) -> Any:
    """Return the options of the loop for the options of a command."""
    return {
        "dialect": NativeDialect() if options.native else PromptDialect(),
        "approve": approver(terminal, live),
        "approve_all": options.approve,
        "trace": open_trace(options),
    }


def open_trace(options: argparse.Namespace) -> RunFile | None:
    """Return the run file of a command with `--trace`; open it before the first question.

    Raises:
        RunFileError: The file is not a run file.
        OSError: The file cannot be opened.
    """
    if options.trace is None:
        return None
    file = RunFile(options.trace)
    file.open()
    return file


def as_json(result: ToolLoopResult) -> dict[str, Any]:
    """Return a result as plain data, for scripts."""
    return {
        "reply": result.reply,
        "status": result.status,
        "status_reason": result.status_reason,
        "tool_rounds": result.tool_rounds,
        "usage": asdict(result.usage),
        "cost": result.cost,
        "calls": [
            {
                "tool": record.name,
                "arguments": record.arguments,
                "status": record.result.status,
                "is_error": record.result.is_error,
            }
            for record in result.history
        ],
    }
