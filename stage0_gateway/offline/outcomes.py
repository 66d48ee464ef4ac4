"""What has been done about a question: the calls in the conversation, each with its result.

Reads both ways of writing them down: native tool calls with tool messages, and decisions in JSON with
results as user messages that start with `[Tool result for NAME]`. Knows nothing of which tool fits. Used
by `reading.py`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from stage0_gateway.messages import Message

_FEEDBACK = "[Feedback]"
_OPENING = re.compile(r"\{")
_RESULT = re.compile(r"^\[Tool result for ([^\]\n]{1,200})\][ \t]*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A tool call made for this question, and what came of it; `text` is None while nothing came."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    is_error: bool = False


def outcomes_in(messages: Sequence[Message]) -> tuple[Outcome, ...]:
    """The tool calls in these messages, oldest first, each with its result where one came."""
    done: list[Outcome] = []
    place: dict[str, int] = {}
    for message in messages:
        if message.role == "assistant":
            for call in message.tool_calls:
                place[call.id] = len(done)
                done.append(_called(call.name, read_json(call.arguments)))
            done.extend(_decided(message))
        elif message.role == "tool":
            _settle(done, place.get(message.tool_call_id or ""), message.name or "The tool", message)
        elif message.role == "user" and (results := list(_results(message.text))):
            for name, text in results:
                waiting = (i for i, one in enumerate(done) if one.tool == name and one.text is None)
                _settle(done, next(waiting, None), name, Message.user(text))
    return tuple(done)


def _called(name: str, arguments: Any) -> Outcome:
    return Outcome(name, arguments if isinstance(arguments, dict) else {})


def _decided(message: Message) -> Iterator[Outcome]:
    plain = _last_object(message.text)
    if isinstance(plain, dict) and isinstance(plain.get("tool"), str):
        yield _called(plain["tool"], plain.get("arguments"))


def _last_object(text: str) -> Any:
    """The last JSON object in a text; fences and words around it are none of its business."""
    end = text.rfind("}") + 1
    starts = (match.start() for match in islice(_OPENING.finditer(text[:end]), 20))
    return next((plain for start in starts if (plain := read_json(text[start:end])) is not None), None)


def _settle(done: list[Outcome], index: int | None, name: str, result: Message) -> None:
    text = result.text.strip()
    is_error = result.is_error or text.startswith("Error")
    if index is None:  # its call is no longer in sight
        done.append(Outcome(name, {}, text, is_error))
    else:
        done[index] = replace(done[index], text=text, is_error=is_error)


def _results(text: str) -> Iterator[tuple[str, str]]:
    if not _RESULT.match(text):
        return
    marks = list(_RESULT.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        yield mark[1], text[mark.end() : following.start() if following else None].strip()


def feedback_in(messages: Sequence[Message]) -> str | None:
    """What the host says of the last reply, where that is the last message."""
    last = messages[-1] if messages else None
    if last is None or last.role != "user" or not last.text.startswith(_FEEDBACK):
        return None
    return last.text.removeprefix(_FEEDBACK).strip()


def is_host_note(message: Message) -> bool:
    """Whether a user message is from the host program (a tool result, feedback) and not from the person."""
    return message.text.startswith(_FEEDBACK) or _RESULT.match(message.text) is not None


def read_json(text: str) -> Any:
    """The JSON value of a text, or None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
