"""Change the packages in small ways, and check that the tests notice: `make mutants`.

A seed chooses a sample of the mutants of each room; the sample of a core room is larger.
`equivalents.json` lists the mutants that behave like the original, with the reason.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the files of this checkout

from tests.mutants.changes import Mutant, mutants_of
from tests.mutants.session import MutantSession

ROOT = Path(__file__).parents[2]
PACKAGES = ["stage0_gateway", "stage1_context", "stage2_output", "stage3_tools", "llm_stages"]
TESTS = "llm_stages/testing"
"""A room that contains tests for programs. No other test would notice a change of them."""

EQUIVALENTS = Path(__file__).parent / "equivalents.json"
CORE = [
    "stage3_tools/turn",
    "stage3_tools/loop",
    "stage3_tools/decision",
    "stage2_output/extraction",
    "stage1_context/view",
    "stage3_tools/execution",
    "stage3_tools/run",
    "stage1_context/transcript",
]
"""The rooms whose tests must notice 90 % of the mutants that are not equivalent."""

BAR = 0.9


def main(arguments: Sequence[str]) -> int:
    """Run the mutants of rooms; return 1 if a room of the core misses the bar."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="room", help="such as stage3_tools/run; all")
    parser.add_argument("--seed", type=int, default=1, help="chooses the mutants; 1")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    every = rooms()
    names = options.rooms or list(every)
    if unknown := [name for name in names if name not in every]:
        parser.error(f"Unknown rooms: {', '.join(unknown)}. The rooms are {', '.join(every)}.")
    chosen = {name: sample(every[name], options.seed, 40 if name in CORE else 12) for name in names}
    results = run([each for some in chosen.values() for each in some], options.processes)
    return report(chosen, results)


def rooms() -> dict[str, list[str]]:
    """Return the files of each room; a module of the top level is a room of its own."""
    found: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.stem not in ("__init__", "__main__"):
                name = path.relative_to(ROOT)
                room = "/".join(name.with_suffix("").parts[:2])
                found.setdefault(room, []).append(name.as_posix())
    del found[TESTS]
    return found


def sample(paths: Sequence[str], seed: int, number: int) -> list[Mutant]:
    """Return the mutants of a room for a seed. The others stay when a line changes."""
    found = [mutant for path in paths for mutant in mutants_of(ROOT, path)]
    return sorted(found, key=lambda mutant: rank(mutant, seed))[:number]


def rank(mutant: Mutant, seed: int) -> bytes:
    """Return a number that depends on the content of a mutant, not on its line."""
    change = f"{seed}\0{mutant.path}\0{mutant.before}\0{mutant.after}"
    return blake2b(change.encode(), digest_size=8).digest()


def run(mutants: Sequence[Mutant], processes: int) -> dict[Mutant, str]:
    """Return the result of each mutant."""
    results: dict[Mutant, str] = {}
    start = time.perf_counter()

    def on_result(mutant: Mutant, result: str) -> None:
        results[mutant] = result
        seconds = time.perf_counter() - start
        print(f"  {len(results)} of {len(mutants)}: {result}, {seconds:.0f} s", flush=True)

    session = MutantSession(ROOT, PACKAGES, mutants, on_result, processes)
    arguments = ["-q", "-p", "no:cacheprovider", "--capture=no", "tests"]
    status = pytest.main(arguments, plugins=[session])
    if len(results) < len(mutants):
        sys.exit(int(status) or 2)
    return results


def reasons() -> dict[tuple[str, str, str], str]:
    """Return why some mutants are equivalent, by their path and their lines."""
    rows = json.loads(EQUIVALENTS.read_text(encoding="utf-8"))
    return {(row["path"], row["before"], row["after"]): row["reason"] for row in rows}


def report(chosen: dict[str, list[Mutant]], results: dict[Mutant, str]) -> int:
    """Print the survivors and a table of the rooms; return 1 if a room of the core misses the bar."""
    missed, known = [], reasons()
    table = [f"{'room':32} mutants  equivalent  killed  share"]
    for room, mutants in chosen.items():
        survivors = [each for each in mutants if results[each] in ("survived", "not run")]
        explained = [known.get((each.path, each.before, each.after)) for each in survivors]
        equivalent = [each for each in explained if each]
        killed, all_others = len(mutants) - len(survivors), len(mutants) - len(equivalent)
        share = killed / all_others if all_others else 1.0
        table.append(f"{room:32} {len(mutants):7}  {len(equivalent):10}  {killed:6}  {share:5.0%}")
        if room in CORE and share < BAR:
            missed.append(room)
        for each, reason in zip(survivors, explained, strict=True):
            print(f"\n{each.path}:{each.lines[0]}  {each.operator}, {results[each]}")
            print(f"    {reason or 'NOT EXPLAINED'}")
            print("\n".join(f"    - {line}" for line in each.before.splitlines()))
            print("\n".join(f"    + {line}" for line in each.after.splitlines()))
    print("\n" + "\n".join(table))
    if missed:
        print(f"Below {BAR:.0%}: {', '.join(missed)}.")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
