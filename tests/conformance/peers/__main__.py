"""Grade other libraries with the same cases, and write docs/learn/build/peers.md.

    make grade-peers

Each library needs its package; `make grade-peers` installs all of them into an environment of its own.
`libraries.py` lists them. An adapter is a module with these names:

    OPERATIONS         the operations; see subject.py
    outside(case)      why a case is outside of its claims; empty if it is graded
    prepared(case)     optional: the case in the form that the library requires
"""

import importlib
import sys
from collections.abc import Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from tests.conformance.case import STAGES, Case, load_cases
from tests.conformance.grade import Verdict, grade
from tests.conformance.peers.libraries import LIBRARIES, Library
from tests.conformance.peers.outcomes import ending, observed
from tests.conformance.peers.page import (
    PAGE,
    SECONDS,
    Failed,
    Result,
    all_cases,
    load_results,
    page,
    rows_of,
    save_results,
)
from tests.conformance.peers.rules import RULES
from tests.conformance.subject import Subject


def graded(library: Library) -> Result | None:
    """Grade a library; None if a package is missing."""
    try:
        peer = importlib.import_module(f"tests.conformance.peers.{library.module}")
        versions = ", ".join(f"{package} {version(package)}" for package in library.packages)
    except (ImportError, PackageNotFoundError) as error:
        print(f"{library.title}: skipped, {error}")
        return None
    print(f"{library.title} …", flush=True)
    outside, claimed = {}, []
    for case in cases_of(peer):
        if reason := peer.outside(case):
            outside[case.id] = reason
        else:
            claimed.append(getattr(peer, "prepared", lambda case: case)(case))
    verdicts = grade(Subject(library.module, peer.OPERATIONS), claimed, SECONDS)
    return result_of(versions, verdicts, outside)


def result_of(versions: str, verdicts: Sequence[Verdict], outside: dict[str, str]) -> Result:
    """Return the result of these verdicts."""
    unsupported = [each for each in verdicts if each.status == "unsupported"]
    return Result(
        versions,
        passed=[each.case.id for each in verdicts if each.status == "passed"],
        failed={
            each.case.id: Failed(observed(each.case, each.outcome), ending(each.outcome))
            for each in verdicts
            if each.status == "failed"
        },
        outside=outside | {each.case.id: str(each.failures[0]) for each in unsupported},
    )


def cases_of(peer: ModuleType) -> list[Case]:
    """The cases of a peer's operations, without those that are for comparison only."""
    return [
        case
        for stage in STAGES
        for case in load_cases(stage)
        if case.operation in peer.OPERATIONS and case.level != "INFO"
    ]


def undeclared(results: dict[str, Result]) -> list[str]:
    """The rules that a library violates, and whose places are not declared, as lines."""
    cases = all_cases()
    return [
        f"{row.case.rule!r} ({row.case.id}, {library.title}): {', '.join(row.places)}"
        for library in LIBRARIES
        if library.module in results
        for row in rows_of(library, results[library.module], cases)
        if row.case.rule not in RULES
    ]


def main(names: Sequence[str]) -> None:
    """Grade all libraries, or those with these modules, and write the page."""
    day, results = load_results()
    chosen = [each for each in LIBRARIES if not names or each.module in names]
    found = {each.module: result for each in chosen if (result := graded(each))}
    save_results(
        day if names else date.today().isoformat(), {**(results if names else {}), **found}
    )
    text = page(*load_results())
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    if lines := undeclared(found):
        print("Declare in rules.py the places of these rules, then run `make course`:")
        print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
