"""Select a tool by the words that it shares with a question.

Two words are equal if their first six letters are, apart from a plural s: "calculate" equals
"calculator". Words that appear in every question ("what", "the") do not count.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stage0_gateway.request import ToolSpec

MIN_SCORE = 3.0
"""The minimum score of a tool: one word of its name, or three words of its description."""

_COMMON = (
    "a about all also am an and any are as at be by can could current currently did do does for "
    "from get give had has have hello her hi him his how i if in is it its let like list look "
    "make me my no not now of off on or our out please right say set she should show so some "
    "tell than thank thanks that the their them then there these they this to today tomorrow "
    "tonight up us was we were what when where which who why will with would you your s t e g"
)
_STOP_WORDS = frozenset(_COMMON.split())
_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CHINESE = {"天气": "weather", "时间": "time", "几点": "time"}


def stems(text: str) -> frozenset[str]:
    """Return the stems of the words in a text, or in a name such as `getWeather`."""
    for chinese, english in _CHINESE.items():
        text = text.replace(chinese, f" {english} ")
    words = _WORD.findall(_CAMEL_CASE.sub(" ", text))
    return frozenset(_stem(word.lower()) for word in words if word.lower() not in _STOP_WORDS)


def best_tool(text: str, tools: Sequence[ToolSpec], minimum: float = MIN_SCORE) -> ToolSpec | None:
    """Return the first tool with the highest score, or None if it is below the minimum."""
    words = stems(text)
    scores = [_score(tool, words) for tool in tools]
    highest = max(scores, default=-1.0)
    return tools[scores.index(highest)] if highest >= minimum else None


def properties_of(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the valid properties of an object's JSON Schema."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {name: field for name, field in properties.items() if isinstance(field, Mapping)}


def _score(tool: ToolSpec, words: frozenset[str]) -> float:
    in_name = len(stems(tool.name) & words)
    in_description = len(stems(tool.description) & words)
    in_parameters = len(stems(" ".join(properties_of(tool.parameters))) & words)
    return 3.0 * in_name + 1.0 * in_description + 0.5 * in_parameters


def _stem(word: str) -> str:
    singular = word[:-1] if len(word) > 4 and word.endswith("s") else word
    return singular[:6]
