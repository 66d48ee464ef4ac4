"""Grade a file of the course, another Python file, or a program of any language."""

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.conformance.case import STAGES, Case, load_cases
from tests.conformance.course import FILES, OPERATIONS, functions_of, load_course_file
from tests.conformance.diagnosis import load_mistakes, sentences
from tests.conformance.grade import Graded, Verdict, verdicts
from tests.conformance.program import Program
from tests.conformance.report import Report, shows_color
from tests.conformance.starters import FINISHED, STARTERS, names_of
from tests.conformance.subject import Subject, SubjectError, load_module, syntax_tree

POLL_SECONDS = 0.2

MOST_ENDLESS = 3
"""The cases that may run into their time limit before the command stops."""


@dataclass(frozen=True)
class Options:
    """The arguments of the command; `--help` explains them."""

    stage: str | None
    file: Path | None
    command: str | None
    step: int | None
    hint: bool
    watch: bool
    all: bool


def main(arguments: Sequence[str]) -> int:
    """Grade a subject; return 1 if a MUST case failed, and 2 if there is nothing to grade."""
    if hasattr(sys.stdout, "reconfigure"):  # a console may not know every character
        sys.stdout.reconfigure(errors="replace")
    options = parsed(arguments)
    if not options.watch or options.file is None:
        return graded(options)
    try:
        for _ in changes(options.file):
            print(f"\n---- {time.strftime('%H:%M:%S')} ----\n", flush=True)
            graded(options)
            print("\nWaiting for a change. Ctrl-C ends.", flush=True)
    except KeyboardInterrupt:
        print()
    return 0


def parsed(arguments: Sequence[str]) -> Options:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(prog="python tests/conformance", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="[stage] file", help=f"{', '.join(STAGES)}; a Python file"
    )
    parser.add_argument("--command", help="a program that speaks JSON lines, instead of a file")
    parser.add_argument("--step", type=int, choices=range(1, 6), help="only this step")
    parser.add_argument("--hint", action="store_true", help="show a hint for the first failure")
    parser.add_argument("--watch", action="store_true", help="grade after every change of the file")
    parser.add_argument("--all", action="store_true", help="also the cases beyond the course")
    found = vars(parser.parse_args(arguments))
    targets = found.pop("targets")
    stages = [each for each in targets if each in STAGES]
    files = [Path(each) for each in targets if each not in STAGES]
    if len(stages) > 1 or len(files) != (0 if found["command"] else 1):
        parser.error("one file is needed, or a stage and --command")
    if found["command"] and not stages:
        parser.error(f"a program needs a stage: {', '.join(STAGES)}")
    if found["command"] and found["watch"]:
        parser.error("only a file can be watched")
    return Options(next(iter(stages), None), next(iter(files), None), **found)


def changes(path: Path) -> Iterator[None]:
    """Yield at once, and after every change of a file. An editor may replace the file."""
    before: object = ()
    while True:
        try:
            status = path.stat()
            now: object = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            now = None
        if now != before:
            before = now
            yield
        time.sleep(POLL_SECONDS)


def graded(options: Options) -> int:
    """Grade the subject once, and print the report."""
    try:
        stage, subject = load(options)
    except SubjectError as error:
        print(error)
        return 2
    cases = [
        case
        for case in load_cases(stage)
        if (options.all or case.step != "complete") and options.step in (None, case.step)
    ]
    found = until_endless(subject, cases)
    report = Report(titles(stage), subject.unwritten, options.hint, shows_color(sys.stdout))
    print(f"{subject.name}: {stage}\n")
    if not found:
        print("There are no cases.")
        return 2
    for line in report.lines(found, sentences(found, load_mistakes(stage))):
        print(line)
    if len(found) < len(cases):
        rest = len(cases) - len(found)
        print(f"{rest} cases were not run, because {MOST_ENDLESS} cases did not end.")
    return int(any(each.is_defect for each in found))


def until_endless(subject: Graded, cases: Sequence[Case]) -> list[Verdict]:
    """Grade the cases until some of them did not end: each of these takes seconds."""
    found: list[Verdict] = []
    for each in verdicts(subject, cases):
        found.append(each)
        if sum(each.is_endless for each in found) == MOST_ENDLESS:
            break
    return found


def titles(stage: str) -> dict[int, str]:
    """The titles of the steps of a stage."""
    text = (FINISHED / FILES[stage]).read_text(encoding="utf-8")
    return {int(step): title for step, title in re.findall(r"# ---- Step (\d+): (.+)", text)}


# ---- the subject


def load(options: Options) -> tuple[str, Graded]:
    """Return the stage and the subject.

    Raises:
        SubjectError: The subject cannot be loaded, or its stage is unknown.
    """
    if options.command and options.stage:
        return options.stage, Program(options.command)
    assert options.file is not None
    path = options.file
    if any("OPERATIONS" in names_of(node) for node in syntax_tree(path).body):
        operations = load_module(path).OPERATIONS
        stage = options.stage or stage_of_operations(path, set(operations))
        return stage, Subject(path.name, operations)
    stage = options.stage or stage_of_functions(path)
    return stage, load_course_file(path, stage)


def stage_of_functions(path: Path) -> str:
    """Return the stage of a file of the course, from the names of its functions."""
    known = {stage: set(functions_of(STARTERS / FILES[stage])) for stage in STAGES}
    return best_stage(path, set(functions_of(path)), known)


def stage_of_operations(path: Path, names: set[str]) -> str:
    """Return the stage of a file with OPERATIONS, from their names."""
    known = {stage: set(OPERATIONS[stage](ModuleType(stage))) for stage in STAGES}
    return best_stage(path, names, known)


def best_stage(path: Path, names: set[str], known: dict[str, set[str]]) -> str:
    """Return the stage with the most names in common.

    Raises:
        SubjectError: There is no such stage, or more than one.
    """
    shared = {stage: len(names & known[stage]) for stage in known}
    best = [stage for stage in shared if shared[stage] == max(shared.values()) > 0]
    if len(best) != 1:
        choices = "\n".join(f"  {stage}: {', '.join(sorted(known[stage]))}" for stage in known)
        raise SubjectError(
            f"The stage of {path.name} is unknown: its functions are not those of one stage.\n"
            f"{choices}\nWrite a function of a stage, or name the stage."
        )
    return best[0]
