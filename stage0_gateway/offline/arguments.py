"""Fill the arguments of a tool, or the fields of a reply, from the words of a text.

Covered are strings, URLs, numbers, integers, booleans and enums. Not covered are nested objects,
arrays and limits such as `minimum`. An optional argument is filled only if it has an enum and the
text contains one of its values. A required argument without a value is reported as missing, and
never invented.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from stage0_gateway.json_fields import parse_json
from stage0_gateway.offline.conversation import MAX_QUESTION
from stage0_gateway.offline.tool_selection import properties_of, stems

_NUMBER = r"-?\d{1,15}(?:\.\d{1,15})?"
_NUMBERS = re.compile(rf"(?<![\w.-]){_NUMBER}(?![\w-])")
_QUOTED = re.compile(r'"([^"]{1,2000})"|“([^”]{1,2000})”')
_URL = re.compile(r"https?://[^\s<>\"“”]{1,2000}|\bwww\.[^\s<>\"“”]{1,2000}")
_CAPITALIZED = r"\b[A-ZÀ-ÖØ-Þ][\w-]*"
_NAME = re.compile(rf"{_CAPITALIZED}(?: {_CAPITALIZED})*|[\u4e00-\u9fff]{{2,4}}(?=的)")
_FREE_TEXT = stems("query question text message content body expression")
_LINK = stems("url uri href link website")
_EMPTY = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


def fill(
    schema: Mapping[str, Any], text: str, topic: frozenset[str] = frozenset(), results: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments in a text, and the names of the missing ones.

    Args:
        schema: The JSON Schema of an object.
        text: The question, or a part of it.
        topic: The words of the tool's name. They are not values.
        results: Results of earlier tools to which the text refers.
    """
    properties, values = properties_of(schema), _Values(text, topic, results)
    listed = schema.get("required")
    names = listed if isinstance(listed, list) else []
    required = [name for name in names if isinstance(name, str)]
    found: dict[str, Any] = {}
    for name, property_schema in properties.items():
        value = values.take(name, property_schema, required=name in required)
        if value is not None:
            found[name] = value
    return found, [name for name in required if name not in found]


def fill_reply(
    schema: Mapping[str, Any], question: str, results: Iterable[tuple[str, str | None]] = ()
) -> Any:
    """Return an object, or a list of one. Required fields without a value are empty.

    Args:
        schema: The JSON Schema of an object, or of a list of objects.
        question: The question.
        results: The tools that ran, and their results. A field has the value of the same field in a
            result; or the text of a tool with its name, such as `find_hotel` for "hotel".
    """
    items = schema.get("items")
    if _type(schema) == "array" and isinstance(items, Mapping):
        return [_fill_object(items, question, results)]
    return _fill_object(schema, question, results)


def _fill_object(
    schema: Mapping[str, Any], question: str, results: Iterable[tuple[str, str | None]]
) -> dict[str, Any]:
    properties, texts, known = properties_of(schema), [question], dict[str, Any]()
    for tool, result in results:
        value = parse_json(result or "")
        if isinstance(value, dict):
            known |= value
            continue
        text = value if isinstance(value, str) else result or ""
        texts.append(text[:MAX_QUESTION])
        known |= {name: text for name in properties if stems(name) and stems(name) <= stems(tool)}
    known = {name: known[name] for name in properties if _fits(known.get(name), properties[name])}
    others = {name: field for name, field in properties.items() if name not in known}
    rest = {**schema, "properties": others}
    fields, missing = fill(rest, "\n".join(texts))
    empty = {name: _EMPTY.get(_type(properties.get(name, {}))) for name in missing}
    return fields | empty | known


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value of a result has the type of a field."""
    types: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    kind = _type(schema)
    is_type = isinstance(value, types.get(kind, list if kind == "array" else dict))
    choices = schema.get("enum")
    is_choice = value in choices if isinstance(choices, list) else True
    return is_type and is_choice and isinstance(value, bool) == (kind == "boolean")


def trim(text: str, topic: frozenset[str] = frozenset()) -> str:
    """Remove the words at both ends of a text that are stop words or belong to the topic."""
    words = text.split()
    while words and not stems(words[0]) - topic:
        del words[0]
    while words and not stems(words[-1]) - topic:
        del words[-1]
    return " ".join(words).strip(".,;:?!，。？！")


def names_in(text: str, topic: frozenset[str] = frozenset()) -> list[str]:
    """Return the names in a text: words that begin with a capital, such as "New York"."""
    trimmed = (trim(name, topic) for name in _NAME.findall(text))
    return [name for name in trimmed if name]


class _Values:
    """The values in a text. A value is used once."""

    def __init__(self, text: str, topic: frozenset[str], results: str) -> None:
        self._text = text
        self._quoted: list[str] = [straight or curly for straight, curly in _QUOTED.findall(text)]
        self._urls = [url.rstrip(".,;:?!)]}'") for url in _URL.findall(f"{text} {results}")]
        self._names = names_in(_URL.sub(" ", _QUOTED.sub(" ", text)), topic) + names_in(results)
        self._numbers = _NUMBERS.findall(text) + _NUMBERS.findall(results)
        self._rest = results or trim(text, topic)

    def take(self, name: str, schema: Mapping[str, Any], *, required: bool) -> Any:
        """Return a value for a parameter, or None."""
        choices = schema.get("enum")
        if isinstance(choices, list):
            return self._choice(choices)
        match _type(schema) if required else None:
            case "boolean":
                return self._find(rf"\b{re.escape(name)}\b") is not None
            case "integer" | "number" as kind:
                return self._number(kind == "integer")
            case "string" if stems(name) & _LINK or schema.get("format") in ("uri", "url"):
                return self._urls.pop(0) if self._urls else None
            case "string":
                return self._string(name)
        return None

    def _choice(self, choices: list[Any]) -> Any:
        for choice in choices:
            pattern = rf"(?<!\w){re.escape(str(choice))}(?!\w)"
            if isinstance(choice, str | int) and self._find(pattern):
                return choice
        return None

    def _number(self, is_integer: bool) -> int | float | None:
        for number in self._numbers:
            if not (is_integer and "." in number):
                self._numbers.remove(number)
                return float(number) if "." in number else int(number)
        return None

    def _string(self, name: str) -> str | None:
        if self._names and not stems(name) & _FREE_TEXT:
            return self._names.pop(0)
        if self._quoted:
            return self._quoted.pop(0)
        rest, self._rest = self._rest, ""
        return rest or None

    def _find(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self._text, re.IGNORECASE)


def _type(schema: Mapping[str, Any]) -> str:
    """The type of a schema. Of several, the first."""
    branches = schema.get("anyOf")
    if isinstance(branches, list) and branches and isinstance(branches[0], Mapping):
        schema = branches[0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    return kind if isinstance(kind, str) else ""
