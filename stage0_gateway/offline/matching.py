"""Which tool fits a text: the one that shares most words with it, or none.

A word in a tool's name says most, one in its description less, one in its parameters least; words that
stand in many names ("get", "list") say little. Knows no arguments and no results. Used by `planning.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from stage0_gateway.offline.words import stem, word_set, words_of
from stage0_gateway.request import ToolSpec

ENOUGH = 3.0
"""The score from which a tool fits: one telling word of its name, or three of its description."""

_READ = 2_000  # characters of one description; a longer one would fit every question
_VERBS = frozenset(
    stem(word)
    for word in word_set(
        "get set find search calculate compute fetch list create update delete check show run make "
        "determine generate analyze estimate predict current number data info information api tool "
        "function new start open change control execute send query request retrieve total type name"
    )
)


@dataclass(frozen=True, slots=True)
class ToolWords:
    """The words of a tool by where they stand; a word counts only at its best place."""

    name: frozenset[str]
    description: frozenset[str]
    parameters: frozenset[str]


def tool_words(tool: ToolSpec) -> ToolWords:
    """Split what is said of a tool into words."""
    return _split(tool.name[:_READ], tool.description[:_READ], _parameter_text(tool))


def score(words: ToolWords, said: frozenset[str]) -> float:
    """How well a tool fits what was said; 0 where nothing is shared."""
    shared = words.name & said
    named = sum(1.0 if word in _VERBS else 3.0 for word in shared)
    # A name said whole says more than one word of a long name; a name of verbs alone is said by its verb.
    telling = words.name - _VERBS
    whole = len(shared & telling) / len(telling) if telling else 3.0 * (words.name <= said and bool(shared))
    described = sum(0.25 if word in _VERBS else 1.0 for word in words.description & said)
    return named + whole + described + 0.4 * len(words.parameters & said)


def best_tool(text: str, tools: Sequence[ToolSpec], *, at_least: float = ENOUGH) -> ToolSpec | None:
    """The tool that fits best, the first registered of equals; None where none reaches `at_least`."""
    said = frozenset(words_of(text))
    scores = [score(tool_words(tool), said) for tool in tools]
    best = max(scores, default=0.0)
    return tools[scores.index(best)] if scores and best >= at_least else None


@lru_cache(maxsize=1024)  # the same tools come with every request
def _split(name_text: str, description_text: str, parameter_text: str) -> ToolWords:
    name = frozenset(words_of(name_text))
    description = frozenset(words_of(description_text)) - name
    return ToolWords(name, description, frozenset(words_of(parameter_text)) - name - description)


def _parameter_text(tool: ToolSpec) -> str:
    properties = tool.parameters.get("properties")
    if not isinstance(properties, Mapping):
        return ""
    return " ".join(f"{name} {_description(schema)}" for name, schema in islice(properties.items(), 64))[
        :_READ
    ]


def _description(schema: Any) -> str:
    return str(schema.get("description") or "")[:_READ] if isinstance(schema, Mapping) else ""
