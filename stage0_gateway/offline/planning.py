"""Which calls a question needs: its clauses, the tool for each, and the arguments for each of its names.

"What time is it, and what is the weather in Beijing and Shanghai?" needs three. Knows nothing of what has
been called already, nor of how a call is written down. Used by `teacher.py`, which makes the first call
that has not been made.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stage0_gateway.offline.filling import Filled, fill_each
from stage0_gateway.offline.matching import best_tool
from stage0_gateway.offline.reading import Reading
from stage0_gateway.offline.words import words_of
from stage0_gateway.request import ToolSpec

_BREAK = re.compile(r"[?!.;]\s+|,?\s+(?:and|then|also)\s+|[，。？！；]|以及|还有|和")
_FOLLOW_UP = re.compile(r"(?i)^(?:and|what about|how about|那)\b|^那")
_SURE = 4.0  # a clause takes a tool of its own only when its words name it
_CLAUSES = 12


@dataclass(frozen=True, slots=True)
class Need:
    """One call the question needs; it cannot be made while something is missing."""

    tool: ToolSpec
    arguments: dict[str, Any]
    missing: tuple[str, ...]


def needs(reading: Reading) -> list[Need]:
    """The calls a question needs, in the order of its clauses; empty where no tool fits."""
    found: list[Need] = []
    for tool, text in _parts(reading):
        for filled in _filled(tool, text, reading.question):
            need = Need(tool, filled.arguments, filled.missing)
            if need not in found:
                found.append(need)
    return found


def _parts(reading: Reading) -> list[tuple[ToolSpec, str]]:
    """The question cut where its tool changes."""
    question, tools = reading.question, _allowed(reading)
    best = best_tool(question, tools)
    if best is None:
        best = _otherwise(reading, tools)
        return [(best, question)] if best else []
    if reading.choice not in (None, "auto", "required"):
        return [(best, question)]
    parts: list[tuple[ToolSpec, int, int]] = []
    for start, end in _clauses(question):
        tool = best_tool(question[start:end], tools, at_least=_SURE)
        if parts and (tool is None or tool is parts[-1][0]):
            parts[-1] = (parts[-1][0], parts[-1][1], end)
        elif tool is not None:
            parts.append((tool, start if parts else 0, end))
    if not any(tool is best for tool, _, _ in parts):
        return [(best, question)]
    return [(tool, question[start:end]) for tool, start, end in parts]


def _allowed(reading: Reading) -> Sequence[ToolSpec]:
    if reading.choice in (None, "auto", "required"):
        return reading.tools
    return [tool for tool in reading.tools if tool.name == reading.choice]


def _otherwise(reading: Reading, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The tool to use although the words name none: one the caller insists on, or the last one again."""
    if tools and reading.choice not in (None, "auto", "none"):
        return best_tool(reading.question, tools, at_least=0.0)
    if _FOLLOW_UP.search(reading.question):
        return next((tool for tool in tools if tool.name == reading.last_tool), None)
    return None


def _clauses(question: str) -> Iterator[tuple[int, int]]:
    breaks = list(_BREAK.finditer(question))[:_CLAUSES]
    starts = [0, *(mark.end() for mark in breaks)]
    ends = [*(mark.end() for mark in breaks), len(question)]
    yield from zip(starts, ends, strict=True)


def _filled(tool: ToolSpec, text: str, question: str) -> list[Filled]:
    subject = frozenset(words_of(tool.name[:200]))
    each = fill_each(tool.parameters, text, subject)
    if each[0].missing and text != question:  # what its clause does not say, the whole question may
        return fill_each(tool.parameters, question, subject)
    return each
