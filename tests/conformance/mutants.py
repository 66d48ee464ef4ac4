"""Change the files of the course in small ways, and check that the cases notice: `make mutants`.

The changes are the operators of cosmic-ray: another comparison, another number, a condition that is
reversed, a loop without a turn, and so on. A mutant is caught if a case of the course fails, if it
cannot be imported, or if it does not end. `survivors.json` explains why the others are allowed.
"""

import argparse
import ast
import difflib
import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the files of this checkout

from tests.conformance.case import STAGES, load_course_cases
from tests.conformance.course import FILES, load_course_file, replace_finished
from tests.conformance.grade import verdicts
from tests.conformance.starters import FINISHED
from tests.conformance.subject import SubjectError

SURVIVORS = Path(__file__).parent / "survivors.json"
LIMIT = 30.0
"""The seconds for the cases of one mutant."""

BAR = 0.95
"""The part of the mutants that must be caught."""

USED_BY = {"stage0": [], "stage1": ["stage2", "stage3"], "stage2": ["stage3"], "stage3": []}
"""The stages whose files call functions of this stage; their cases are run as well."""


@dataclass(frozen=True)
class Mutant:
    """One changed file.

    Attributes:
        stage: The stage.
        operator: The operator of cosmic-ray.
        text: The changed file.
        before: The lines that changed.
        after: The new lines.
    """

    stage: str
    operator: str
    text: str
    before: str
    after: str


def main(arguments: Sequence[str]) -> int:
    """Grade all mutants; return 1 if too many survive, or one is not explained."""
    parser = argparse.ArgumentParser(
        prog="python tests/conformance/mutants.py", description=__doc__
    )
    parser.add_argument("stages", nargs="*", metavar="stage", help=", ".join(STAGES))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    fails = False
    for stage in options.stages or STAGES:
        start = time.perf_counter()
        found = list(mutants(stage))
        results = list(results_of(found, options.processes))
        survived = [mutant for mutant, result in results if result == "survived"]
        caught = len(found) - len(survived)
        seconds = time.perf_counter() - start
        share = f"{caught} of {len(found)} caught ({caught / len(found):.1%})"
        print(f"{FILES[stage]}: {share}, {seconds:.0f} s")
        counts = sorted(Counter(result for _, result in results).items())
        print("  " + ", ".join(f"{name} {count}" for name, count in counts))
        unexplained = [each for each in survived if not reason(each)]
        for mutant in survived:
            print(f"\n  {mutant.operator}: {reason(mutant) or 'NOT EXPLAINED'}")
            print(indented("-", mutant.before) + "\n" + indented("+", mutant.after))
        fails = fails or caught / len(found) < BAR or bool(unexplained)
    return int(fails)


def indented(mark: str, lines: str) -> str:
    """Changed lines as in a diff."""
    return "\n".join(f"    {mark} {line}" for line in lines.splitlines())


def reason(mutant: Mutant) -> str:
    """Why a mutant is allowed to survive; empty if that is not known."""
    changed_lines = (mutant.stage, mutant.before, mutant.after)
    for row in json.loads(SURVIVORS.read_text(encoding="utf-8")):
        if (row["stage"], row["before"], row["after"]) == changed_lines:
            return str(row["reason"])
    return ""


# ---- mutants


def mutants(stage: str) -> Iterator[Mutant]:
    """Yield the mutants of the finished file of a stage."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    original = (FINISHED / FILES[stage]).read_text(encoding="utf-8")
    seen = {behavior(original)}
    for name in operator_names():
        if get_operator(name).arguments():  # such an operator changes named variables only
            continue
        for occurrence in range(10_000):
            try:
                text = mutate_code(original, get_operator(name)(), occurrence)
            except AttributeError:  # ExceptionReplacer cannot change `except module.Error`
                continue
            if text is None:
                break
            if (key := behavior(text)) not in seen:  # not a type hint, and no mutant twice
                seen.add(key)
                yield Mutant(stage, name.removeprefix("core/"), text, *changed(original, text))


def behavior(text: str) -> str:
    """A file without its type hints."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def changed(original: str, text: str) -> tuple[str, str]:
    """The lines that differ, without indentation."""
    lines = list(difflib.ndiff(original.splitlines(), text.splitlines()))
    before = [line[2:].strip() for line in lines if line.startswith("- ")]
    after = [line[2:].strip() for line in lines if line.startswith("+ ")]
    return "\n".join(before), "\n".join(after)


# ---- grading


def results_of(found: Iterable[Mutant], processes: int) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant with its result; several are graded at the same time."""
    waiting = deque(found)
    active: dict[Any, tuple[Mutant, Any, float]] = {}
    while waiting or active:
        while waiting and len(active) < processes:
            mutant = waiting.popleft()
            receiver, sender = multiprocessing.Pipe(duplex=False)
            process = multiprocessing.Process(target=graded, args=(mutant, sender))
            process.start()
            sender.close()
            active[receiver] = (mutant, process, time.monotonic() + LIMIT)
        ready = multiprocessing.connection.wait(list(active), timeout=0.1)
        for receiver, (mutant, process, deadline) in list(active.items()):
            if receiver in ready or time.monotonic() > deadline:
                yield mutant, received(receiver)
                process.kill()
                process.join()
                del active[receiver]


def received(receiver: Any) -> str:
    """The result that a process has sent; it sends none if it does not end, or crashes."""
    try:
        return str(receiver.recv()) if receiver.poll() else "endless"
    except EOFError:
        return "crashed"


def graded(mutant: Mutant, sender: Any) -> None:
    """Grade a mutant in this process, and send the result."""
    with open(os.devnull, "w") as nowhere, tempfile.TemporaryDirectory() as folder:
        sys.stdout = sys.stderr = nowhere
        path = Path(folder) / FILES[mutant.stage]
        path.write_text(mutant.text, encoding="utf-8")
        sender.send(result_of(mutant.stage, path))


def result_of(stage: str, path: Path) -> str:
    """Return how a changed file is caught, or "survived"."""
    try:
        if fails(stage, path):
            return "caught by its stage"
        replace_finished(stage, path)
        for other in USED_BY[stage]:
            if fails(other, FINISHED / FILES[other]):
                return "caught by a later stage"
    except SubjectError:
        return "not importable"
    return "survived"


def fails(stage: str, path: Path) -> bool:
    """Whether a file fails a case of the course."""
    cases = [each for each in load_course_cases(stage) if each.level != "INFO"]
    subject = load_course_file(path, stage)
    return any(each.status != "passed" for each in verdicts(subject, cases))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
