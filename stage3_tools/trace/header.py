"""The header of a run: versions, model, session, dialect and options.

Options with a plain value are written as they are. Of functions, only the name is written. Used by
`recorder`.
"""

import platform
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from time import time
from typing import Any

from stage0_gateway import ChatModel
from stage3_tools.options import RunLimits, ToolLoopOptions
from stage3_tools.result import plain_data
from stage3_tools.run.state import RunState
from stage3_tools.trace.rules import RULES_VERSION
from stage3_tools.trace.values import RunParent

FORMAT_VERSION = 1

DIALECT_SETTINGS = ("multiple", "strict", "thinking_opened")
"""Settings of `PromptDialect`, which are its attributes."""

_ENTRIES = {"RunnerParams": "runner", "ToolChainOptions": "chain"}
_OPTIONS = [
    each.name for each in fields(ToolLoopOptions) if each.name not in ("dialect", "trace", "model")
]


def header(run: RunState, gateway: ChatModel | None, parent: RunParent | None) -> dict[str, Any]:
    """Return the fields of the first line of a run."""
    options, written = run.options, dict[str, Any]()
    for name in _OPTIONS:
        value = getattr(options, name)
        if value is not None and value != ():
            written[name] = _plain(value)
    if options.output_type is not None:
        written["output_type"] = run.deps.output_controller.compile(options.output_type).schema
    fields: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "rules": RULES_VERSION,
        "time": time(),
        "entry": _ENTRIES.get(type(options).__name__, "loop"),
        "model": options.model or (gateway and gateway.model),
        "session_id": run.transcript.session_id,
        "dialect": described_dialect(run.dialect),
        "options": written,
        "packages": _packages(),
    }
    return fields if parent is None else {**fields, "parent": asdict(parent)}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping | tuple):
        return plain_data(value)
    if isinstance(value, RunLimits):
        return {name: limit for name, limit in asdict(value).items() if limit is not None}
    return getattr(value, "__qualname__", type(value).__qualname__)


def described_dialect(dialect: object) -> Mapping[str, Any]:
    """The name of a dialect's class, and its settings."""
    settings = {name: getattr(dialect, name) for name in DIALECT_SETTINGS if hasattr(dialect, name)}
    return {"name": type(dialect).__name__, **settings}


@cache
def _packages() -> Mapping[str, str]:
    packages = {"python": platform.python_version()}
    try:
        return {"llm-stages": version("llm-stages"), **packages}
    except PackageNotFoundError:  # a copy of the source
        return packages
