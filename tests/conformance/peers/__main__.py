"""Grade other libraries with the same cases, and write docs/learn/build/peers.md.

    make grade-peers

Each peer needs its package; `make grade-peers` installs all of them into an environment of its own.
A case outside of what a peer claims counts as not applicable.
"""

import importlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.conformance.case import STAGES, Case, load_cases
from tests.conformance.grade import Verdict, grade
from tests.conformance.subject import Subject

PEERS = (
    "openai_sdk",
    "anthropic_runner",
    "pydantic_ai_agent",
    "openai_agents",
    "langchain_agent",
    "smolagents_agent",
)
PAGE = Path(__file__).parents[3] / "docs" / "learn" / "build" / "peers.md"
SECONDS = 20.0
"""The time limit of a case: the waits of peers between two attempts cannot be changed."""


def graded(name: str) -> tuple[str, list[Verdict]] | None:
    """Return the title of a peer with its versions, and its verdicts; None if it is missing."""
    try:
        peer = importlib.import_module(f"tests.conformance.peers.{name}")
        versions = ", ".join(f"{package} {version(package)}" for package in peer.PACKAGES)
    except (ImportError, PackageNotFoundError) as error:
        print(f"{name}: skipped, {error}")
        return None
    cases = [case for stage in STAGES for case in load_cases(stage) if is_claimed(case, peer)]
    print(f"{name}: {len(cases)} cases …", flush=True)
    return f"{peer.TITLE} ({versions})", grade(Subject(name, peer.OPERATIONS), cases, SECONDS)


def is_claimed(case: Case, peer: object) -> bool:
    """Whether a peer has the operation of a case, and claims what the case checks."""
    claims = getattr(peer, "claims", lambda case: True)
    operations = getattr(peer, "OPERATIONS", {})
    return case.operation in operations and case.level != "INFO" and claims(case)


def page(results: Sequence[tuple[str, list[Verdict]]]) -> str:
    """Return the page with the table and the failed rules."""
    lines = [
        "[Docs](../../index.md) > [Build it yourself](index.md) > **Other libraries**",
        "",
        "# Other libraries, graded with the same cases",
        "",
        f"`make grade-peers` wrote this page on {date.today().isoformat()}. Each library answers the "
        "cases through a small adapter in `tests/conformance/peers/`, without a network. "
        "A case outside of what a library claims is not applicable: another format, the prompt "
        "dialect, or a schema that a function signature cannot express.",
        "",
        "| library | MUST passed | MUST failed | SHOULD passed | SHOULD failed | not applicable |",
        "| :-- | --: | --: | --: | --: | --: |",
    ]
    for title, verdicts in results:
        count = Counter((each.case.level, each.status) for each in verdicts)
        other = sum(each.status == "unsupported" for each in verdicts)
        numbers = [
            count[level, status] for level in ("MUST", "SHOULD") for status in ("passed", "failed")
        ]
        lines.append(f"| {title} | {' | '.join(map(str, numbers))} | {other} |")
    for title, verdicts in results:
        lines += ["", f"## {title.partition(' (')[0]}", "", *failed_rules(verdicts)]
    return "\n".join(lines) + "\n"


def failed_rules(verdicts: Iterable[Verdict]) -> list[str]:
    """The rules that a library does not follow, with their cases."""
    rules: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in verdicts:
        if each.status == "failed":
            rules[each.case.level, each.case.rule].append(each.case.id)
    if not rules:
        return ["Every applicable case passed."]
    return [f"- {level}: {rule} ({', '.join(ids)})" for (level, rule), ids in rules.items()]


def main() -> None:
    """Grade all peers."""
    results = [found for name in PEERS if (found := graded(name))]
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(results), encoding="utf-8")
    print(page(results))


if __name__ == "__main__":
    main()
