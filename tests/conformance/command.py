"""The command of the suite: grade a file or a program, and print what to do next."""

import argparse
import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.case import STAGES, load_cases, shortened, size
from tests.conformance.course import load_course_file
from tests.conformance.grade import Graded, Verdict, grade
from tests.conformance.program import Program
from tests.conformance.subject import Subject, SubjectError, load_module


def load_subject(stage: str, path: Path) -> Subject:
    """Return the subject in a Python file: with OPERATIONS, or a file of the course."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise SubjectError(f"{path} cannot be read as Python: {error}") from error
    names = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if "OPERATIONS" in names:
        return Subject(path.name, load_module(path).OPERATIONS)
    return load_course_file(path, stage)


def main(arguments: Sequence[str]) -> int:
    """Grade a subject; return 1 if a MUST case failed."""
    parser = argparse.ArgumentParser(prog="python tests/conformance", description=__doc__)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("file", type=Path, nargs="?", help="a Python file")
    parser.add_argument("--command", help="a program that speaks JSON lines")
    parser.add_argument("--step", type=int, help="only this step of the course")
    parser.add_argument("--all", action="store_true", help="also the cases beyond the course")
    options = parser.parse_args(arguments)
    try:
        subject: Graded = (
            Program(options.command)
            if options.command
            else load_subject(options.stage, options.file)
        )
    except SubjectError as error:
        print(error)
        return 2
    cases = [
        case
        for case in load_cases(options.stage)
        if (options.all or case.step != "complete") and options.step in (None, case.step)
    ]
    verdicts = grade(subject, cases)
    print_report(verdicts)
    return any(each.is_defect for each in verdicts)


def print_report(verdicts: Sequence[Verdict]) -> None:
    """Print the progress of each step, and the failures."""
    steps = Counter(str(each.case.step) for each in verdicts)
    passed = Counter(str(each.case.step) for each in verdicts if each.status == "passed")
    for step, count in steps.items():
        print(f"step {step}: {passed[step]} of {count}")
    for each in sorted(verdicts, key=lambda each: size(each.case)):
        if each.status != "passed":
            print(f"{each.case.id} {each.status}: {each.case.rule}")
            print("   input:", shortened(each.case.input))
            for text in each.failures:
                print("  ", text)
