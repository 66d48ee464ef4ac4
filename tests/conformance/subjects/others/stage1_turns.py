"""Stage 1 in another design: turns, a pinned question, and a file of lines.

A turn is one message, or a message with calls and its results. A window keeps the newest turns and
the newest question, so that a long question loses its first turns only. Tokens are estimated from
the width of the characters. A file is read line by line; a complete last line without its end is
kept.
"""

import json
import os
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Message = dict[str, Any]


class TooSmall(Exception):
    """The newest turn and its question do not fit."""

    kind = "too_small"


class Damaged(Exception):
    """A line of the file is not a message."""

    kind = "damaged"


# ---- messages


def messages(parts: Iterable[list[str]]) -> list[Message]:
    return [create(*part) for part in parts]


def create(kind: str, *texts: str) -> Message:
    """Create a message from its kind and its texts."""
    match kind:
        case "tool_result":
            return {"role": "tool", "content": texts[1], "tool_call_id": texts[0]}
        case "feedback":
            return {"role": "user", "content": texts[0], "name": "feedback"}
    return {"role": kind, "content": texts[0]}


def calls_of(message: Message) -> list[Any]:
    return message.get("tool_calls") or []


# ---- count


def count(message: Message) -> int:
    texts = [message.get("content") or ""]
    for call in calls_of(message):
        texts += call["function"].values()
    widths = Counter(map(width, "".join(texts)))
    return 5 + round(0.26 * widths["narrow"] + 1.1 * widths["wide"] + 0.6 * widths["other"])


def width(character: str) -> str:
    """Return how wide a character is, which is a measure of the tokens that it needs."""
    if character.isascii():
        return "narrow"
    return "wide" if unicodedata.east_asian_width(character) in "WF" else "other"


# ---- window


@dataclass
class Turn:
    """A message and the results of its calls."""

    messages: list[Message]
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = sum(map(count, self.messages))

    @property
    def is_question(self) -> bool:
        first = self.messages[0]
        return first["role"] == "user" and first.get("name") != "feedback"


def turns_of(messages: Iterable[Message]) -> Iterator[Turn]:
    """Yield the turns of a conversation."""
    group: list[Message] = []
    for message in messages:
        if group and message["role"] != "tool":
            yield Turn(group)
            group = []
        group.append(message)
    if group:
        yield Turn(group)


def window(messages: list[Message], max_tokens: int = 0, spare: int | None = None) -> list[Message]:
    if spare is not None:
        max_tokens = sum(map(count, messages)) + spare
    system = [message for message in messages if message["role"] == "system"]
    turns = [*turns_of(message for message in messages if message["role"] != "system")]
    question = next((turn for turn in reversed(turns) if turn.is_question), None)
    left = max_tokens - sum(map(count, system)) - (question.tokens if question else 0)
    kept: deque[Turn] = deque()
    for turn in reversed(turns):
        if turn is not question:
            left -= turn.tokens
        if left < 0:
            break
        kept.appendleft(turn)
    if turns and not kept:
        raise TooSmall(f"{-left} tokens are missing.")
    if question is not None and not any(turn is question for turn in kept):
        kept.appendleft(question)
    return system + [message for turn in kept for message in turn.messages]


# ---- repair


def repair(messages: list[Message]) -> list[Message]:
    """Assign each result to the newest call with its id, and then write the turns down."""
    answers: dict[int, dict[str, Message]] = {}
    newest: dict[str, int] = {}
    for position, message in enumerate(messages):
        if message["role"] == "tool":
            caller = newest.get(message["tool_call_id"])
            if caller is not None:
                answers[caller].setdefault(message["tool_call_id"], message)
        elif calls := calls_of(message):
            answers[position] = {}
            newest |= {call["id"]: position for call in calls}
    repaired: list[Message] = []
    for position, message in enumerate(messages):
        if message["role"] == "tool":
            continue
        repaired.append(message)
        for call in calls_of(message):
            repaired.append(answers[position].get(call["id"]) or unknown(call["id"]))
    return repaired


def unknown(call_id: str) -> Message:
    """Return the result of a call whose effect is unknown."""
    text = "The program was stopped while this call ran. Check whether it had an effect."
    return create("tool_result", call_id, text)


# ---- store


class Conversation:
    """Messages in memory, and in a file if there is a path."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.messages = repair([*stored(Path(path))]) if path and Path(path).exists() else []

    def add(self, message: Message) -> None:
        """Write a message with one call of the system, and then remember it."""
        if self.path:
            line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
            file = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
            try:
                os.write(file, line)
            finally:
                os.close(file)
        self.messages.append(message)


def stored(path: Path) -> Iterator[Message]:
    """Yield the messages of a file; complete or remove a last line without its end."""
    *lines, last = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        message = parsed(line)
        if message is None:
            raise Damaged(f"Line {number} is not a message.")
        yield message
    if message := parsed(last):
        with path.open("ab") as file:
            file.write(b"\n")
        yield message
    elif last:
        os.truncate(path, path.stat().st_size - len(last))


def parsed(line: bytes) -> Message | None:
    """Return the message in a line, or None."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "role" in message else None


def history(path: str | None = None, add: Iterable[Message] = ()) -> Any:
    conversation = Conversation(path)
    loaded = [*conversation.messages]
    for message in add:
        conversation.add(message)
    again = Conversation(path).messages
    return {"loaded": loaded, "messages": conversation.messages, "loaded_again": again}


def writers(path: str, add: list[Message]) -> Any:
    conversations = Conversation(path), Conversation(path)
    for number, message in enumerate(add):
        conversations[number % 2].add(message)
    return {"loaded_again": Conversation(path).messages}


OPERATIONS = {
    "messages": messages,
    "count": count,
    "window": window,
    "repair": repair,
    "history": history,
    "writers": writers,
}
