"""The report of a tried model as Markdown, for a reader who sends it.

It contains figures and the names of tasks, but no address, no key and no text of the model: the
JSON file has the texts. Its first table has the columns of `docs/performance/models.md`.
"""

import hashlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.try_model.trial import Trial

COLUMNS = (
    "model",
    "server",
    "reasoning",
    "dialect",
    "solved",
    "first try",
    "feedback",
    "writes with text",
    "tokens",
    "seconds",
    "date",
    "versions",
)
_TASKS = Path(__file__).parent / "tasks.json"


def describe(
    model: str, server: str | None, reasoning: str | int | None, date: str
) -> dict[str, Any]:
    """Return what was tried, without an address and without the folder of a model file.

    Args:
        model: "provider:name".
        server: The server in the words of the sender, such as "Ollama 0.12, Q4_K_M".
        reasoning: The setting, or None.
        date: The day.
    """
    provider, _, name = model.partition(":")
    if re.match(r"[/~.\\]|[A-Za-z]:[/\\]", name):
        name = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    place = "another address" if os.environ.get("LLM_BASE_URL") else "default address"
    return {
        "model": f"{provider}:{name}",
        "server": server or f"{provider}, {place}",
        "reasoning": reasoning,
        "date": date,
        "versions": {
            "llm-stages": importlib.metadata.version("llm-stages"),
            "tasks": hashlib.sha256(_TASKS.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:8],
            "Python": platform.python_version(),
            "system": platform.system(),
        },
    }


def markdown(tried: Mapping[str, Any], dialects: Mapping[str, Sequence[Trial]]) -> str:
    """Return the report.

    Args:
        tried: The result of `describe`.
        dialects: The trials of each dialect.
    """
    versions = ", ".join(f"{name} {version}" for name, version in tried["versions"].items())
    parts = [
        f"# {tried['model']} with the tasks of `make try-model`",
        table(COLUMNS, [row(tried, name, trials, versions) for name, trials in dialects.items()]),
        "`first try` counts the tasks that were solved without feedback.",
    ]
    for name, trials in dialects.items():
        kinds = dict.fromkeys(trial.kind for trial in trials)
        by_kind = [[kind, *figures([one for one in trials if one.kind == kind])] for kind in kinds]
        failed = ", ".join(trial.name for trial in trials if trial.problem is not None)
        parts += [
            f"## {name.capitalize()} dialect",
            table(("kind of task", *COLUMNS[4:10]), by_kind),
            f"Not solved: {failed or 'none'}.",
        ]
    return "\n\n".join(parts) + "\n"


def row(
    tried: Mapping[str, Any], dialect: str, trials: Sequence[Trial], versions: str
) -> list[str]:
    """Return the row of a dialect, with the columns of the page."""
    head = [tried["model"], tried["server"], str(tried["reasoning"] or "default"), dialect]
    return [*head, *figures(trials), tried["date"], versions]


def figures(trials: Sequence[Trial]) -> list[str]:
    """Return the figures of some tasks."""
    solved = [trial for trial in trials if trial.problem is None]
    tokens = [trial.tokens for trial in trials if trial.tokens is not None]
    return [
        f"{len(solved)}/{len(trials)}",
        f"{sum(not trial.feedback for trial in solved)}/{len(trials)}",
        f"{sum(trial.feedback for trial in trials)}",
        f"{sum(trial.writes_with_text for trial in trials)}",
        f"{sum(tokens):,}" if tokens else "not counted",
        f"{sum(trial.seconds for trial in trials):.1f}",
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(each.replace('|', '/') for each in line)} |" for line in lines)
