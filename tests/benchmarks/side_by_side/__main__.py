"""What this project costs beside a loop written by hand, and beside others of its kind.

    python tests/benchmarks/side_by_side [--peers] [--runs N] [--only NAME …] [--to FOLDER]

Without `--peers` it takes about two minutes: this project, bare httpx and bare aiohttp. With it each peer gets a
virtual environment of its own below `.bench/`, made the first time (minutes, some GB), and all of
it takes half an hour. The results are written as JSON and as Markdown, with plots; ends with 1
where a bar is missed.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import alone
import bars
import plots
import report
import venvs
from pairs import Driver, beside, cores, medians, model_server
from starting import starting
from tables import without_machine
from tasks import TASKS

BASE, OURS, OTHERS = "bare_httpx", ("ours", "ours_fast"), ("bare_aiohttp",)


def main() -> int:
    """Measure, write, and say which bars hold."""
    asked = arguments()
    started = time.monotonic()
    with driving(asked) as (drivers, skipped), model_server() as server:
        results: dict[str, Any] = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": machine(),
            "only": asked.only,
            "drivers": {each.name: each.about for each in drivers},
            "skipped": skipped,
            "side by side": list(with_a_server(drivers, server, asked)),
            "starting": list(started_anew(drivers, server, asked)),
            "alone": [],
        }
    try:
        results["alone"] = (
            [] if asked.only else [asdict(row) for row in alone.measure(asked.runs or 5)]
        )
    except Exception as error:  # another library may answer otherwise one day; the rest is measured
        skipped["what needs no server"] = without_machine(f"{type(error).__name__}: {error}")
    results["minutes"] = round((time.monotonic() - started) / 60, 1)
    write(results, asked.to)
    return int(any(bar.missed for bar in bars.judged(results)))


def write(results: dict[str, Any], folder: Path) -> None:
    """Write the results, and show them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "results.md").write_text(report.markdown(results))
    plots.draw(results, folder)
    print(report.markdown(results))
    print(f"Written to {folder}: results.md, results.json, and the plots.")


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="What this project costs beside others.")
    parser.add_argument(
        "--peers",
        action="store_true",
        help="also other frameworks, each in an environment of its own",
    )
    parser.add_argument(
        "--runs", type=int, help="how often each thing is measured; the default differs by thing"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], help="tasks or drivers whose names begin so"
    )
    parser.add_argument(
        "--to", type=Path, default=Path(".bench/results"), help="the folder the results go to"
    )
    return parser.parse_args()


@contextmanager
def driving(asked: argparse.Namespace) -> Iterator[tuple[list[Driver], dict[str, str]]]:
    """The drivers, the base first; and why others are missing."""
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            del os.environ[name]
    drivers: list[Driver] = []
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        for name in (BASE, *OURS, *OTHERS, *(venvs.REQUIREMENTS if asked.peers else ())):
            say(f"starting {name}")
            try:
                driver = Driver(name, str(venvs.python_of(name)))
                stack.callback(driver.close)
                drivers.append(driver)
            except (venvs.Skipped, RuntimeError, OSError) as error:
                if name in (BASE, *OURS):
                    raise
                skipped[name] = without_machine(str(error))
        yield drivers, skipped


def with_a_server(
    drivers: list[Driver], server: str, asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Each task by each driver that can do it."""
    for task in TASKS:
        given = {"server": server, **task.given}

        def measured(
            driver: Driver, way: str = task.way, given: dict[str, Any] = given
        ) -> dict[str, float]:
            return driver.do(way, **given)

        able = [each for each in drivers if task.needs in each.can]
        chosen = [each for each in able if wanted(asked, task.name, each.name)]
        base = drivers[0] if drivers[0] in able else None
        for row in taking_turns(task.title, base, chosen, measured, asked.runs or task.quick):
            yield {"task": task.name, **row}


def started_anew(
    drivers: list[Driver], server: str, asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """What it costs to start each."""
    chosen = [each for each in drivers if wanted(asked, "starting", each.name)]

    def measured(driver: Driver) -> dict[str, float]:
        return starting(driver, server, venvs.FOLDER / "compiled")

    yield from taking_turns("starting anew", drivers[0], chosen, measured, asked.runs or 5)


def taking_turns(
    what: str,
    base: Driver | None,
    drivers: list[Driver],
    measured: Callable[[Driver], dict[str, float]],
    runs: int,
) -> Iterator[dict[str, Any]]:
    """One row for each driver; the base's is what it was beside the others."""
    bases: list[dict[str, float]] = []
    for driver in drivers:
        if driver is base:
            continue
        say(f"{what}: {driver.about['title']}")
        try:
            bare = partial(measured, base) if base else dict[str, float]
            found = asdict(beside(bare, partial(measured, driver), runs))
            bases.append(found.pop("base"))
            yield {"driver": driver.name, **found}
        except RuntimeError as error:
            yield {"driver": driver.name, "error": without_machine(str(error))}
    if base and bases:
        figures = medians(bases)
        yield {
            "driver": base.name,
            "figures": figures,
            "ratios": {},
            "above": {},
            "runs": runs * len(bases),
        }


def wanted(asked: argparse.Namespace, *names: str) -> bool:
    """Whether that was asked for."""
    return not asked.only or any(name.startswith(each) for name in names for each in asked.only)


def machine() -> dict[str, Any]:
    """What it is measured on."""
    processor = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(
            (line.partition(":")[2].strip() for line in lines if "model name" in line), processor
        )
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "a core each": bool(cores()[0]),
        "system": platform.system(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def say(what: str) -> None:
    """Progress, where a person looks on."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
