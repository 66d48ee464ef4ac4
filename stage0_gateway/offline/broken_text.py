"""Texts as models write them when they do not keep to the format: JSON with something around it or wrong in it.

Pure: a text or a value goes in, a spoiled one comes out, the same every time. Where there is nothing to
spoil (no JSON, no arguments) it comes out as it was. Knows nothing of replies or of HTTP. Used by
`broken_reply.py`; good for tests of whatever reads JSON out of a model's text.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_NO_BRACKETS = str.maketrans("{}[]", "()()")

# ---- around the JSON ------------------------------------------------------------------------------------


def fenced(text: str) -> str:
    """In a code fence, as in a chat."""
    return f"```json\n{text}\n```"


def prose_around(text: str) -> str:
    """With polite words before and after it."""
    return f"Sure! Here is what you asked for:\n\n{text}\n\nLet me know if you need anything else."


def thinking_first(text: str) -> str:
    """After thoughts in tags, with a draft in them that is as good JSON as the real object."""
    return f"{thoughts(text)}\n{text}"


def thoughts(text: str) -> str:
    """The thoughts alone."""
    value = json_object(text)
    thought = "Let me think." if value is None else f"Maybe {to_json(drafted(value))}? No, not quite."
    return f"<think>\n{thought}\n</think>"


def twice(text: str) -> str:
    """Two of them, one after the other."""
    return f"{text}\n{text}"


# ---- in the JSON ----------------------------------------------------------------------------------------


def trailing_comma(text: str) -> str:
    """With a comma after the object's last field."""
    return f"{text.rstrip()[:-1]},}}" if json_object(text) else text


def single_quotes(text: str) -> str:
    """With Python's quotes instead of JSON's."""
    return _STRING.sub(lambda found: f"'{_requoted(found[1])}'", text) if json_object(text) else text


def cut(text: str) -> str:
    """The first half."""
    return text[: len(text) // 2]


def _requoted(inside: str) -> str:
    return inside.replace('\\"', '"').replace("'", "\\'")


# ---- no JSON at all -------------------------------------------------------------------------------------


def in_words(text: str) -> str:
    """What the JSON says, as a sentence without any brackets."""
    value = json_object(text)
    if value is None:
        return text
    if isinstance(value.get("tool"), str):
        said = f"I would like to call {value['tool']}, please, where {_told(value.get('arguments'))}."
    elif isinstance(value.get("reply"), str):
        said = value["reply"]
    else:
        said = _told(value)
    return said.translate(_NO_BRACKETS)


def _told(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{name} is {_told(each)}" for name, each in value.items()) or "nothing is said"
        case list():
            return " and ".join(map(_told, value)) or "nothing"
        case str():
            return value
        case _:
            return json.dumps(value)


# ---- arguments ------------------------------------------------------------------------------------------


def renamed(arguments: Mapping[str, Any], name: str) -> dict[str, Any]:
    """With another name for one argument, near enough to be recognised."""
    other = f"{name}_name"
    while other in arguments:
        other += "_"
    return {other if each == name else each: value for each, value in arguments.items()}


def retyped(arguments: Mapping[str, Any], name: str) -> dict[str, Any]:
    """With one argument as another type: a text in a list, anything else as text."""
    value = arguments[name]
    return {**arguments, name: [value] if isinstance(value, str) else to_json(value)}


def without(arguments: Mapping[str, Any], name: str) -> dict[str, Any]:
    """With one argument left out."""
    return {each: value for each, value in arguments.items() if each != name}


# ---- JSON -----------------------------------------------------------------------------------------------


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def to_json(value: Any) -> str:
    """A value as the teacher writes JSON."""
    return json.dumps(value, ensure_ascii=False)


def drafted(value: Any) -> Any:
    """The same object with other contents: each text but the tool's name is "draft"."""
    if isinstance(value, dict):
        return {name: each if name == "tool" else drafted(each) for name, each in value.items()}
    if isinstance(value, list):
        return [drafted(each) for each in value]
    return "draft" if isinstance(value, str) else value
