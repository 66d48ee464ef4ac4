"""Try a model: 30 small tasks with tools, in both dialects, against its real server.

    make try-model MODEL=ollama:llama3.2 SERVER="Ollama 0.12, Q4_K_M"
    .venv/bin/python tests/try_model --model openai:gpt-5-mini --reasoning low --json low.json

Prints for each dialect and kind of task how many tasks succeeded, how often the model was
corrected, and the tokens and the time. "writes with text" counts the corrections of a reply that
called a write tool, but was not this call alone. The JSON file contains every task, with the texts of the
model. The Markdown file beside it is a report to send: it contains figures only, and neither keys nor
addresses. A run makes about 130 requests, which a provider charges for. Without `--model`, the environment
selects the model.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))  # import the packages of this checkout

from stage0_gateway import Gateway, GatewayError
from tests.try_model.trial import DIALECTS, Trial, read_tasks, try_task
from tests.try_model.trial_report import describe, figures, markdown

_ROW = "{:16} {:>8} {:>10} {:>9} {:>17} {:>8} {:>8}"


async def main() -> int:
    """Try the model; return the exit status."""
    options = _arguments()
    tasks = [task for task in read_tasks() if options.only in (None, task["name"], task["kind"])]
    if not tasks:
        print(f"Unknown task {options.only!r}. Pass a name or a kind of tasks.json.")
        return 2
    reasoning = int(options.reasoning) if options.reasoning.isdigit() else options.reasoning
    trials: dict[str, list[Trial]] = {}
    try:
        async with Gateway.from_env(options.model, reasoning=reasoning or None) as gateway:
            for dialect in DIALECTS:
                print(f"\n{gateway.model}, {dialect} dialect")
                trials[dialect] = []
                for task in tasks:
                    trial = await try_task(gateway, task, dialect)
                    trials[dialect].append(trial)
                    print("." if trial.problem is None else "F", end="", flush=True)
                _print_table(trials[dialect])
    except GatewayError as error:
        print(f"The model cannot be tried: {error}", file=sys.stderr)
        return 1
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    tried = describe(gateway.model, options.server, reasoning or None, date)
    every = {name: [asdict(trial) for trial in each] for name, each in trials.items()}
    written = json.dumps({**tried, "dialects": every}, indent=2, ensure_ascii=False)
    options.json.write_text(written, encoding="utf-8")
    report = options.json.with_suffix(".md")
    report.write_text(markdown(tried, trials), encoding="utf-8")
    print(f"\nAll results: {options.json}\nA report to send: {report}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", help='"provider:name"')
    parser.add_argument("--reasoning", default="", help="low, medium, high, or a number of tokens")
    parser.add_argument("--server", help="the server and its version, for the report")
    parser.add_argument("--only", help="the name of one task, or one kind of tasks")
    parser.add_argument("--json", type=Path, default=Path("try-model.json"), help="the JSON file")
    return parser.parse_args()


def _print_table(trials: list[Trial]) -> None:
    heads = ("solved", "first try", "feedback", "writes with text", "tokens", "seconds")
    print("\n" + _ROW.format("", *heads))
    for kind in dict.fromkeys(trial.kind for trial in trials):
        _print_row(kind, [trial for trial in trials if trial.kind == kind])
    _print_row("all", trials)
    for trial in trials:
        if trial.problem is not None:
            print(f"  {trial.name}: {trial.problem:.150}".replace("\n", " "))


def _print_row(label: str, trials: list[Trial]) -> None:
    print(_ROW.format(label, *figures(trials)))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
