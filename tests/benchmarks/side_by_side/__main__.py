"""Costs of this project, compared with a handwritten loop and with similar libraries.

    python tests/benchmarks/side_by_side [--peers | --readme] [--runs N] [--only NAME …] [--to FOLDER]

Without `--peers` it measures this project, bare httpx and bare aiohttp, in about two minutes. With
`--peers` each peer gets its own virtual environment below `.bench/`, created once (minutes, some
GB), and the run takes half an hour. `--readme` measures only what the comparison of the README and
its page show, with the peers, in about five minutes; with `--store` it also writes both. The results
are written as JSON and as Markdown, with plots. Ends with 1 if a bar is missed, but not with
`--readme`.
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
import comparison
import plots
import report
import venvs
from pairs import Driver, beside, cores, medians, model_server
from starting import starting
from tables import without_machine
from tasks import DIALECTS, TASKS

BASE, OURS, OTHERS = "bare_httpx", ("ours", "ours_fast", "ours_ask"), ("bare_aiohttp",)


def main() -> int:
    """Measure, write the results, and print which bars hold."""
    options = arguments()
    with driving(options) as (drivers, skipped), model_server() as server:
        started = time.monotonic()  # without the installation
        results: dict[str, Any] = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": machine(),
            "only": options.only,
            "drivers": {each.name: each.about for each in drivers},
            "skipped": skipped,
            "path": list(paths(drivers, server, options)),
            "side by side": list(with_a_server(drivers, server, options)),
            "starting": list(started_anew(drivers, server, options)),
            "alone": [],
        }
    try:
        results["alone"] = (
            [] if options.only else [asdict(row) for row in alone.measure(options.runs or 5)]
        )
    except Exception as error:  # another library may change; the rest is measured
        skipped["what needs no server"] = without_machine(f"{type(error).__name__}: {error}")
    results["minutes"] = round((time.monotonic() - started) / 60, 1)
    write(results, options.to)
    if options.readme:
        print(f"\n{comparison.markdown(results)}")
    if options.store:
        comparison.store(results)
    return int(not options.readme and any(bar.missed for bar in bars.judged(results)))


def write(results: dict[str, Any], folder: Path) -> None:
    """Write the results and the plots, and print the report."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "results.md").write_text(report.markdown(results))
    plots.draw(results, folder)
    print(report.markdown(results))
    print(f"Written to {folder}: results.md, results.json, and the plots.")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
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
    parser.add_argument(
        "--readme", action="store_true", help="only what the comparison of the README shows"
    )
    parser.add_argument(
        "--store",
        action="store_true",
        help="write the results into the README and docs/performance",
    )
    options = parser.parse_args()
    if options.readme:
        options.peers, options.only = True, [*comparison.TASKS]
        options.to = comparison.FOLDER if options.store else options.to
    elif options.store:
        parser.error("--store needs --readme: the stored page contains the comparison only")
    return options


@contextmanager
def driving(options: argparse.Namespace) -> Iterator[tuple[list[Driver], dict[str, str]]]:
    """Yield the drivers, the base first, and the reasons for missing ones."""
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            del os.environ[name]
    drivers: list[Driver] = []
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        for name in (BASE, *OURS, *OTHERS, *(venvs.REQUIREMENTS if options.peers else ())):
            log(f"starting {name}")
            try:
                driver = Driver(name, str(venvs.python_of(name)))
                stack.callback(driver.close)
                drivers.append(driver)
            except (venvs.Skipped, RuntimeError, OSError) as error:
                if name in (BASE, *OURS):
                    raise
                skipped[name] = without_machine(str(error))
        yield drivers, skipped


def paths(
    drivers: list[Driver], server: str, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Trace the first question of each driver, in a new process for each dialect."""
    for driver in drivers:
        if "path" not in driver.can or not wanted(options, "path", driver.name):
            continue
        log(f"the path of one question: {driver.about['title']}")
        for dialect in (each for each in DIALECTS if each in driver.can):
            row = {"driver": driver.name, "dialect": dialect}
            fresh = Driver(driver.name, driver.python)
            try:
                row |= fresh.do("path", server=server, dialect=dialect)
                del row["listed"]  # path.py shows these
            except RuntimeError as error:
                row["error"] = without_machine(str(error))
            finally:
                fresh.close()
            yield row


def with_a_server(
    drivers: list[Driver], server: str, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Run each task with each driver that supports it."""
    for task in TASKS:
        given = {"server": server, **task.given}

        def measured(
            driver: Driver, way: str = task.way, given: dict[str, Any] = given
        ) -> dict[str, float]:
            return driver.do(way, **given)

        able = [each for each in drivers if task.needs in each.can]
        chosen = [each for each in able if wanted(options, task.name, each.name)]
        base = drivers[0] if drivers[0] in able else None
        for row in taking_turns(task.title, base, chosen, measured, options.runs or task.quick):
            yield {"task": task.name, **row}


def started_anew(
    drivers: list[Driver], server: str, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Measure the start of each driver."""
    chosen = [
        each
        for each in drivers
        if "shared client" in each.can and wanted(options, "starting", each.name)
    ]

    def measured(driver: Driver) -> dict[str, float]:
        return starting(driver, server, venvs.FOLDER / "compiled")

    yield from taking_turns("starting anew", drivers[0], chosen, measured, options.runs or 5)


def taking_turns(
    what: str,
    base: Driver | None,
    drivers: list[Driver],
    measured: Callable[[Driver], dict[str, float]],
    runs: int,
) -> Iterator[dict[str, Any]]:
    """Return one row per driver; the base's row has its median over all comparisons."""
    bases: list[dict[str, float]] = []
    for driver in drivers:
        if driver is base:
            continue
        log(f"{what}: {driver.about['title']}")
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


def wanted(options: argparse.Namespace, *names: str) -> bool:
    """Return whether the command line selects one of these names."""
    return not options.only or any(name.startswith(each) for name in names for each in options.only)


def machine() -> dict[str, Any]:
    """Describe the machine."""
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


def log(what: str) -> None:
    """Print progress for a person who watches."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
