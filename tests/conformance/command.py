"""Grade files of the course, another Python file, a known mistake, or a program of any language."""

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from tests.conformance.case import STAGES, Case, load_cases
from tests.conformance.course import FILES, OPERATIONS, functions_of
from tests.conformance.diagnosis import load_patterns, sentences
from tests.conformance.grade import Graded, Verdict, verdicts
from tests.conformance.known_mistakes import find_mistake
from tests.conformance.program import Program
from tests.conformance.python_file import PythonFile
from tests.conformance.report import Report, shows_color
from tests.conformance.starters import FINISHED, PAGES, STARTERS, names_of
from tests.conformance.subject import SubjectError, syntax_tree

POLL_SECONDS = 0.2

MOST_ENDLESS = 3
"""The cases that may run into their time limit before the command stops."""

MOST_ENDED = 10
"""The cases that may end the process of a file before the command stops."""

MOST_SECONDS = 120.0
"""The seconds until the command stops; a file needs about one."""

AFTER_THE_COURSE = "docs/learn/build/index.md#after-the-course-your-four-files-together"

SECONDS_OF_DEMO = 60.0
"""The time limit of the demo: with a key, a real model answers."""


@dataclass(frozen=True)
class Options:
    """The arguments of the command; `--help` explains them."""

    stage: str | None
    files: Sequence[Path]
    mistake: str | None
    command: str | None
    step: int | None
    hint: bool
    watch: bool
    all: bool


def main(arguments: Sequence[str]) -> int:
    """Grade subjects; return 1 if a MUST case failed, and 2 if there is nothing to grade."""
    if hasattr(sys.stdout, "reconfigure"):  # a console may not know every character
        sys.stdout.reconfigure(errors="replace")
    options = parsed(arguments)
    if options.stage and options.mistake:
        return graded_mistake(options.stage, options.mistake, options)
    if not options.watch:
        return graded(options)
    try:
        for _ in changes(options.files):
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
        "targets",
        nargs="*",
        metavar="[stage] file …",
        help=f"{', '.join(STAGES)}; a Python file, or several, each of another stage; or the name"
        " of a known mistake of the stage",
    )
    parser.add_argument("--command", help="a program that speaks JSON lines, instead of a file")
    parser.add_argument("--step", type=int, choices=range(1, 6), help="only this step")
    parser.add_argument("--hint", action="store_true", help="show a hint for the first failure")
    parser.add_argument("--watch", action="store_true", help="grade after every change of the file")
    parser.add_argument("--all", action="store_true", help="also the cases beyond the course")
    found = vars(parser.parse_args(arguments))
    targets = [name for each in found.pop("targets") for name in names_in(each)]
    stages = [each for each in targets if each in STAGES]
    files = [Path(each) for each in targets if each not in STAGES]
    if len(stages) > 1 or bool(files) == bool(found["command"]):
        parser.error("a file is needed, or a stage and --command")
    names = [str(each) for each in files if not each.suffix and not each.exists()]
    if names and not stages:
        parser.error(
            f"unknown stage {', '.join(names)}; the stages are {', '.join(STAGES)}, and the name of"
            " a known mistake needs its stage in front of it"
        )
    if stages and len(files) > 1:
        parser.error("the stages of several files are recognized; do not name one")
    if found["command"] and not stages:
        parser.error(f"a program needs a stage: {', '.join(STAGES)}")
    if found["watch"] and (found["command"] or names):
        parser.error("only a file can be watched")
    return Options(next(iter(stages), None), files, next(iter(names), None), **found)


def names_in(target: str) -> list[str]:
    """The names in one argument: FILE of make contains several files with spaces between them."""
    return [target] if Path(target).exists() else target.split() or [target]


def changes(paths: Sequence[Path]) -> Iterator[None]:
    """Yield at once, and after every change of a file. An editor may replace the file."""
    before: object = ()
    while True:
        now = [state_of(path) for path in paths]
        if now != before:
            before = now
            yield
        time.sleep(POLL_SECONDS)


def state_of(path: Path) -> object:
    """What changes when a file is written."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def graded_mistake(stage: str, name: str, options: Options) -> int:
    """Grade a known mistake as if a learner had written its file; return the status."""
    try:
        with find_mistake(stage, name).file() as path:
            return graded(replace(options, files=[path]))
    except SubjectError as error:
        print(error)
        return 2


def graded(options: Options) -> int:
    """Grade the subjects once, and print the reports; return the status."""
    try:
        subjects = list(load(options))
    except SubjectError as error:
        print(error)
        return 2
    statuses = []
    for number, (stage, subject) in enumerate(subjects):
        print("\n" * (2 if number else 0), end="")
        statuses.append(graded_subject(stage, subject, options))
    files = {stage: path for (stage, _), path in zip(subjects, options.files, strict=False)}
    if len(files) == len(STAGES) and not any(statuses):
        statuses.append(answered_question(files))
    return max(statuses)


def graded_subject(stage: str, subject: Graded, options: Options) -> int:
    """Grade one subject, and print its report."""
    cases = [
        case
        for case in load_cases(stage)
        if (options.all or case.step != "complete") and options.step in (None, case.step)
    ]
    if not cases:
        print("There are no cases.")
        return 2
    try:
        found, reason = until_stopped(subject, cases)
    except SubjectError as error:
        print(error)
        return 2
    report = report_of(stage, subject, options)
    print(f"{subject.name}: {stage}\n")
    for line in report.lines(found, sentences(found, load_patterns(stage))):
        print(line)
    missing = cases[len(found) :]
    if missing:
        print(f"{len(missing)} cases were not run, because {reason}.")
    if subject.defect:
        print(subject.defect)
    return int(
        bool(subject.defect)
        or any(each.is_defect for each in found)
        or any(each.level == "MUST" for each in missing)
    )


def until_stopped(subject: Graded, cases: Sequence[Case]) -> tuple[list[Verdict], str]:
    """Grade the cases until it takes too long; return why the others were not run.

    Raises:
        SubjectError: The subject cannot be loaded.
    """
    found: list[Verdict] = []
    end = time.monotonic() + MOST_SECONDS
    for each in verdicts(subject, cases):
        found.append(each)
        if sum(verdict.is_endless for verdict in found) == MOST_ENDLESS:
            return found, f"{MOST_ENDLESS} cases did not end"
        if sum(verdict.has_stopped for verdict in found) == MOST_ENDED:
            return found, f"{MOST_ENDED} cases ended the program"
        if time.monotonic() > end:
            return found, f"the others took {MOST_SECONDS:g} seconds"
    return found, ""


def answered_question(files: Mapping[str, Path]) -> int:
    """Run the demo with the learner's files of all stages, and print what it prints."""
    demo = PythonFile(FINISHED / "demo.py", "demo", files, True, SECONDS_OF_DEMO)

    async def run() -> dict[str, object]:
        try:
            await demo.start()
            return await demo.perform("main", {})
        finally:
            await demo.stop()

    print("\n\nYour files answer a question (examples/from_scratch/demo.py):\n")
    try:
        outcome = asyncio.run(run())
    except SubjectError as error:
        print(error)
        return 1
    print(outcome.get("printed", ""), end="")
    print(outcome.get("crash", ""))
    return int(outcome.get("value") != 0)


def report_of(stage: str, subject: Graded, options: Options) -> Report:
    """The report of a subject; a file of the course has steps."""
    functions: dict[int, list[str]] = {}
    if isinstance(subject, PythonFile) and not subject.has_operations:
        for name, (step, _) in functions_of(STARTERS / FILES[stage]).items():
            functions.setdefault(step, []).append(name)
    pages = [*(f"docs/learn/build/{PAGES[FILES[each]]}" for each in STAGES), AFTER_THE_COURSE]
    following = pages[STAGES.index(stage) + 1] if functions and not options.all else ""
    return Report(
        titles(stage),
        subject.unwritten,
        options.hint,
        shows_color(sys.stdout),
        functions,
        options.step if functions else None,
        following,
    )


def titles(stage: str) -> dict[int, str]:
    """The titles of the steps of a stage."""
    text = (FINISHED / FILES[stage]).read_text(encoding="utf-8")
    return {int(step): title for step, title in re.findall(r"# ---- Step (\d+): (.+)", text)}


# ---- the subject


def load(options: Options) -> Iterator[tuple[str, Graded]]:
    """Yield each subject with its stage. A file imports the learner's files of earlier stages.

    Raises:
        SubjectError: A file cannot be read, or its stage is unknown.
    """
    if options.command and options.stage:
        yield options.stage, Program(options.command)
        return
    stages = [options.stage or stage_of(path) for path in options.files]
    files = dict(zip(stages, options.files, strict=True))
    if len(files) < len(stages):
        raise SubjectError(f"Each file needs another stage. These are: {', '.join(stages)}.")
    for stage, path in files.items():
        others = {other: files[other] for other in STAGES if other in files and other < stage}
        yield stage, PythonFile(path, stage, others, has_operations(path))


def has_operations(path: Path) -> bool:
    """Whether a file defines OPERATIONS, and is not a file of the course."""
    return any("OPERATIONS" in names_of(node) for node in syntax_tree(path).body)


def stage_of(path: Path) -> str:
    """Return the stage of a file, from the names of its functions or operations."""
    if not has_operations(path):
        return stage_of_functions(path)
    file = PythonFile(path, "", has_operations=True)

    async def operations() -> set[str]:
        try:
            await file.start()
            return set(file.operations)
        finally:
            await file.stop()

    return stage_of_operations(path, asyncio.run(operations()))


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
