"""`llm-stages replay` and `llm-stages diff`: repeat a run, change it, or compare two runs."""

import argparse
import asyncio
from collections.abc import Iterable
from dataclasses import asdict

from llm_stages.cli.ask import as_json
from llm_stages.cli.live import approver, open_gateway
from llm_stages.cli.terminal import Terminal, counted
from llm_stages.cli.tool_file import load_tools
from llm_stages.runs.compare import ComparedPart, ComparedTurn, compare_runs
from llm_stages.runs.fork import Fork, fork_run
from llm_stages.runs.page.comparison import render_comparison
from llm_stages.runs.reader import read_run, read_runs
from llm_stages.runs.replay import Difference, replay
from stage0_gateway import (
    write_private,
)
from stage3_tools import (
    ToolLoopResult,
)

_CHANGES = ("edit", "message", "tools", "model", "output")


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Replay all runs of a file; return 1 if anything differs. With --from, continue the newest."""
    if options.from_turn is not None:
        return _fork(options, terminal)
    if given := [name for name in _CHANGES if getattr(options, name) is not None]:
        terminal.error(f"--{given[0]} changes a run; name the turn as well: --from 1.")
        return 2
    differences: list[Difference] = []
    runs = read_runs(options.file)
    if not runs:
        raise ValueError(f"{options.file} contains no run.")
    for each in runs:
        differences += asyncio.run(replay(each))
    if terminal.as_json:
        terminal.json([{**asdict(each), "text": str(each)} for each in differences])
    else:
        for difference in differences:
            _print_lines(str(difference).splitlines(), terminal)
        turns = sum(len(each.turns) for each in runs)
        result = counted(len(differences), "difference") if differences else "identical"
        terminal.text(f"{counted(len(runs), 'run')}, {counted(turns, 'turn')}: {result}.")
    return 1 if differences else 0


def _fork(options: argparse.Namespace, terminal: Terminal) -> int:
    source = read_run(options.file)
    reply = options.edit.read_text(encoding="utf-8").removesuffix("\n") if options.edit else None
    target = options.output or options.file.with_name(
        f"{options.file.stem}-from-{options.from_turn}.jsonl"
    )
    if target.exists():
        terminal.error(f"{target} exists already. Select another file with -o.")
        return 2
    fork = Fork(
        turn=options.from_turn,
        reply=reply,
        message=options.message,
        tools=load_tools(options.tools) if options.tools else None,
        approve=approver(terminal),
    )

    async def continue_run() -> ToolLoopResult:
        async with open_gateway(options.model or source.model, terminal) as gateway:
            origin = options.file if source.model else "the environment"
            terminal.note(
                f"Asking {gateway.model}, named by {'--model' if options.model else origin}."
            )
            return await fork_run(source, gateway, fork, options.file, target)

    result = asyncio.run(continue_run())
    if terminal.as_json:
        terminal.json(as_json(result))
    else:
        terminal.reply(result.reply or f"{result.status}: {result.status_reason}")
        terminal.note(f"Wrote {target}.")
    return 0 if result.status == "completed" else 1


def _print_lines(lines: Iterable[str], terminal: Terminal) -> None:
    """Print the lines of a difference, with colors for removed and added ones."""
    for line in lines:
        terminal.text(line, {"  -": "red", "  +": "green"}.get(line[:3], ""))


def diff(options: argparse.Namespace, terminal: Terminal) -> int:
    """Compare the newest runs of two files; return 1 if they differ."""
    turns = compare_runs(read_run(options.first), read_run(options.second))
    found = [(turn, part) for turn in turns for part in turn.parts if not part.is_equal]
    if options.output is not None:
        page = render_comparison(turns, options.first.name, options.second.name)
        write_private(options.output, page)
        terminal.note(f"Wrote {options.output}.")
    if terminal.as_json:
        terminal.json(
            [
                {"turn": turn.number, "part": part.name, "first": part.first, "second": part.second}
                for turn, part in found
            ]
        )
    elif options.output is None:
        _print_comparison(turns, found, terminal)
    return 1 if found else 0


def _print_comparison(
    turns: list[ComparedTurn], found: list[tuple[ComparedTurn, ComparedPart]], terminal: Terminal
) -> None:
    for turn, part in found:
        title = f"turn {turn.number}, {part.name}" if turn.number else "ending"
        terminal.text(f"{title}:", "bold")
        _print_lines([f"  {line}" for line in part.lines()], terminal)
    *others, end = turns
    different = sum(not turn.is_equal for turn in others)
    result = f"{different} of {counted(len(others), 'turn')} differ" if found else "identical"
    terminal.text(f"{result}{'' if end.is_equal else ', and the ending'}.")
